//! One kernel launch, as the host hands it to `list`.

use abi_stable::StableAbi;
use abi_stable::std_types::RSlice;

use crate::geometry::Problem;
use crate::ids::{Handle, Ticket};

/// Most bytes of scalars a launch may carry.
pub const SCALAR_BYTES_MAX: usize = 128;

/// A span of a buffer.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferArg {
    /// The buffer, or [`Handle::NONE`] for an absent optional operand.
    pub buffer: Handle,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl BufferArg {
    /// The absent optional operand.
    pub const NONE: BufferArg = BufferArg { buffer: Handle::NONE, offset: 0, len: 0 };
}

/// One launch of a row.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Index in the plugin's `rows()`.
    pub row: u32,
    /// Parts the reduction is split in; 1 for none.
    pub split: u32,
    /// The size of the row's `problem_step`.
    pub problem: Problem,
    /// One per `Row::args`, in order.
    pub args: RSlice<'a, BufferArg>,
    /// The steps' scalar blocks in order, each padded to 8 bytes.
    pub scalars: RSlice<'a, u8>,
    /// At least `Geometry::scratch_bytes`, or [`BufferArg::NONE`] when that is 0.
    pub scratch: BufferArg,
    /// At least `Geometry::semaphore_bytes`, or [`BufferArg::NONE`] when that is 0.
    pub semaphores: BufferArg,
}

/// When one launch of a submitted list ran, on the device's own clock.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Span {
    /// Index of the launch in its list.
    pub launch: u32,
    /// The row it launched.
    pub row: u32,
    /// Nanoseconds from the start of the submission.
    pub start_ns: u64,
    /// Nanoseconds it ran.
    pub duration_ns: u64,
}

/// The ticket a call that starts work hands back.
pub type TicketOut<'a> = &'a mut Ticket;
