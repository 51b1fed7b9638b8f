//! The answer every fallible ABI call returns.

use abi_stable::StableAbi;

/// Outcome of an ABI call. An open integer: a host treats a code it does not
/// know as [`Code::INTERNAL`].
#[repr(transparent)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Code(pub u32);

impl Code {
    /// Done. For `poll`: the ticket is complete.
    pub const OK: Code = Code(0);
    /// This backend cannot do that, now or later. Every call may answer it.
    pub const UNSUPPORTED: Code = Code(1);
    /// Not here: no driver, no device, no permission. The error text names a remedy.
    pub const UNAVAILABLE: Code = Code(2);
    /// The caller broke the contract; the error text names the rule.
    pub const INVALID: Code = Code(3);
    /// The device, or a limit the caller set, has no room.
    pub const OUT_OF_MEMORY: Code = Code(4);
    /// For `poll`: not complete yet.
    pub const PENDING: Code = Code(5);
    /// The device is gone. Sticky: after it only `free` and `close` do work.
    pub const LOST: Code = Code(6);
    /// A fault of the plugin itself, a caught panic included.
    pub const INTERNAL: Code = Code(7);

    /// The code's name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Code::OK => "ok",
            Code::UNSUPPORTED => "unsupported",
            Code::UNAVAILABLE => "unavailable",
            Code::INVALID => "invalid call",
            Code::OUT_OF_MEMORY => "out of memory",
            Code::PENDING => "pending",
            Code::LOST => "device lost",
            _ => "internal error",
        }
    }
}
