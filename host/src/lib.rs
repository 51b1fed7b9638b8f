//! Runs GGUF language models on whatever backend plugins are installed.
//!
//! In reading order: [`settings`] reads what the operator fixed, [`fault`] has the last word
//! where nothing can go on, [`record`] says what was
//! decided, [`route`] holds rows against what is asked, [`filter`] says which shapes a device can run, [`tune`] measures which
//! is best, [`lower`] turns a plan into
//! launches, [`kv`] pages the cache, [`engine`] loads a model and runs it. Devices come through the
//! `cajeta-plugin-host` crate, the host's only foreign interface.

pub mod settings;
pub mod fault;
pub mod record;
pub mod route;
pub mod filter;
pub mod tune;
pub mod lower;
pub mod kv;
pub mod engine;
