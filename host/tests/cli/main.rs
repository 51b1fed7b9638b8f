//! The program as its users meet it: the real binary, real plugins, a real (tiny) model.

mod program;
mod terminal;
mod usage;
mod help;
mod tokens;
mod damaged;
mod cut;
mod memory;
mod inspect;
mod backends;
mod selection;
mod audit;
mod kernels;
mod defects;
mod run;
mod streams;
mod interrupt;
mod chat;
mod talk;
mod score;
mod bench;
mod synth;
mod walkthrough;
