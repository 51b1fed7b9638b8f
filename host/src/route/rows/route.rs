//! A row of a plugin as a route.

use cajeta_abi::{Access, ArgSpec, DtypeId, FormatId, Layout, LayoutId, Need, ReadyKind, Regime, Row};
use cajeta_catalog::op::{Op, attr};
use cajeta_catalog::quant::Format;

use super::names::format_name;
use super::query::{QueryOperand, QueryStep, RowCall, RowQuery, format_operand};
use super::{gates, pattern};
use crate::route::clause::PATTERN;
use crate::route::variant::{GateValue, Route};

/// Gates of a row's arguments, by number. Made of the text of the program, so that a refusal while
/// resolving costs nothing.
macro_rules! of_arguments {
    ($lead:literal: $($number:literal)*) => {
        [$(concat!($lead, " of argument ", $number)),*]
    };
}
const FORMAT_OF: [&str; 16] = of_arguments!("format": 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
const LAYOUT_OF: [&str; 16] = of_arguments!("layout": 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
const SOURCES_OF: [&str; 16] = of_arguments!("sources": 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
const RESIDENCE_OF: [&str; 16] = of_arguments!("residence": 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);

fn numbered(names: &[&'static str; 16], argument: usize) -> &'static str {
    names.get(argument).copied().unwrap_or("a later argument")
}

/// One row of a plugin's registry.
#[derive(Clone, Copy, Debug)]
pub struct RowRoute<'r> {
    index: usize,
    row: &'r Row,
    layouts: &'r [Layout],
    format: FormatId,
}

impl<'r> RowRoute<'r> {
    /// The row at `index` of a registry, and the op whose table it belongs to: that of its first step.
    /// Nothing where this catalog does not have that op, or the row is not wired to its arguments.
    pub fn new(index: usize, row: &'r Row, layouts: &'r [Layout]) -> Option<(Op, RowRoute<'r>)> {
        let first = row.steps.first()?;
        let op = Op::from_id(first.op)?;
        let wires = || row.steps.iter().flat_map(|step| step.operands.iter());
        let wired = (0..row.args.len())
            .all(|arg| wires().any(|wire| wire.as_arg().is_some_and(|wired| wired as usize == arg)));
        let known = wires().filter_map(|wire| wire.as_arg()).all(|arg| (arg as usize) < row.args.len());
        let weight = format_operand(op).and_then(|at| first.operands.get(at)?.as_arg());
        let spec = weight.and_then(|arg| row.args.get(arg as usize));
        let format = spec.map_or(FormatId::NONE, read_as);
        (wired && known).then_some((op, RowRoute { index, row, layouts, format }))
    }

    /// Its number in the registry.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The row.
    pub fn row(&self) -> &'r Row {
        self.row
    }

    /// The first attribute that an op has and the row has not, or that they disagree on.
    fn attribute_refusal(&self, steps: &[QueryStep]) -> Option<&'static str> {
        let pairs = self.row.steps.iter().zip(steps);
        let (step, asked) = pairs.into_iter().find(|(step, asked)| !attr::admits(step.attrs, asked.attrs))?;
        let odd = (asked.attrs & !step.attrs) | ((asked.attrs ^ step.attrs) & attr::EXACT);
        let first = attr::NAMES.iter().find(|(bit, _)| odd & bit != 0).map(|(_, name)| *name);
        Some(first.unwrap_or("attribute"))
    }

    /// The first argument whose weight the row does not read as the file stores it.
    fn weight_refusal(&self, steps: &[QueryStep]) -> Option<&'static str> {
        pattern::met(self.row, steps).find_map(|(wire, operand, _)| {
            let QueryOperand::Weight { format, .. } = operand else { return None };
            let arg = wire.as_arg()? as usize;
            (read_as(self.row.args.get(arg)?) != *format).then(|| numbered(&FORMAT_OF, arg))
        })
    }

    fn argument_refusal(&self, steps: &[QueryStep]) -> Option<&'static str> {
        for (wire, operand, _) in pattern::met(self.row, steps) {
            let Some(arg) = wire.as_arg().map(|arg| arg as usize) else { continue };
            let Some(spec) = self.row.args.get(arg) else { continue };
            match operand {
                QueryOperand::Weight { .. } => {
                    if let Some(own) = spec.layout.0.checked_sub(LayoutId::OWN.0) {
                        let sources = self.layouts.get(own as usize).map(|layout| layout.sources as usize);
                        if sources != Some(pattern::tensors(self.row, steps, arg).1) {
                            return Some(numbered(&SOURCES_OF, arg));
                        }
                    }
                }
                QueryOperand::Value { layout, packable, .. } => {
                    let packed = spec.access == Access::READ && packable.contains(&spec.layout);
                    if spec.layout != *layout && !packed {
                        return Some(numbered(&LAYOUT_OF, arg));
                    }
                }
                QueryOperand::Fixed(_) | QueryOperand::Absent => {}
            }
        }
        None
    }

    /// The first argument whose weight is not there as the row reads it.
    fn missing(&self, call: &RowCall<'_>) -> Option<usize> {
        let steps = call.query.steps();
        (0..self.row.args.len()).find(|&arg| {
            let (tensors, count) = pattern::tensors(self.row, steps, arg);
            let layout = self.row.args.get(arg).map_or(LayoutId::GGUF, |spec| spec.layout);
            count > 0 && (count > tensors.len() || !call.ready.resident(layout, &tensors))
        })
    }

    /// Whether widened copies of all its weights were declined.
    fn widen_declined(&self, call: &RowCall<'_>) -> bool {
        (0..self.row.args.len()).all(|arg| {
            let (tensors, count) = pattern::tensors(self.row, call.query.steps(), arg);
            count == 0 || call.ready.widen_declined(&tensors)
        })
    }

    fn is_ready(&self, kind: ReadyKind, call: &RowCall<'_>) -> bool {
        match kind {
            ReadyKind::LAYOUT_RESIDENT => self.missing(call).is_none(),
            ReadyKind::WIDEN_DECLINED => self.widen_declined(call),
            ReadyKind::NOT_OVERRIDDEN => !call.ready.overridden(self.row.name.as_str()),
            // A condition this host does not know cannot be vouched for.
            _ => false,
        }
    }
}

/// The format an argument reads a weight in. Plain f32 is the same bytes as the file's F32.
fn read_as(spec: &ArgSpec) -> FormatId {
    let plain_f32 = spec.layout == LayoutId::PLAIN && spec.dtype == DtypeId::F32;
    if spec.format == FormatId::NONE && plain_f32 { FormatId(Format::F32.id()) } else { spec.format }
}

impl<'r> Route for RowRoute<'r> {
    type Call = RowCall<'r>;

    fn name(&self) -> &str {
        self.row.name.as_str()
    }

    fn family(&self) -> &str {
        self.row.family.as_str()
    }

    fn regime(&self) -> Regime {
        self.row.regime
    }

    fn format(&self) -> FormatId {
        self.format
    }

    fn needs(&self) -> &[Need] {
        self.row.needs.as_slice()
    }

    fn priority(&self) -> i32 {
        self.row.priority
    }

    fn covers(&self) -> usize {
        self.row.steps.len()
    }

    fn format_refusal(&self, query: &RowQuery<'r>) -> Option<&str> {
        let steps = query.steps();
        if !pattern::fits(self.row, steps) {
            return Some(PATTERN);
        }
        self.attribute_refusal(steps).or_else(|| self.weight_refusal(steps))
    }

    fn shape_refusal(&self, query: &RowQuery<'r>) -> Option<&str> {
        let steps = query.steps();
        self.argument_refusal(steps).or_else(|| {
            let refuses =
                |gate: &&cajeta_abi::ShapeGate| !gates::holds(gate, gates::value(gate, self.row, steps));
            self.row.shape_gates.as_slice().iter().find(refuses).map(|gate| gate.name.as_str())
        })
    }

    fn ready_refusal(&self, call: &RowCall<'r>) -> Option<&str> {
        let mut ready = self.row.ready_gates.as_slice().iter();
        match ready.find(|gate| !self.is_ready(gate.kind, call)) {
            Some(gate) => Some(gate.name.as_str()),
            None => self.missing(call).map(|arg| numbered(&RESIDENCE_OF, arg)),
        }
    }

    fn dispatch(&self, _call: &RowCall<'r>) -> usize {
        self.index
    }

    fn gates(&self, call: &RowCall<'r>) -> Vec<GateValue> {
        let steps = call.query.steps();
        let mut values = Vec::new();
        let mut say = |gate: &str, value: String, holds| {
            values.push(GateValue { gate: gate.to_owned(), value, holds });
        };
        if let Some(gate) = self.argument_refusal(steps) {
            say(gate, self.argument_found(steps, gate), false);
        }
        for gate in self.row.shape_gates.iter() {
            let value = gates::value(gate, self.row, steps);
            let seen = value.map_or("absent".to_owned(), |value| value.to_string());
            let subject = gates::subject_name(gate.subject);
            say(gate.name.as_str(), format!("{subject}={seen}"), gates::holds(gate, value));
        }
        for gate in self.row.ready_gates.iter() {
            let ready = self.is_ready(gate.kind, call);
            say(gate.name.as_str(), if ready { "yes" } else { "no" }.to_owned(), ready);
        }
        if let Some(arg) = self.missing(call) {
            say(numbered(&RESIDENCE_OF, arg), "no".to_owned(), false);
        }
        values
    }
}

impl RowRoute<'_> {
    /// What stands where an argument's gate refused.
    fn argument_found(&self, steps: &[QueryStep], gate: &str) -> String {
        let argument = |names: &[&'static str; 16]| names.iter().position(|name| *name == gate);
        let operand = |arg: usize| {
            let mut met = pattern::met(self.row, steps);
            met.find(|(wire, ..)| wire.as_arg() == u32::try_from(arg).ok()).map(|(_, operand, _)| operand)
        };
        let found = argument(&LAYOUT_OF).or(argument(&SOURCES_OF));
        match found.and_then(operand) {
            Some(QueryOperand::Weight { format, .. }) => format_name(*format),
            Some(QueryOperand::Value { layout, .. }) => format!("layout {}", layout.0),
            _ => "other".to_owned(),
        }
    }
}
