//! The program: one match on what it is asked to do.

mod cli;

use std::process::ExitCode;

use cli::Verb;
use cli::failure::{guarded, report};

#[global_allocator]
static ALLOCATOR: cajeta::fault::SaysWhenFull = cajeta::fault::SaysWhenFull;

fn main() -> ExitCode {
    let outcome = guarded(|| {
        cajeta::fault::outlive_file_limits()?;
        cajeta::fault::name_cut_files()?;
        cli::log::start()?;
        cli::environment::check()?;
        let Some(flags) = cli::flags()? else { return Ok(()) };
        match flags.verb {
            Verb::Run(flags) => cli::run::run(flags),
            Verb::Chat(flags) => cli::chat::run(flags),
            Verb::Score(flags) => cli::score::run(flags),
            Verb::Tokenize(flags) => cli::tokenize::run(flags),
            Verb::Detokenize(flags) => cli::detokenize::run(flags),
            Verb::Inspect(flags) => cli::inspect::run(flags),
            Verb::Devices(flags) => cli::devices::run(flags),
            Verb::Backends(flags) => cli::backends::run(flags),
            Verb::Kernels(flags) => cli::kernels::run(flags),
            Verb::Audit(flags) => cli::audit::run(flags),
            Verb::Bench(flags) => cli::bench::run(flags),
            Verb::Synth(flags) => cli::synth::run(flags),
            Verb::Tune(flags) => cli::tune::run(flags),
            Verb::Calibrate(flags) => cli::calibrate::run(flags),
            Verb::Completions(flags) => cli::completions::run(flags),
            Verb::Man(flags) => cli::man::run(flags),
        }
    });
    // Whatever a command did, its engine is gone by now; plugins may close their drivers in order.
    cajeta_plugin_host::shutdown();
    report(outcome)
}
