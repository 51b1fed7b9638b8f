//! From a launch to kernels: the launch shape, the block every kernel reads, and the checks before either.

mod block;
mod shape;
mod stream;
mod geometry;
mod bind;

pub(crate) use bind::{Bound, bind};
pub(crate) use block::Block;
pub(crate) use geometry::geometry;
pub(crate) use shape::{GROUP_MAX, HEAD_DIM_MAX, Stage};
pub(crate) use stream::STREAM_WIDTH_MAX;
