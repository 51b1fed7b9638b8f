//! From a launch to kernels: the launch shape, the block every kernel reads, and the checks before either.

mod block;
mod shape;
mod attention;
mod choice;
mod stream;
mod rows;
mod geometry;
mod bind;

pub(crate) use attention::{GROUP_MAX, HEAD_DIM_MAX};
pub(crate) use bind::{Bound, bind};
pub(crate) use block::Block;
pub(crate) use geometry::geometry;
pub(crate) use shape::Stage;
pub(crate) use stream::STREAM_WIDTH_MAX;
