//! Whether a kernel can be used on a device at all: there is code for it, its shared memory fits, nobody
//! recorded a defect of it here.

mod defects;
mod kernel_cap;

pub use defects::{Defect, DefectError, Defects};
pub use kernel_cap::{KernelCap, Kernels};
