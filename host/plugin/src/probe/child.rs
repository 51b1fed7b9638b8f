//! The probing process: everything a host would do with the plugin, done here first.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::report::Line;
use super::spawn::AVOID;
use super::{Avoided, kernel, unavailable};
use crate::candidate::{Refusal, Stage};
use crate::device::{Backend, DeviceSummary};
use crate::manifest::PluginManifest;

/// Exit code for arguments that are not a library and, optionally, its manifest.
const USAGE: u8 = 2;

/// Runs the probing process: `LIBRARY [MANIFEST] [--avoid ROWS]...`. It ends with success once a verdict is reported,
/// whichever it is; the verdict is on standard output.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(Asked { library, manifest, avoided }) = asked(arguments) else {
        eprintln!(
            "cajeta-probe: checks one plugin for the cajeta host; \
             usage: cajeta-probe LIBRARY [MANIFEST] [{AVOID} ROWS]..."
        );
        return ExitCode::from(USAGE);
    };
    let mut out = match set_report_apart() {
        Ok(out) => out,
        Err(error) => {
            eprintln!("cajeta-probe: cannot set its output aside: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut say = |line: &Line| {
        if let Ok(mut text) = serde_json::to_string(line) {
            text.push('\n');
            // A host that stopped listening has stopped caring.
            let _ = out.write_all(text.as_bytes());
        }
    };
    let verdict =
        match examine(&library, manifest.as_deref(), &avoided, &mut |stage| say(&Line::Stage(stage))) {
            Ok((devices, kernel)) => Line::Usable { devices, kernel },
            Err(refusal) => Line::Refused(refusal),
        };
    // Before the verdict: a plugin that dies in here would die in the host too.
    crate::device::shutdown();
    say(&verdict);
    ExitCode::SUCCESS
}

/// What the process is to do.
#[derive(PartialEq, Debug)]
struct Asked {
    library: PathBuf,
    manifest: Option<PathBuf>,
    avoided: Vec<Avoided>,
}

/// Nothing when the arguments say something else.
fn asked(mut arguments: impl Iterator<Item = OsString>) -> Option<Asked> {
    let (mut files, mut avoided) = (Vec::new(), Vec::new());
    while let Some(argument) = arguments.next() {
        if argument == AVOID {
            avoided.push(serde_json::from_str(arguments.next()?.to_str()?).ok()?);
        } else {
            files.push(PathBuf::from(argument));
        }
    }
    let mut files = files.into_iter();
    let asked = Asked { library: files.next()?, manifest: files.next(), avoided };
    files.next().is_none().then_some(asked)
}

/// Makes this process one that runs a plugin in its parent's place (see [`super::Process`]): the report,
/// which is returned, is set apart from whatever the plugin prints, no core files are left behind, and the
/// process ends with its parent.
///
/// # Errors
/// When the system gives out no descriptor.
pub fn set_report_apart() -> std::io::Result<File> {
    // SAFETY: these calls take numbers, and one pointer to a value on this stack.
    let report = unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let report = libc::fcntl(libc::STDOUT_FILENO, libc::F_DUPFD_CLOEXEC, 3);
        if report < 0 || libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) < 0 {
            return Err(std::io::Error::last_os_error());
        }
        report
    };
    // SAFETY: the descriptor was made above and is owned by nothing else.
    Ok(unsafe { File::from_raw_fd(report) })
}

fn examine(
    library: &Path,
    manifest: Option<&Path>,
    avoided: &[Avoided],
    reached: &mut dyn FnMut(Stage),
) -> Result<(Vec<DeviceSummary>, String), Refusal> {
    let manifest = manifest.map(PluginManifest::read).transpose()?;
    let backend = Backend::load(library, manifest.as_ref(), reached)?;
    reached(Stage::Probe);
    backend.probe(true).map_err(|error| unavailable(Stage::Probe, &error, manifest.as_ref()))?;
    reached(Stage::Device);
    let refuse = |error| unavailable(Stage::Device, &error, manifest.as_ref());
    let facts = backend.devices().map_err(refuse)?;
    if facts.is_empty() {
        return Err(Refusal::new(
            Stage::Device,
            "its driver is here, but it lists no device",
            "check that the device is present and not hidden by an environment variable",
        ));
    }
    let device = backend.open(0).map_err(refuse)?;
    let kernel = kernel::run(&device, avoided)?;
    drop(device);
    let devices = (0u32..).zip(&facts).map(|(index, facts)| DeviceSummary::new(index, facts)).collect();
    Ok((devices, kernel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_files_and_rows() {
        let read = |words: &[&str]| asked(words.iter().map(OsString::from));
        let rows = Avoided { row: "add*".into(), target: Some("t".into()), ..Avoided::default() };
        let text = serde_json::to_string(&rows).expect("json");
        let found = read(&["a.so", "a.toml", AVOID, &text, AVOID, "{\"row\":\"copy\"}"]).expect("understood");
        assert_eq!((found.library, found.manifest), ("a.so".into(), Some("a.toml".into())));
        assert_eq!(found.avoided, [rows, Avoided { row: "copy".into(), ..Avoided::default() }]);
        for bad in [&[][..], &["a", "b", "c"], &["a", AVOID], &["a", AVOID, "rubbish"], &[AVOID, "{}"]] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }
}
