//! What each architecture asks of its rows, and the parts of fused tensors.

use std::collections::BTreeSet;

use cajeta_catalog::op::{Op, attr};

use crate::config::{ARCHITECTURES, ModelConfig, RopeScaling};
use crate::gguf::GgufFile;
use crate::plan::{Plan, Scalars};
use crate::quant::Format;
use crate::synth::{self, Recipe, Shape, SynthOptions};

fn shape() -> Shape {
    Shape { n_layer: 6, sliding_window: Some(16), ..Shape::named("tiny").unwrap() }
}

/// The configuration and plan of a synthetic model, for a context of `ctx`.
fn plan(architecture: &str, shape: Shape, format: Format, ctx: u32) -> (ModelConfig, Plan) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let (recipe, architecture) = (Recipe::Uniform(format), architecture.to_string());
    let options = SynthOptions { architecture, shape, recipe, seed: 1, context: None, threads: None };
    synth::write(&options, &path, &mut |_, _| {}).unwrap();
    let file = GgufFile::open(&path).unwrap();
    let config = ModelConfig::from_gguf(&file).unwrap();
    let plan = Plan::build_for_context(&config, &file, ctx).unwrap();
    (config, plan)
}

/// The attributes of the ops of one kind, each combination once.
fn attrs(plan: &Plan, op: Op) -> Vec<u64> {
    plan.ops
        .iter()
        .filter(|found| found.op == op)
        .map(|op| op.attrs)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

#[test]
fn each_architecture_asks_for_what_only_it_has() {
    for &architecture in ARCHITECTURES {
        let (config, plan) = plan(architecture, shape(), Format::F16, 512);
        let gemma = architecture.starts_with("gemma");
        assert_eq!(attrs(&plan, Op::Embed), [if gemma { attr::SCALE } else { 0 }], "{architecture}");
        assert_eq!(attrs(&plan, Op::Glu), [if gemma { attr::GLU_GELU } else { 0 }], "{architecture}");
        let pairs = if architecture == "llama" { attr::ROPE_PAIRS } else { 0 };
        assert_eq!(attrs(&plan, Op::RopeAppend), [pairs], "{architecture}");
        let attention = match architecture {
            "gemma2" => vec![attr::SOFTCAP, attr::SOFTCAP | attr::WINDOW],
            "gemma3" => vec![0, attr::WINDOW],
            _ => vec![attr::WINDOW],
        };
        assert_eq!(attrs(&plan, Op::Attention), attention, "{architecture}");
        let products = match architecture {
            "qwen2" => vec![0, attr::BIAS],
            "gemma2" => vec![0, attr::SOFTCAP],
            _ => vec![0],
        };
        assert_eq!(attrs(&plan, Op::Matmul), products, "{architecture}");
        let heads: Vec<(u32, u64)> =
            plan.ops.iter().filter(|op| op.per_row > 1).map(|op| (op.per_row, op.k)).take(2).collect();
        let expected: &[(u32, u64)] =
            if matches!(architecture, "qwen3" | "gemma3") { &[(4, 64), (2, 64)] } else { &[] };
        assert_eq!(heads, expected, "{architecture}");
        let windows: Vec<u32> = plan.kv.iter().map(|kv| kv.window).collect();
        assert_eq!(windows, config.attention.windows);
    }
}

#[test]
fn caps_and_windows_reach_the_scalars() {
    let (_, plan) = plan("gemma2", shape(), Format::F32, 512);
    let seen: Vec<(f32, u32)> = plan
        .ops
        .iter()
        .filter_map(|op| match op.scalars {
            Scalars::Attention(scalars) => Some((scalars.softcap, scalars.window)),
            _ => None,
        })
        .collect();
    assert_eq!(seen, [(50.0, 16), (50.0, 0)].repeat(3));
    let Scalars::Matmul(last) = plan.ops[plan.ops.len() - 1].scalars else { panic!("the head is a matmul") };
    assert_eq!(last.softcap, 30.0);
}

#[test]
fn parts_of_fused_tensors_are_their_rows() {
    let (_, plan) = plan("phi3", shape(), Format::Q4_K, 512);
    let parts: Vec<_> =
        plan.tensors.iter().filter(|tensor| tensor.name.starts_with("blk.1.attn_qkv")).collect();
    let names: Vec<&str> = parts.iter().map(|tensor| tensor.name.as_str()).collect();
    let expected = [
        "blk.1.attn_qkv.weight[0..256]",
        "blk.1.attn_qkv.weight[256..384]",
        "blk.1.attn_qkv.weight[384..512]",
    ];
    assert_eq!(names, expected);
    // One block of 144 bytes is a row.
    assert_eq!(parts.iter().map(|part| part.bytes).collect::<Vec<_>>(), [256 * 144, 128 * 144, 128 * 144]);
    assert_eq!(parts[1].offset - parts[0].offset, 256 * 144);
    assert_eq!(parts[2].offset - parts[1].offset, 128 * 144);
}

#[test]
fn the_context_chooses_the_rotary_factors() {
    let rope_scaling = RopeScaling::LongRope { original_ctx: 128, attn_factor: 1.0 };
    for (ctx, expected) in [(128, "rope_factors_short.weight"), (129, "rope_factors_long.weight")] {
        let shape = Shape { rope_scaling: rope_scaling.clone(), ..shape() };
        let (_, plan) = plan("phi3", shape, Format::F32, ctx);
        let names: Vec<&str> = plan
            .tensors
            .iter()
            .map(|tensor| tensor.name.as_str())
            .filter(|name| name.starts_with("rope"))
            .collect();
        assert_eq!(names, [expected]);
        assert_eq!(attrs(&plan, Op::RopeAppend), [attr::ROPE_FACTORS]);
    }
}
