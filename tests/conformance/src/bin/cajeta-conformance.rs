//! `cajeta-conformance PATH`: holds a built plugin to the contract, as `cajeta backends check` does.

use std::path::PathBuf;
use std::process::ExitCode;

use cajeta_conformance::{Options, Report, run};
use cajeta_plugin_host::open_path;

fn main() -> ExitCode {
    let parsed = match Arguments::parse(std::env::args().skip(1)) {
        Ok(parsed) => parsed,
        Err(why) => {
            eprintln!(
                "{why}\nusage: cajeta-conformance PATH [--filter PART] [--cases N] [--seed N] [--json]"
            );
            return ExitCode::from(2);
        }
    };
    match check(&parsed) {
        Ok(report) => {
            if parsed.json {
                match serde_json::to_string_pretty(&report) {
                    Ok(text) => println!("{text}"),
                    Err(error) => eprintln!("the report could not be written as JSON: {error}"),
                }
            } else {
                println!("{report}");
            }
            if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn check(arguments: &Arguments) -> Result<Report, String> {
    let backend = open_path(&arguments.path, None).map_err(|refusal| refusal.to_string())?;
    let device = backend.open(0).map_err(|error| error.to_string())?;
    Ok(run(&device, &arguments.options))
}

struct Arguments {
    path: PathBuf,
    options: Options,
    json: bool,
}

impl Arguments {
    fn parse(given: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut path = None;
        let mut options = Options::default();
        let mut json = false;
        let mut given = given;
        while let Some(argument) = given.next() {
            let mut value = || given.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--json" => json = true,
                "--filter" => options.filter = Some(value()?),
                "--cases" => options.cases = number(&value()?)?,
                "--seed" => options.seed = number(&value()?)?,
                flag if flag.starts_with('-') => return Err(format!("{flag} is not an option")),
                _ if path.is_none() => path = Some(PathBuf::from(argument)),
                _ => return Err(format!("one plugin at a time; `{argument}` is a second one")),
            }
        }
        let path = path.ok_or("no plugin given")?;
        Ok(Arguments { path, options, json })
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number this takes"))
}
