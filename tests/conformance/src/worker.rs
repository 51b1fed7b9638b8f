//! The process that calls the plugin, and may crash or hang of it: runs the suite and reports each step.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use cajeta_plugin_host::probe::set_report_apart;
use cajeta_plugin_host::{Device, open_path, shutdown};
use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::report::{Finding, Report};
use crate::suite::{Name, Suite};

/// What a worker is to do, in JSON after the plugin's path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The device's position.
    pub(crate) device: u32,
    pub(crate) options: Options,
    /// The first unit that is run: those before it took an earlier worker.
    pub(crate) from: usize,
}

/// One line of its report.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// The plugin or its device does not open, and a sentence why.
    Refused(String),
    /// It is open: a report of nothing yet, and all that will be in it.
    Opened { report: Report, names: Vec<Name> },
    /// The next unit begins, or a case of it, which is then described.
    Begins(String),
    /// How that unit ended.
    Found(Finding),
    /// The device is lost: what follows needs a fresh process.
    Lost,
    /// All is done, and the plugin has shut down.
    Done,
}

/// Runs the worker: the plugin's path, and a task. It ends in success once it has reported all; in 2 where
/// the arguments are none of [`crate::run_apart`]'s; in any other way by the plugin's doing.
pub fn worker(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let path = arguments.next();
    let task = arguments.next().and_then(|text| serde_json::from_str::<Task>(text.to_str()?).ok());
    let (Some(path), Some(task)) = (path, task) else {
        return ExitCode::from(2);
    };
    let mut out = match set_report_apart() {
        Ok(out) => out,
        Err(error) => {
            eprintln!("its report cannot be set apart: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut say = |line: &Line| {
        let Ok(mut text) = serde_json::to_string(line) else { return };
        text.push('\n');
        // A parent that stopped listening has stopped caring.
        let _ = out.write_all(text.as_bytes());
    };
    let ended = match open(Path::new(&path), task.device) {
        Ok(device) => check(&device, &task, &mut say),
        Err(why) => Line::Refused(why),
    };
    // Before the last line: dying in here is a finding as well. With a lost device it is none.
    if !matches!(ended, Line::Lost) {
        shutdown();
    }
    say(&ended);
    ExitCode::SUCCESS
}

fn open(path: &Path, device: u32) -> Result<Device, String> {
    let refused = |refusal| format!("{} was refused at stage {refusal}", path.display());
    let backend = open_path(path, None).map_err(refused)?;
    backend.open(device).map_err(|error| error.to_string())
}

fn check(device: &Device, task: &Task, say: &mut dyn FnMut(&Line)) -> Line {
    let mut suite = Suite::new(device, &task.options);
    say(&Line::Opened { report: suite.report(), names: suite.names() });
    for unit in task.from..suite.len() {
        say(&Line::Begins(String::new()));
        if let Some(finding) = suite.run(unit, &mut |case| say(&Line::Begins(case.to_owned()))) {
            say(&Line::Found(finding));
        }
        if device.lost().is_some() {
            return Line::Lost;
        }
    }
    Line::Done
}
