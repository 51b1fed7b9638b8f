//! Fusions by hand: sizes found through shared values, results through internal ones.

use super::*;
use cajeta_abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_abi::{Arith, Regime, Step};

use crate::quant::Format;

fn row(steps: &'static [Step], problem_step: u32) -> Row {
    Row {
        name: RStr::from_str("fusion"),
        family: RStr::from_str(""),
        regime: Regime::DECODE_ROW,
        arith: Arith::F32,
        priority: 0,
        steps: RSlice::from_slice(steps),
        problem_step,
        args: RSlice::EMPTY,
        needs: RSlice::EMPTY,
        shape_gates: RSlice::EMPTY,
        ready_gates: RSlice::EMPTY,
    }
}

const fn step(op: Op, operands: &'static [Wire]) -> Step {
    Step { op: op.id(), attrs: attr::BIAS, operands: RSlice::from_slice(operands) }
}

const fn arg(index: u32) -> Wire {
    Wire::arg(index)
}

/// gate and up from x, then glu; an add of x in place on top.
static GATED: [Step; 4] = [
    step(Op::Matmul, &[arg(0), arg(1), Wire::ABSENT, Wire::internal(0)]),
    step(Op::Matmul, &[arg(0), arg(2), Wire::ABSENT, Wire::internal(1)]),
    step(Op::Glu, &[Wire::internal(0), Wire::internal(1), Wire::internal(2)]),
    step(Op::Add, &[Wire::internal(2), arg(3), arg(3)]),
];

#[test]
fn sizes_follow_shared_values() {
    let problem = Problem { m: 3, n: 5, k: 7, ..Problem::default() };
    let composed = Composition::of(&row(&GATED, 0), &problem, &[0; 24], None, &|_| true).unwrap();
    let sizes: Vec<(u64, u64, u64)> =
        composed.steps.iter().map(|s| (s.problem.m, s.problem.n, s.problem.k)).collect();
    assert_eq!(sizes, [(3, 5, 7), (3, 5, 7), (3, 0, 5), (3, 0, 5)]);
    assert_eq!(composed.internals, [60, 60, 60]);
    assert_eq!(composed.steps[0].attrs, 0, "an absent bias is not asked for");
}

#[test]
fn a_second_projection_without_a_shared_output_has_aux_outputs() {
    static PAIR: [Step; 2] = [
        step(Op::Matmul, &[arg(0), arg(1), Wire::ABSENT, arg(3)]),
        step(Op::Matmul, &[arg(0), arg(2), Wire::ABSENT, arg(4)]),
    ];
    let problem = Problem { m: 1, n: 4, k: 8, batch: 0, aux: 2 };
    let composed = Composition::of(&row(&PAIR, 0), &problem, &[0; 16], None, &|_| true).unwrap();
    assert_eq!((composed.steps[1].problem.n, composed.steps[1].problem.k), (2, 8));
    let open = Problem { aux: 0, ..problem };
    let error = Composition::of(&row(&PAIR, 0), &open, &[0; 16], None, &|_| true).unwrap_err();
    assert!(error.to_string().contains("nothing determines N of step 1"), "{error}");
}

#[test]
fn results_go_through_internal_values_and_in_place() {
    let x = [2.0f32];
    let (gate, up) = ([20.0f32, 0.0], [3.0f32, 9.0]);
    let mut residual = [1.0f32, 10.0];
    let problem = Problem { m: 1, n: 2, k: 1, ..Problem::default() };
    let composed = Composition::of(&row(&GATED, 0), &problem, &[0; 24], None, &|_| true).unwrap();
    let mut args = [
        OracleBuf::Plain(bytemuck::cast_slice(&x)),
        OracleBuf::Weight(Format::F32, bytemuck::cast_slice(&gate)),
        OracleBuf::Weight(Format::F32, bytemuck::cast_slice(&up)),
        OracleBuf::Out(bytemuck::cast_slice_mut(&mut residual)),
    ];
    composed.run(&mut args).unwrap();
    // silu(40) = 40, times 6; silu(0) = 0.
    assert_eq!(residual, [241.0, 10.0]);
}

#[test]
fn pack_is_the_identity() {
    static PACKED: [Step; 2] =
        [step(Op::Add, &[arg(0), arg(1), Wire::internal(0)]), step(Op::Pack, &[Wire::internal(0), arg(2)])];
    let (a, b, mut out) = ([1.0f32, 2.0], [3.0f32, 4.0], [0f32; 2]);
    let problem = Problem { m: 1, k: 2, ..Problem::default() };
    let composed = Composition::of(&row(&PACKED, 0), &problem, &[], None, &|_| true).unwrap();
    let mut args = [
        OracleBuf::Plain(bytemuck::cast_slice(&a)),
        OracleBuf::Plain(bytemuck::cast_slice(&b)),
        OracleBuf::Out(bytemuck::cast_slice_mut(&mut out)),
    ];
    composed.run(&mut args).unwrap();
    assert_eq!(out, [4.0, 6.0]);
}

#[test]
fn contradicting_sizes_are_refused() {
    // The same x cannot be 7 wide for the product and, as its output, 5 wide.
    static TWISTED: [Step; 2] = [
        step(Op::Matmul, &[arg(0), arg(1), Wire::ABSENT, Wire::internal(0)]),
        step(Op::Add, &[Wire::internal(0), arg(0), arg(2)]),
    ];
    let problem = Problem { m: 3, n: 5, k: 7, ..Problem::default() };
    let error = Composition::of(&row(&TWISTED, 0), &problem, &[0; 8], None, &|_| true).unwrap_err();
    assert!(error.to_string().contains("size of"), "{error}");
}
