//! Kernels: bodies generic over the tier, and the table that instantiates them.

pub(crate) mod dot;
pub(crate) mod tile;
pub(crate) mod elementwise;
pub(crate) mod rotate;
pub(crate) mod attention;
pub(crate) mod table;
