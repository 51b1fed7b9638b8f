//! Route tables by themselves: a package that is no language model registers one, its answers do not
//! depend on the order of registration, and resolving allocates nothing.

mod histogram;
mod counting;
mod table;
mod order;
mod nothing_allocated;
mod plugin_rows;
mod ladder;
