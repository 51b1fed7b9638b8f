//! Plans over whole files: complete, incomplete, and with something that does not belong.

use std::path::{Path, PathBuf};

use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_model_arch::config::ModelConfig;
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::gguf::writer::Header;
use cajeta_model_arch::plan::{Plan, PlanError, PlanProblem, Rows};

fn model() -> GgufFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tales-5m.Q4_K_M.gguf");
    GgufFile::open(&path).expect("the tiny model is in the repository")
}

fn plan_of(file: &GgufFile) -> Result<Plan, PlanError> {
    Plan::build(&ModelConfig::from_gguf(file).expect("a checked configuration"), file)
}

/// What happens to a tensor on its way into an altered file: its dimensions and format may change, and it
/// is written under the name returned, or not at all.
type Change<'a> = &'a dyn Fn(&str, &mut Vec<u64>, &mut Format) -> Option<String>;

/// A copy of the tiny model whose tensors `change` may rename (`None` drops one) and reshape.
fn altered(folder: &Path, change: Change<'_>) -> PathBuf {
    let source = model();
    let mut header = Header::new();
    for (key, value) in source.metadata().iter() {
        if key != "general.alignment" {
            header.set(key, value.clone());
        }
    }
    let mut bodies = Vec::new();
    for tensor in source.tensors() {
        let (mut dims, mut format) = (tensor.dims.clone(), tensor.format);
        if let Some(name) = change(&tensor.name, &mut dims, &mut format) {
            let bytes = header.tensor(&name, &dims, format).expect("a shape that exists");
            let mut body = source.data(tensor).to_vec();
            body.resize(bytes as usize, 0);
            bodies.push(body);
        }
    }
    let path = folder.join("altered.gguf");
    let file = std::fs::File::create(&path).expect("created");
    let mut writer = header.begin(file).expect("begun");
    for body in bodies {
        writer.write(&body).expect("written");
    }
    writer.finish().expect("finished");
    path
}

#[test]
fn the_plan_of_the_tiny_model_is_its_forward_pass() {
    let plan = plan_of(&model()).expect("a plan");
    let ops: Vec<Op> = plan.ops.iter().map(|op| op.op).collect();
    let layer = [
        Op::Norm,
        Op::Matmul,
        Op::Matmul,
        Op::Matmul,
        Op::RopeAppend,
        Op::Attention,
        Op::Matmul,
        Op::Add,
        Op::Norm,
        Op::Matmul,
        Op::Matmul,
        Op::Glu,
        Op::Matmul,
        Op::Add,
    ];
    let mut expected = vec![Op::Embed];
    (0..4).for_each(|_| expected.extend(layer));
    expected.extend([Op::Copy, Op::Norm, Op::Matmul]);
    assert_eq!(ops, expected);
    assert_eq!(plan.kv.len(), 4);
    assert!(plan.ops[plan.tail..].iter().all(|op| op.rows == Rows::Out));
    assert_eq!(plan.value(plan.logits).width, 4096);
    // Every tensor but the embedding table is read by a step.
    let all: u64 = plan.tensors.iter().map(|tensor| tensor.bytes).sum();
    let table = plan.tensors.iter().find(|tensor| tensor.name == "token_embd.weight").expect("a table").bytes;
    assert_eq!(plan.step_bytes(), all - table);
}

#[test]
fn a_missing_unexpected_or_misshapen_tensor_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let refuse = |change: Change<'_>| {
        let path = altered(folder.path(), change);
        let file = GgufFile::open(&path).expect("the file itself is sound");
        plan_of(&file).expect_err("no plan").problem
    };
    let victim = "blk.2.ffn_up.weight";
    let missing = refuse(&|name, _, _| (name != victim).then(|| name.to_string()));
    assert_eq!(missing, PlanProblem::Missing { tensor: victim.into() });

    let unexpected = refuse(&|name, _, _| {
        Some(if name == victim { "blk.2.ffn_gate_shexp.weight".into() } else { name.to_string() })
    });
    // The renamed tensor's place is looked for first.
    assert_eq!(unexpected, PlanProblem::Missing { tensor: victim.into() });

    let shape = refuse(&|name, dims, _| {
        if name == victim {
            dims[1] += 1;
        }
        Some(name.to_string())
    });
    assert!(matches!(shape, PlanProblem::Shape { ref tensor, .. } if tensor == victim), "{shape}");

    // Every format that GGUF knows and nothing here reads is refused by its name.
    for &unread in Format::ALL.iter().filter(|format| !format.is_decodable()) {
        let problem = refuse(&|name, _, format| {
            if name == victim {
                *format = unread;
            }
            Some(name.to_string())
        });
        let PlanProblem::Format { ref tensor, found, .. } = problem else { panic!("{unread}: {problem}") };
        assert_eq!((tensor.as_str(), found), (victim, unread.name()));
        assert!(problem.to_string().contains(unread.name()), "{problem}");
    }

    let vector = refuse(&|name, _, format| {
        if name == "blk.0.attn_norm.weight" {
            *format = Format::F16;
        }
        Some(name.to_string())
    });
    assert!(matches!(vector, PlanProblem::VectorFormat { found: "F16", .. }), "{vector}");
}

#[test]
fn a_tensor_of_another_architecture_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    // A fifth layer's tensor without its layer.
    let path = altered(folder.path(), &|name, _, _| {
        Some(if name == "output.weight" { "blk.4.attn_q.weight".into() } else { name.to_string() })
    });
    let error = plan_of(&GgufFile::open(&path).expect("sound")).expect_err("no plan");
    let text = error.to_string();
    assert!(text.contains("blk.4.attn_q.weight") && text.contains("llama"), "{text}");
}
