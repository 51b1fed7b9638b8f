//! `cajeta tune`: the measured choices of this machine, listed and cleared.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use cajeta::record::ArmTiming;
use cajeta::settings::Settings;
use cajeta::tune::store::{Listed, VARIABLE, clear, inventory, tune_directory};
use cajeta_plugin_host::printable;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::failure::{Failure, Outcome};
use super::output;
use super::table::Table;

const EXAMPLES: &str = "\
Examples:
  cajeta tune list                       every choice, what it is and by how much it led
  cajeta tune list --timings             with what each arm took
  cajeta tune clear                      forget all; the next load measures anew
  cajeta tune clear shape.q4kTcTile      forget those whose names begin so

Choices are kept in CAJETA_LLM_TUNE_DIR (`off` keeps none), else in tune_dir of cajeta.toml, else in
cajeta-llm/tune below the platform's cache folder; without a home folder, in memory for one run. What --prefer
or CAJETA_LLM_SHAPE_OVERRIDE fixes is used and not kept.
A folder is believed only if root, you or the program's owner owns it and nobody else may write it. A cache
that a machine's users share is therefore root's: they read it, and what they measure themselves is not kept.
Where a volume is writable by all, name a folder in it that does not exist yet.
`clear` removes what is a store's own; other files in its folder are counted and left alone.";

/// Most characters of a name, an answer or a folder that are shown.
const NAME_MAX: usize = 300;
/// Most characters of a remark that are shown: every timing of a question with many arms.
const REMARK_MAX: usize = 4000;

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// List what is remembered
    List(ListFlags),
    /// Forget some or all of it
    Clear(ClearFlags),
}

#[derive(Args, Debug)]
struct ListFlags {
    /// Only names that begin so
    prefix: Option<String>,
    #[command(flatten)]
    place: PlaceFlags,
    /// Show what each arm took
    #[arg(long)]
    timings: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct ClearFlags {
    /// Only names that begin so; everything if absent
    prefixes: Vec<String>,
    #[command(flatten)]
    place: PlaceFlags,
    /// Print how many were forgotten as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct PlaceFlags {
    /// Only the device of this key, as `list` shows it
    #[arg(long, value_name = "KEY")]
    device: Option<String>,
    /// The store's folder, instead of the usual one
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Lists or clears.
pub(crate) fn run(flags: Flags) -> Outcome {
    match flags.verb {
        Verb::List(flags) => show(flags),
        Verb::Clear(flags) => forget(flags),
    }
}

impl PlaceFlags {
    fn directory(&self) -> Outcome<PathBuf> {
        // They may name the folder: with settings that do not read, it is not known which is meant.
        Settings::of_process()?;
        tune_directory(self.dir.as_deref()).ok_or_else(|| {
            Failure::work(format!(
                "there is no store: it is off, or this user has no home folder; name a folder with --dir or {VARIABLE}"
            ))
        })
    }

    fn is_of(&self, listed: &Listed) -> bool {
        self.device.as_ref().is_none_or(|device| *device == listed.device)
    }
}

#[derive(Serialize)]
struct Report {
    directory: String,
    entries: Vec<EntryFacts>,
    /// Files and folders that are not the store's own.
    other_files: usize,
    /// What could not be looked into.
    troubles: Vec<String>,
}

#[derive(Serialize)]
struct EntryFacts {
    device: String,
    name: String,
    /// Nothing where the file holds no entry.
    answer: Option<String>,
    note: Option<String>,
    build: Option<String>,
    timings: Vec<ArmTiming>,
    written_unix_s: Option<u64>,
    /// Not exact where the name of the folder is no text.
    path: String,
    /// Why the file holds no entry.
    unusable: Option<String>,
}

impl From<Listed> for EntryFacts {
    fn from(listed: Listed) -> EntryFacts {
        let name = listed.name();
        let (entry, unusable) = match listed.entry {
            Ok(entry) => (Some(entry), None),
            Err(why) => (None, Some(why)),
        };
        let entry = entry.unwrap_or_default();
        let written = listed.written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        EntryFacts {
            device: listed.device,
            name,
            answer: unusable.is_none().then_some(entry.answer.value),
            note: entry.answer.note,
            build: entry.build,
            timings: entry.answer.timings,
            written_unix_s: written.map(|time| time.as_secs()),
            path: listed.path.display().to_string(),
            unusable,
        }
    }
}

fn show(flags: ListFlags) -> Outcome {
    let directory = flags.place.directory()?;
    let begins =
        |listed: &Listed| flags.prefix.as_ref().is_none_or(|prefix| listed.name().starts_with(prefix));
    let found = inventory(&directory).map_err(unreadable)?;
    let chosen = found.entries.into_iter().filter(|listed| flags.place.is_of(listed) && begins(listed));
    let report = Report {
        directory: directory.display().to_string(),
        entries: chosen.map(EntryFacts::from).collect(),
        other_files: found.others,
        troubles: found.troubles,
    };
    if flags.json {
        output::json(&report)?;
    } else {
        output::text(&report.describe(flags.timings))?;
    }
    without(&report.troubles)
}

fn forget(flags: ClearFlags) -> Outcome {
    #[derive(Serialize)]
    struct Report {
        directory: String,
        cleared: usize,
        other_files: usize,
        troubles: Vec<String>,
    }
    let directory = flags.place.directory()?;
    let begins = |listed: &Listed| {
        let name = listed.name();
        flags.prefixes.is_empty() || flags.prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    let cleared =
        clear(&directory, |listed| flags.place.is_of(listed) && begins(listed)).map_err(unreadable)?;
    let report = Report {
        directory: directory.display().to_string(),
        cleared: cleared.removed,
        other_files: cleared.others,
        troubles: cleared.troubles,
    };
    if flags.json {
        output::json(&report)?;
    } else {
        let plural = if report.cleared == 1 { "choice" } else { "choices" };
        let place = printable::line(&report.directory, NAME_MAX);
        let others = left_alone(report.other_files).map_or(String::new(), |others| format!("; {others}"));
        output::line(&format!("{} {plural} forgotten in {place}{others}", report.cleared))?;
    }
    without(&report.troubles)
}

/// That there is more in the folder.
fn left_alone(others: usize) -> Option<String> {
    let plural = if others == 1 { "file" } else { "files" };
    (others > 0).then(|| format!("{others} other {plural} left alone"))
}

/// All that could be done is done and said; what could not is a failure nevertheless.
fn without(troubles: &[String]) -> Outcome {
    let troubles: Vec<String> = troubles.iter().map(|trouble| printable::line(trouble, REMARK_MAX)).collect();
    if troubles.is_empty() {
        return Ok(());
    }
    Err(Failure::work(format!("a part of the store was passed over: {}", troubles.join("; "))))
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::work(format!("the store: {error}; or name another folder with --dir"))
}

impl Report {
    fn describe(&self, timings: bool) -> String {
        let mut out = format!("{}\n", printable::line(&self.directory, NAME_MAX));
        if self.entries.is_empty() {
            out.push_str("  nothing is remembered\n");
        }
        let mut devices: Vec<&str> = self.entries.iter().map(|entry| entry.device.as_str()).collect();
        devices.dedup();
        for device in devices {
            out.push_str(&format!("\n{}\n", printable::line(device, NAME_MAX)));
            let mut table = Table::new(&["choice", "answer", "age", "remark"]);
            for entry in self.entries.iter().filter(|entry| entry.device == device) {
                let name = printable::line(&entry.name, NAME_MAX);
                table.row([name, entry.answer(), entry.age(), entry.remark(timings)]);
            }
            out.push_str(&table.to_string());
        }
        if let Some(others) = left_alone(self.other_files) {
            out.push_str(&format!("\n{others}\n"));
        }
        out
    }
}

impl EntryFacts {
    fn answer(&self) -> String {
        self.answer.as_ref().map_or("-".into(), |answer| printable::line(answer, NAME_MAX))
    }

    fn age(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let Some(seconds) = self.written_unix_s.map(|written| now.saturating_sub(written)) else {
            return "-".into();
        };
        match seconds {
            0..120 => format!("{seconds} s"),
            120..7200 => format!("{} min", seconds / 60),
            7200..172_800 => format!("{} h", seconds / 3600),
            _ => format!("{} d", seconds / 86_400),
        }
    }

    fn remark(&self, timings: bool) -> String {
        let mut parts: Vec<String> = self.unusable.iter().map(|why| format!("unusable: {why}")).collect();
        parts.extend(self.note.clone());
        if timings {
            parts.extend(self.timings.iter().map(ArmTiming::to_string));
        }
        printable::line(&parts.join(", "), REMARK_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta::tune::store::{Answer, Entry};

    #[test]
    fn a_listing_names_devices_answers_and_what_is_unusable() {
        let listed = |name: &str, entry| Listed {
            device: "cpu-mp16".into(),
            path: PathBuf::from("/store/cpu-mp16").join(name),
            written: None,
            entry,
        };
        let timings =
            vec![ArmTiming { arm: "wide\u{1b}[2J".into(), median_ns: 1500.0, rounds_ns: vec![1500.0] }];
        let answer = Answer { value: "wi\u{7}de".into(), note: Some("a\ttie".into()), timings };
        let good = Entry { name: "shape.f\u{9b}.1x2x3".into(), build: Some("b".into()), answer };
        let entries = [listed("a", Ok(good)), listed("bad", Err("not a whole entry".into()))];
        let report = |entries: Vec<EntryFacts>| Report {
            directory: "/sto\u{1b}re".into(),
            entries,
            other_files: 2,
            troubles: Vec::new(),
        };
        let text = report(entries.into_iter().map(EntryFacts::from).collect()).describe(true);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[2], ["cpu-mp16"]);
        assert_eq!(lines[4].join(" "), "shape.f .1x2x3 wi de - a tie, wide [2J 1.50 us");
        assert_eq!(lines[5].join(" "), "bad - - unusable: not a whole entry");
        assert_eq!(lines[7].join(" "), "2 other files left alone");
        assert!(report(Vec::new()).describe(false).contains("nothing is remembered"));
    }
}
