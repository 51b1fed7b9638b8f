//! Widened copies: which layouts are, whose rows serve while there are some, and which belong together.

use super::*;
use cajeta_abi::{ReadyGate, ReadyKind};

/// A weight at one byte a value: nearly twice what Q4_K takes.
fn wide(access: Access) -> ArgSpec {
    ArgSpec { layout: OWN, access, ..weight() }
}

/// The basic rows, the product over blocks if `declined`, one over widened weights, and what widens.
fn toy(declined: bool) -> Toy {
    let (read, write) = (arg(Access::READ), arg(Access::WRITE));
    let layout = Layout {
        name: RStr::from_str("int8"),
        kind: LayoutKind::WEIGHT,
        sources: 1,
        formats: slice(vec![FormatId(Format::Q4_K.id())]),
        align: 1,
    };
    let mut toy = Toy { rows: basics(), layouts: vec![layout] };
    if declined {
        let gate = ReadyGate { name: RStr::from_str("widening declined"), kind: ReadyKind::WIDEN_DECLINED };
        toy.rows[1].ready_gates = slice(vec![gate]);
    }
    toy.rows.push(plain("matmulWide", -5, Op::Matmul, vec![read, wide(Access::READ), write]));
    let wires = vec![Wire::arg(0), Wire::ABSENT, Wire::ABSENT, Wire::arg(1)];
    let mut widen = row("widen", 0, vec![(Op::Relayout, wires)], vec![weight(), wide(Access::WRITE)]);
    widen.regime = Regime::BIND;
    toy.rows.push(widen);
    toy
}

fn served(toy: &Toy, resident: &dyn Fn(&WeightKey) -> bool) -> Vec<&'static str> {
    let program = lower(toy, &plan(), Segment::Body, &sizes(), resident).expect("lowers");
    program.launches.iter().map(|launch| toy.rows[launch.row].name.as_str()).collect()
}

#[test]
fn a_layout_is_widened_by_what_its_format_takes_there() {
    let toy = toy(false);
    let key = |layout, id| WeightKey::new(layout, [TensorId(id)]);
    assert!(is_widened(&toy, &plan(), &key(OWN, 1)) && !is_widened(&toy, &plan(), &key(LayoutId::GGUF, 1)));
    let widens = |format: Format| widens(&toy, OWN, [FormatId(format.id())].into_iter());
    // 8.5 bits to 8, 6.56 to 8 and 4.5 to 8.
    assert_eq!([Format::Q8_0, Format::Q6_K, Format::Q4_K].map(widens), [false, false, true]);
}

#[test]
fn a_row_for_where_widening_was_declined_serves_until_somebody_widens() {
    let toy = toy(true);
    assert_eq!(served(&toy, &WeightKey::is_file), ["norm", "matmul", "matmul", "add"]);
    let first = |key: &WeightKey| key.is_file() || key.tensors.first() == Some(&TensorId(1));
    assert_eq!(served(&toy, &first), ["norm", "matmulWide", "matmul", "add"]);
    let groups = declare_widened(&toy, &plan(), Segment::Body, &sizes()).expect("lowers");
    assert_eq!(groups, [[TensorId(1)], [TensorId(2)]].map(|id| vec![WeightKey::new(OWN, id)]));
}

#[test]
fn without_a_gate_or_an_answer_nothing_is_widened() {
    let toy = toy(false);
    assert_eq!(served(&toy, &|_| true), ["norm", "matmul", "matmul", "add"]);
    assert_eq!(declare_widened(&toy, &plan(), Segment::Body, &sizes()).expect("lowers"), [[]; 0]);
}

#[test]
fn copies_that_one_row_reads_come_together() {
    let mut toy = toy(true);
    let product = |at, value| vec![Wire::arg(0), Wire::arg(at), Wire::ABSENT, Wire::internal(value)];
    let steps = vec![
        (Op::Matmul, product(1, 0)),
        (Op::Matmul, product(2, 1)),
        (Op::Add, vec![Wire::internal(0), Wire::internal(1), Wire::arg(3)]),
    ];
    let args = vec![arg(Access::READ), wide(Access::READ), wide(Access::READ), arg(Access::WRITE)];
    toy.rows.push(row("pairWide", 7, steps, args));
    let groups = declare_widened(&toy, &plan(), Segment::Body, &sizes()).expect("lowers");
    assert_eq!(groups, [[1, 2].map(|id| WeightKey::new(OWN, [TensorId(id)])).to_vec()]);
}
