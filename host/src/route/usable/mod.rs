//! Whether a kernel can be used on a device at all: there is code for it, its shared memory fits, nobody
//! recorded a defect of it here.

mod defect;
mod defects;
mod avoided;
mod kernel_cap;

pub use avoided::select_options;
pub use defect::Defect;
pub use defects::{DefectError, Defects};
pub use kernel_cap::{KernelCap, Kernels};
