//! The host's probing program under a name of this crate, so that its tests need no other build.

fn main() -> std::process::ExitCode {
    cajeta_plugin_host::probe::main(std::env::args_os().skip(1))
}
