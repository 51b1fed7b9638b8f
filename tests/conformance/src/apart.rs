//! Runs the suite in a process of its own, and a fresh one after each check that took it along.

use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cajeta_plugin_host::printable;
use cajeta_plugin_host::probe::{Heard as OfProcess, Process};

use crate::options::Options;
use crate::report::{Finding, Report};
use crate::suite::Name;
use crate::worker::{Line, Task};

/// How the suite is run apart.
#[derive(Clone, Debug)]
pub struct Apart {
    /// A program that hands its last two arguments to [`crate::worker`].
    pub program: PathBuf,
    /// Its arguments before those.
    pub arguments: Vec<OsString>,
    /// How long opening the plugin, one case of a row, or one other check may take.
    pub limit: Duration,
    /// Hears what the plugin writes for itself, as it comes.
    pub shown: fn(&[u8]),
}

/// What is heard of a run.
pub enum Heard<'a> {
    /// It begins: a report of nothing yet, and how many characters the longest row's name has.
    Begun(&'a Report, usize),
    /// How the next unit ended.
    Found(&'a Finding),
}

/// Why there is no report.
#[derive(Debug)]
pub enum ApartError {
    /// The plugin or its device was refused.
    Refused(String),
    /// The plugin took its process along while it was opened, and how.
    Died(String),
    /// The process does not start.
    Start(PathBuf, io::Error),
}

impl std::fmt::Display for ApartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ApartError::Refused(why) | ApartError::Died(why) => f.write_str(why),
            ApartError::Start(program, error) => write!(f, "{} does not start: {error}", program.display()),
        }
    }
}

impl std::error::Error for ApartError {}

/// Holds the plugin at `path` to what it claims, in processes that its crashes and hangs end: each is a
/// failure of the row or check that had begun, and the next one runs in a fresh process. `hear` ends the
/// run where it breaks.
///
/// # Errors
/// A plugin that does not open, or a process that does not start.
pub fn run_apart(
    apart: &Apart,
    path: &Path,
    device: u32,
    options: &Options,
    hear: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
) -> Result<Report, ApartError> {
    let mut run = Run { apart, report: None, names: Vec::new(), next: 0, hear };
    loop {
        let task = Task { device, options: options.clone(), from: run.next };
        let task = serde_json::to_string(&task)
            .map_err(|error| ApartError::Start(apart.program.clone(), error.into()))?;
        let mut command = Command::new(&apart.program);
        command.args(&apart.arguments).arg(path).arg(task);
        let process = Process::start(command, apart.shown)
            .map_err(|error| ApartError::Start(apart.program.clone(), error))?;
        match run.follow(process)? {
            Next::FreshProcess => {}
            Next::Nothing => return run.report.ok_or_else(|| ApartError::Died("it reported nothing".into())),
        }
    }
}

enum Next {
    FreshProcess,
    Nothing,
}

struct Run<'a> {
    apart: &'a Apart,
    /// Of all processes together; nothing before the first has opened the plugin.
    report: Option<Report>,
    names: Vec<Name>,
    /// The unit that is running, or would be next.
    next: usize,
    hear: &'a mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
}

impl Run<'_> {
    /// Hears one process to its end.
    fn follow(&mut self, mut process: Process) -> Result<Next, ApartError> {
        let (mut opened, mut lost, mut done) = (false, false, false);
        let mut case = String::new();
        loop {
            let line = match process.next(self.apart.limit) {
                OfProcess::Line(line) => line,
                OfProcess::Silence if lost => return Ok(Next::FreshProcess),
                OfProcess::Silence => {
                    let seconds = self.apart.limit.as_secs_f64();
                    let how = format!("no end within {seconds} s{}", process.end());
                    return self.broke(opened, &case, &how);
                }
                OfProcess::Ended { success: true, .. } if done => return Ok(Next::Nothing),
                OfProcess::Ended { .. } if lost => return Ok(Next::FreshProcess),
                OfProcess::Ended { how, said, .. } => {
                    return self.broke(opened, &case, &format!("it {how}{said}"));
                }
            };
            let flow = match serde_json::from_slice(&line) {
                Ok(Line::Refused(why)) if !opened => return self.refused(why),
                Ok(Line::Opened { report, names }) if !opened => {
                    opened = true;
                    self.begin(report, names)
                }
                Ok(Line::Begins(what)) => {
                    case = what;
                    ControlFlow::Continue(())
                }
                Ok(Line::Found(finding)) if self.next < self.names.len() => {
                    case.clear();
                    self.found(finding)
                }
                Ok(Line::Lost) => {
                    lost = true;
                    ControlFlow::Continue(())
                }
                Ok(Line::Done) => {
                    done = true;
                    ControlFlow::Continue(())
                }
                Ok(_) | Err(_) => {
                    let words = printable::line(&String::from_utf8_lossy(&line), 100);
                    return self.broke(opened, &case, &format!("something else wrote its report: {words}"));
                }
            };
            if flow.is_break() {
                return Ok(Next::Nothing);
            }
        }
    }

    fn begin(&mut self, report: Report, names: Vec<Name>) -> ControlFlow<()> {
        if self.report.is_some() {
            return ControlFlow::Continue(());
        }
        self.names = names;
        let rows = self.names.iter().map(|name| match name {
            Name::Row(row) => row.chars().count(),
            Name::Check(_) => 0,
        });
        let flow = (self.hear)(Heard::Begun(&report, rows.max().unwrap_or(0)));
        self.report = Some(report);
        flow
    }

    fn found(&mut self, finding: Finding) -> ControlFlow<()> {
        self.next += 1;
        let flow = (self.hear)(Heard::Found(&finding));
        if let Some(report) = &mut self.report {
            report.add(finding);
        }
        flow
    }

    fn refused(&mut self, why: String) -> Result<Next, ApartError> {
        match &self.report {
            None => Err(ApartError::Refused(why)),
            Some(_) => self.broke(false, "", &why),
        }
    }

    /// The process is gone, or is of no more use: whatever was running failed by that.
    fn broke(&mut self, opened: bool, case: &str, how: &str) -> Result<Next, ApartError> {
        if self.report.is_none() {
            return Err(ApartError::Died(format!("opening the plugin: {how}")));
        }
        let Some(name) = self.names.get(self.next) else {
            // Only shutting down is left, and counts where it goes wrong.
            let check = Name::Check("it shuts down".to_owned());
            let _ = self.found(check.failed(how.to_owned()));
            return Ok(Next::Nothing);
        };
        let at = match (opened, case) {
            (false, _) => "opening the plugin again: ".to_owned(),
            (true, "") => String::new(),
            (true, case) => format!("{case}: "),
        };
        let finding = name.failed(format!("{at}{how}"));
        let flow = self.found(finding);
        Ok(if flow.is_break() { Next::Nothing } else { Next::FreshProcess })
    }
}
