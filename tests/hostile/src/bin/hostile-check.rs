//! The process of a check that calls the plugin, under a name of this crate, so that its tests need no other build.

fn main() -> std::process::ExitCode {
    cajeta_conformance::worker(std::env::args_os().skip(1))
}
