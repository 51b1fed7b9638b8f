//! Rows: a plugin's kernels as data. The host builds its routes from them.

use abi_stable::StableAbi;
use abi_stable::std_types::{RSlice, RStr};

use crate::ids::{
    Access, Arith, Capability, DtypeId, FormatId, LayoutId, OpId, ReadyKind, Regime, Subject, Test,
};

/// One kernel variant: one format per weight operand, one regime. Its index in
/// the plugin's `rows()` is the number a [`crate::Launch`] names.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct Row {
    /// Unique within the plugin; what a refusal, a record and the audit print.
    pub name: RStr<'static>,
    /// Rows that are shapes of one design share a family; empty for none.
    pub family: RStr<'static>,
    /// The regime it serves.
    pub regime: Regime,
    /// What its inner products are computed in.
    pub arith: Arith,
    /// Order among rows serving the same question: higher first, then the one that
    /// covers more steps, then by name.
    pub priority: i32,
    /// The op sequence it computes: one step for a plain row, several for a
    /// fusion. Its oracle is the composition of the steps.
    pub steps: RSlice<'static, Step>,
    /// Index of the step whose problem a launch carries.
    pub problem_step: u32,
    /// Buffer arguments in launch order. Every operand of every step is wired
    /// to one of them or to an internal value.
    pub args: RSlice<'static, ArgSpec>,
    /// What the device must be able to do.
    pub needs: RSlice<'static, Need>,
    /// Static admission: all must hold.
    pub shape_gates: RSlice<'static, ShapeGate>,
    /// Run-time admission: all must hold.
    pub ready_gates: RSlice<'static, ReadyGate>,
}

/// One op of a row's pattern.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct Step {
    /// The catalog op.
    pub op: OpId,
    /// Op attributes this row can compute; an op asking for one outside refuses.
    pub attrs: u64,
    /// One wire per catalog operand of the op, in catalog order.
    pub operands: RSlice<'static, Wire>,
}

/// Where an operand of a step is: a launch argument, a value that stays inside
/// the fusion, or absent (optional operands only).
#[repr(transparent)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Wire(pub u32);

impl Wire {
    const INTERNAL: u32 = 1 << 31;
    /// The optional operand this row never takes.
    pub const ABSENT: Wire = Wire(u32::MAX);

    /// Launch argument `index`.
    pub const fn arg(index: u32) -> Wire {
        Wire(index)
    }

    /// Internal value `index`: written by exactly one earlier step.
    pub const fn internal(index: u32) -> Wire {
        Wire(Wire::INTERNAL | index)
    }

    /// The argument index, if this wire is a launch argument.
    pub const fn as_arg(self) -> Option<u32> {
        if self.0 & Wire::INTERNAL == 0 { Some(self.0) } else { None }
    }

    /// The internal value's index, if this wire is one.
    pub const fn as_internal(self) -> Option<u32> {
        if self.0 & Wire::INTERNAL != 0 && self.0 != u32::MAX { Some(self.0 & !Wire::INTERNAL) } else { None }
    }
}

/// What a row expects of one buffer argument.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct ArgSpec {
    /// How the bytes are arranged.
    pub layout: LayoutId,
    /// Element type; [`DtypeId::BYTES`] where the layout is opaque.
    pub dtype: DtypeId,
    /// Storage format of a weight; [`FormatId::NONE`] for the rest.
    pub format: FormatId,
    /// The first byte's offset is a multiple of this.
    pub align: u32,
    /// Bytes that must be readable past the end.
    pub padding: u32,
    /// What the kernel does with it.
    pub access: Access,
    /// Index of an argument it may be the same buffer as (in place), or -1.
    pub alias: i32,
}

/// A capability a row needs, with the name a refusal prints.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct Need {
    /// What is asked of the device.
    pub capability: Capability,
    /// Its name for people.
    pub name: RStr<'static>,
}

/// A declarative constraint on the problem, answered by name when it refuses.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct ShapeGate {
    /// Printed when it refuses, for instance `K % 256`.
    pub name: RStr<'static>,
    /// What it looks at.
    pub subject: Subject,
    /// How it compares.
    pub test: Test,
    /// What it compares with.
    pub values: RSlice<'static, u64>,
}

/// A run-time constraint from the host's vocabulary, answered by name.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct ReadyGate {
    /// Printed when it refuses.
    pub name: RStr<'static>,
    /// The condition.
    pub kind: ReadyKind,
}
