//! The program's diagnostic records: one typed stream of what was decided and what it cost.
//!
//! A [`Record`] is emitted where a decision is taken and passes through `tracing`: as a line on
//! standard error where `CAJETA_LOG` asks for it, and as a line of JSON in the file `CAJETA_RECORDS`
//! names. [`kinds`] is what there is to say, [`line`] says it to people, [`filter`] which are
//! shown, [`stream`] carries it. Whoever wants records elsewhere (a profiler, an application) listens with
//! a `tracing` layer for events that have a field [`FIELD`].

mod kinds;
mod line;
mod filter;
mod stream;

pub use kinds::*;
pub use stream::{FIELD, FILE_VARIABLE, FILTER_VARIABLE, StreamError, StreamOptions, start};
