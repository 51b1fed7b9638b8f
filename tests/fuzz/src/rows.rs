//! The rows and layouts of a library, as the host sees them before it believes a word of it.

use std::any::Any;
use std::path::Path;

use abi_stable::std_types::{RSlice, RStr};
use cajeta_abi::{
    Access, ArgSpec, Arith, Capability, DtypeId, FormatId, Layout, LayoutId, LayoutKind, Need, OpId,
    ReadyGate, ReadyKind, Regime, Row, ShapeGate, Step, Subject, Test, Wire,
};
use cajeta_catalog::contract::operands;
use cajeta_catalog::op::Op;
use cajeta_plugin_host::{contradictions, rows};

use crate::Target;

/// This target.
pub const TARGET: Target = Target { name: "rows", run, seeds, words: &[], replays: 1_000_000 };

/// Most operands of a step and arguments of a row: more than any op has.
const MOST: u8 = 20;

/// Hands rows to the host's check; the rows that it takes hold what routing and lowering rely on.
pub fn run(data: &[u8]) {
    let mut shelf = Shelf { bytes: data, lists: Vec::new() };
    let path = Path::new("libfuzz.so");
    let layouts = shelf.list(2, Shelf::layout);
    let Ok(layouts) = rows::check_layouts(layouts, path) else { return };
    let raw = shelf.list(3, Shelf::row);
    match rows::check(raw, layouts.len(), path) {
        Ok(rows) => {
            rows.iter().for_each(|row| promises(row, layouts.len()));
            if let Ok(unused) = contradictions::check(rows, layouts, path) {
                assert!(unused.iter().all(|unused| unused.row < rows.len()));
                rows.iter().for_each(sizes);
            }
        }
        Err(refusal) => assert!(!refusal.to_string().contains('\n'), "{refusal}"),
    }
}

/// What other code indexes by without asking again.
fn promises(row: &Row, layouts: usize) {
    assert!(!row.name.is_empty() && (row.problem_step as usize) < row.steps.len());
    for arg in row.args.iter() {
        assert!(arg.align.is_power_of_two());
        assert!(arg.layout.0 < LayoutId::OWN.0 || ((arg.layout.0 - LayoutId::OWN.0) as usize) < layouts);
        assert!(arg.alias == -1 || usize::try_from(arg.alias).is_ok_and(|other| other < row.args.len()));
    }
    let wires = row.steps.iter().flat_map(|step| step.operands.iter());
    for arg in wires.filter_map(|wire| wire.as_arg()) {
        assert!((arg as usize) < row.args.len());
    }
    assert!(row.shape_gates.iter().all(|gate| !gate.values.is_empty()));
}

/// A row without a contradiction admits a size of everything its gates look at.
fn sizes(row: &Row) {
    for gate in row.shape_gates.iter() {
        let Some(size) = contradictions::smallest(row, gate.subject) else {
            panic!("no size passes `{}` of a row that was taken", gate.name)
        };
        let first = gate.values.first().copied().unwrap_or_default();
        match gate.test {
            Test::MULTIPLE_OF => assert_eq!(size % first, 0, "{gate:?}"),
            Test::AT_LEAST => assert!(size >= first, "{size} of {gate:?}"),
            Test::AT_MOST => assert!(size <= first, "{size} of {gate:?}"),
            Test::ONE_OF => assert!(gate.values.contains(&size), "{size} of {gate:?}"),
            _ => {}
        }
    }
}

/// Makes values of an input's bytes, and keeps the lists that they point to. An input that is used up
/// goes on as zeros.
struct Shelf<'a> {
    bytes: &'a [u8],
    lists: Vec<Box<dyn Any>>,
}

impl Shelf<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    /// Mostly small, and otherwise anything.
    fn number(&mut self) -> u32 {
        match self.byte() {
            255 => u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
            254 => u32::MAX,
            253 => 1 << 31 | u32::from(self.byte()),
            252 => 256 + u32::from(self.byte()),
            small => small.into(),
        }
    }

    /// A list of up to `most` values, or what is none: at null, at an odd address, of absurd length.
    fn list<T: 'static>(&mut self, most: u8, mut make: impl FnMut(&mut Self) -> T) -> RSlice<'static, T> {
        let (address, length) = match self.byte() {
            250 => (std::ptr::null(), 1),
            // Of bytes no address is odd.
            251 if align_of::<T>() > 1 => (std::ptr::without_provenance(1), 1),
            252 => (std::ptr::dangling(), usize::MAX),
            253 => (std::ptr::null(), 0),
            count => {
                let values: Vec<T> = (0..count % (most + 1)).map(|_| make(self)).collect();
                let values = values.into_boxed_slice();
                let (address, length) = (values.as_ptr(), values.len());
                // The shelf owns the list from here on, and a box does not move what it holds.
                self.lists.push(Box::new(values));
                (address, length)
            }
        };
        // SAFETY: either the list just put on the shelf, which outlives every look at it (`run` drops the
        // shelf last), or one at an address where the host must not look. The lifetime is what a
        // library would claim.
        unsafe { RSlice::from_raw_parts(address, length) }
    }

    fn text(&mut self) -> RStr<'static> {
        let bytes = self.list(12, |shelf| match shelf.byte() {
            0 => b'a',
            byte => byte,
        });
        // SAFETY: the bytes are a list of this shelf, or at an address where the host must not look. That
        // they are UTF-8 is what a library would claim, and what the host checks.
        unsafe { RStr::from_raw_parts(bytes.as_ptr(), bytes.len()) }
    }

    fn layout(&mut self) -> Layout {
        Layout {
            name: self.text(),
            kind: LayoutKind(self.number()),
            sources: self.number(),
            formats: self.list(2, |shelf| FormatId(shelf.number())),
            align: 1 << (self.byte() % 64),
        }
    }

    fn row(&mut self) -> Row {
        Row {
            name: self.text(),
            family: self.text(),
            regime: Regime(self.number()),
            arith: Arith(self.number()),
            priority: self.number() as i32,
            steps: self.list(3, Shelf::step),
            problem_step: self.number(),
            args: self.list(MOST, Shelf::arg),
            needs: self.list(2, |shelf| Need { capability: Capability(shelf.number()), name: shelf.text() }),
            shape_gates: self.list(2, |shelf| ShapeGate {
                name: shelf.text(),
                subject: Subject(shelf.number()),
                test: Test(shelf.number()),
                values: shelf.list(3, |shelf| u64::from(shelf.number()) << (shelf.byte() % 64)),
            }),
            ready_gates: self
                .list(2, |shelf| ReadyGate { name: shelf.text(), kind: ReadyKind(shelf.number()) }),
        }
    }

    fn step(&mut self) -> Step {
        Step {
            op: OpId(self.number()),
            attrs: u64::from(self.number()),
            operands: self.list(MOST, |shelf| Wire(shelf.number())),
        }
    }

    fn arg(&mut self) -> ArgSpec {
        ArgSpec {
            layout: LayoutId(self.number()),
            dtype: DtypeId(self.number()),
            format: FormatId(self.number()),
            align: 1 << (self.byte() % 32),
            padding: self.number(),
            access: Access(self.number()),
            alias: match self.byte() {
                0 => -1,
                other => i32::from(other) - 1,
            },
        }
    }
}

/// One plain row for each op of the catalog, with an argument for each operand, and no layout.
fn seeds() -> Vec<Vec<u8>> {
    let seed = |op: &Op| {
        let n_operands = operands(*op).len() as u8;
        // Layouts, rows, the name `a`, no family, regime, arithmetic, priority, steps.
        let mut bytes = vec![0, 1, 1, b'a', 0, 2, 1, 5, 1];
        bytes.extend([op.id().0 as u8, 0, n_operands]);
        bytes.extend(0..n_operands);
        // The step whose problem it is, and the arguments: layout, dtype, format, alignment, padding,
        // access, alias.
        bytes.extend([0, n_operands]);
        bytes.extend((0..n_operands).flat_map(|_| [0, 1, 254, 2, 0, 1, 0]));
        bytes
    };
    Op::ALL.iter().map(seed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_rows_that_the_host_takes() {
        let seeds = seeds();
        assert_eq!(seeds.len(), Op::ALL.len());
        for seed in &seeds {
            let mut shelf = Shelf { bytes: seed, lists: Vec::new() };
            shelf.list(2, Shelf::layout);
            let rows = shelf.list(3, Shelf::row);
            assert_eq!(rows.len(), 1);
            rows::check(rows, 0, Path::new("seed")).unwrap();
        }
    }
}
