//! Probes one plugin and reports on standard output: the process that may crash in the host's place.

fn main() -> std::process::ExitCode {
    cajeta_plugin_host::probe::main(std::env::args_os().skip(1))
}
