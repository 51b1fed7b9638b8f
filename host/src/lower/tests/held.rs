//! Fusions that a measurement holds back where their parts have no weights.

use super::*;
use crate::route::Preference;
use crate::route::rows::{RowCall, RowPreference};

/// A registry whose fusions lost against their parts.
struct Lost(Toy);

/// What was measured about them.
struct Slower;

impl Preference<RowCall<'_>> for Slower {
    fn held_back<'s>(&'s self, row: &str, _call: &RowCall<'_>) -> Option<&'s str> {
        row.starts_with("fused").then_some("slower")
    }
    fn refused<'s>(&'s self, row: &str, _call: &RowCall<'_>) -> Option<&'s str> {
        row.ends_with("Wrong").then_some("wrong")
    }
}

impl Registry for Lost {
    fn rows(&self) -> &[Row] {
        self.0.rows()
    }
    fn layouts(&self) -> &[Layout] {
        self.0.layouts()
    }
    fn supports(&self, capability: Capability) -> bool {
        self.0.supports(capability)
    }
    fn preference(&self) -> &RowPreference<'_> {
        &Slower
    }
    fn geometry(&self, row: usize, problem: &Problem, scalars: &[u8]) -> Result<Geometry, String> {
        self.0.geometry(row, problem, scalars)
    }
    fn layout_bytes(&self, layout: LayoutId, shapes: &[Shape]) -> Result<u64, String> {
        self.0.layout_bytes(layout, shapes)
    }
}

/// The basics, and a norm with the two products behind it over weights in a layout of its own.
fn lost(fusion: &'static str) -> Lost {
    let own = Layout {
        name: RStr::from_str("own"),
        kind: LayoutKind::WEIGHT,
        sources: 1,
        formats: slice(vec![FormatId(Format::Q4_K.id())]),
        align: 1,
    };
    let (read, write) = (arg(Access::READ), arg(Access::WRITE));
    let relaid = ArgSpec { layout: OWN, ..weight() };
    let product = |weight, out| vec![Wire::internal(0), Wire::arg(weight), Wire::ABSENT, Wire::arg(out)];
    let steps = vec![
        (Op::Norm, vec![Wire::arg(0), Wire::arg(1), Wire::internal(0)]),
        (Op::Matmul, product(2, 4)),
        (Op::Matmul, product(3, 5)),
    ];
    let mut rows = basics();
    rows.push(row(fusion, 7, steps, vec![read, read, relaid, relaid, write, write]));
    Lost(Toy { rows, layouts: vec![own] })
}

fn served(lost: &Lost, resident: &dyn Fn(&WeightKey) -> bool) -> Result<Vec<&'static str>, LowerError> {
    let program = lower(lost, &plan(), Segment::Body, &sizes(), resident)?;
    Ok(program.launches.iter().map(|launch| lost.0.rows[launch.row].name.as_str()).collect())
}

#[test]
fn a_fusion_that_lost_serves_where_its_parts_have_no_weights_to_read() {
    let lost = lost("fused");
    assert_eq!(served(&lost, &|_| true).expect("lowers"), ["norm", "matmul", "matmul", "add"]);
    // The norm has a row whatever is resident, so that the fusion is missed at a product first.
    let norm = TensorId(0);
    let relaid = |key: &WeightKey| key.tensors.contains(&norm) || !key.is_file();
    assert_eq!(served(&lost, &relaid).expect("lowers"), ["fused", "add"]);
    // Likewise where the second product alone lacks its weight.
    let half = |key: &WeightKey| !key.is_file() || !key.tensors.contains(&TensorId(2));
    assert_eq!(served(&lost, &half).expect("lowers"), ["fused", "add"]);
    let explained = explain(&lost, &plan(), Segment::Body, &sizes(), &half).expect("lowers");
    assert_eq!(explained[0].despite.as_deref(), Some("slower"));
    assert_eq!(explained[1].despite, None);
}

#[test]
fn one_that_answers_wrong_serves_nowhere() {
    let lost = lost("fusedWrong");
    let half = |key: &WeightKey| !key.is_file() || !key.tensors.contains(&TensorId(2));
    let refused = served(&lost, &half).expect_err("nothing serves the second product").to_string();
    assert!(refused.starts_with("no kernel serves matmul up"), "{refused}");
}
