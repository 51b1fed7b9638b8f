//! Rows that declare that they step aside for one that somebody chose.

use cajeta_abi::{ReadyGate, ReadyKind};

use super::*;

/// A registry whose user chose others over one row.
struct Told {
    toy: Toy,
    passed_over: &'static str,
}

impl Registry for Told {
    fn rows(&self) -> &[Row] {
        self.toy.rows()
    }
    fn layouts(&self) -> &[Layout] {
        self.toy.layouts()
    }
    fn supports(&self, capability: Capability) -> bool {
        self.toy.supports(capability)
    }
    fn overridden(&self, row: &str) -> bool {
        row == self.passed_over
    }
    fn geometry(&self, row: usize, problem: &Problem, scalars: &[u8]) -> Result<Geometry, String> {
        self.toy.geometry(row, problem, scalars)
    }
    fn layout_bytes(&self, layout: LayoutId, shapes: &[Shape]) -> Result<u64, String> {
        self.toy.layout_bytes(layout, shapes)
    }
}

#[test]
fn a_row_with_the_gate_steps_aside_and_the_gate_is_named() {
    let mut rows = basics();
    let mut polite = rows[2];
    (polite.name, polite.priority) = (RStr::from_str("addFast"), 1);
    polite.ready_gates =
        slice(vec![ReadyGate { name: RStr::from_str("no override"), kind: ReadyKind::NOT_OVERRIDDEN }]);
    rows.push(polite);
    let told = |passed_over| Told { toy: Toy { rows: rows.clone(), layouts: Vec::new() }, passed_over };
    let last = |told: &Told| {
        let all = explain(told, &plan(), Segment::Body, &sizes(), &|_| true).expect("lowers");
        all.last().cloned().expect("launches")
    };
    let name = |told: &Told, row: usize| told.rows()[row].name.to_string();

    let nobody = told("");
    let first = last(&nobody);
    assert_eq!(name(&nobody, first.row), "addFast");

    let somebody = told("addFast");
    let second = last(&somebody);
    assert_eq!(name(&somebody, second.row), "add");
    let arm = &second.arms[0];
    let refusal = arm.refusal.as_ref().expect("it is refused");
    assert_eq!((arm.ahead, refusal.row.as_str(), refusal.gate.as_str()), (true, "addFast", "no override"));
    // A row without the gate does not mind.
    assert_eq!(name(&told("add"), last(&told("add")).row), "addFast");
}
