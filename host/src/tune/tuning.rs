//! Settles questions on one device: fixed by somebody, else remembered, else timed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cajeta_abi::Row;
use cajeta_plugin_host::Device;

use super::asked::{Asked, AskedSoFar, Doubt};
use super::error::TuneError;
use super::key;
use super::others::{FOREIGN_PERCENT_MAX, Others};
use super::overrides::{self, Overrides};
pub(super) use super::question::{ArmId, Keep, Question, Settled, Spent, Timed};
use super::store::{Answer, Autotune, BuildId, BuildParts, DeviceKey};
use super::timer::Verdict;
use crate::record::Answered;

/// The choices of one device.
pub struct Tuning {
    store: Autotune,
    parts: BuildParts,
    overrides: Mutex<Overrides>,
    asked: AskedSoFar,
    holds: AtomicUsize,
    stored_launches: AtomicU64,
    memory_launches: AtomicU64,
    others: Others,
}

/// Holds the trial while it lives: nothing is timed, nothing is remembered.
#[derive(Debug)]
pub struct Hold<'a>(&'a Tuning);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Tuning {
    /// The choices of a device, kept in `directory` (see [`super::store::tune_directory`]).
    pub fn new(device: &Device, directory: Option<&Path>) -> Tuning {
        let backend = device.backend();
        let store = Autotune::open(directory, &DeviceKey::new(backend.id(), device.facts()));
        let parts = BuildParts::new(backend.version(), device.facts());
        Tuning::over(store, parts, Others::load_of(device))
    }

    /// Choices over a given store. `foreign_load` answers percent of the device that others hold now,
    /// `None` where nobody knows.
    pub fn over(
        store: Autotune,
        parts: BuildParts,
        foreign_load: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    ) -> Tuning {
        Tuning {
            store,
            parts,
            overrides: Mutex::default(),
            asked: AskedSoFar::default(),
            holds: AtomicUsize::new(0),
            stored_launches: AtomicU64::new(0),
            memory_launches: AtomicU64::new(0),
            others: Others::new(foreign_load),
        }
    }

    /// The store.
    pub fn store(&self) -> &Autotune {
        &self.store
    }

    /// Fixes the answer of a family, or of one name, for this load; `None` frees it. An arm that is
    /// not among those to choose from fixes nothing.
    pub fn set_override(&self, scope: &str, arm: Option<&str>) {
        self.overrides.lock().unwrap_or_else(PoisonError::into_inner).set(scope, arm);
    }

    /// Fixes what the environment says, and then what the caller does, who wins; answers whether anything
    /// is fixed. `rows` are the backend's.
    ///
    /// # Errors
    /// When one of them could never answer: see [`overrides::check`].
    pub fn fix(&self, told: &[(String, String)], rows: &[Row]) -> Result<bool, TuneError> {
        let environment = overrides::of_process()?;
        for (scope, arm) in environment.iter().chain(told) {
            overrides::check(scope, arm, rows)?;
            self.set_override(scope, Some(arm));
        }
        Ok(!environment.is_empty() || !told.is_empty())
    }

    /// The rows that were chosen over the others of their families.
    pub fn chosen(&self, rows: &[Row]) -> Vec<usize> {
        self.overrides.lock().unwrap_or_else(PoisonError::into_inner).chosen(rows)
    }

    /// The rows that a family's override passes over: they may declare that they step aside for it.
    pub fn passed_over(&self, rows: &[Row]) -> BTreeSet<String> {
        self.overrides.lock().unwrap_or_else(PoisonError::into_inner).passed_over(rows)
    }

    /// Overrides that answered nothing that was asked, each as it was written.
    pub fn unused_overrides(&self) -> Vec<String> {
        self.overrides.lock().unwrap_or_else(PoisonError::into_inner).unused()
    }

    /// Holds the trial until the answer is dropped: for warm-ups and while anything is decoded.
    #[must_use]
    pub fn hold(&self) -> Hold<'_> {
        self.holds.fetch_add(1, Ordering::AcqRel);
        Hold(self)
    }

    /// Launches that measuring cost so far.
    pub fn spent(&self) -> Spent {
        Spent {
            stored: self.stored_launches.load(Ordering::Relaxed),
            memory: self.memory_launches.load(Ordering::Relaxed),
        }
    }

    /// Settles a question; `time` measures its arms in their order where nothing else answers.
    ///
    /// An arm that cannot be timed leaves the first to serve for this run. Without arms the answer is
    /// arm 0: whoever asks has refused that before. What is not kept says so to everybody who asks in this
    /// run, not to the first alone.
    ///
    /// # Errors
    /// When the device is lost, or an arm was found to answer wrong: nothing is remembered then.
    pub fn settle(
        &self,
        question: &Question<'_>,
        time: &mut dyn FnMut() -> Result<Timed, TuneError>,
    ) -> Result<Settled, TuneError> {
        let code = question.arms.iter().map(|arm| (arm.name.as_str(), arm.code));
        let build = BuildId::new(&self.parts, code);
        let settled = self.answer(question, &build, time)?;
        let arm = question.arms.get(settled.arm).map(|arm| arm.name.clone()).unwrap_or_default();
        let asked = Asked { arm, answered: settled.answered, build };
        self.asked.put(&question.name, asked);
        Ok(settled)
    }

    /// How a question of this name was answered last; nothing where it was not asked.
    pub fn asked(&self, name: &str) -> Option<Asked> {
        self.asked.of(name)
    }

    fn answer(
        &self,
        question: &Question<'_>,
        build: &BuildId,
        time: &mut dyn FnMut() -> Result<Timed, TuneError>,
    ) -> Result<Settled, TuneError> {
        let position = |name: &str| question.arms.iter().position(|arm| arm.name == name);
        if let Some(arm) = self.overridden(question) {
            return Ok(Settled::known(arm, Answered::Overridden));
        }
        if question.arms.len() < 2 {
            return Ok(Settled::known(0, Answered::Outright));
        }
        if let Some(answer) = self.store.recall_for(&question.name, build)
            && let Some(arm) = position(&answer.value)
        {
            let doubt = self.asked.doubt(&question.name, build);
            let timed = doubt.as_ref().is_none_or(|doubt| doubt.timed);
            let known = Settled::known(arm, if timed { Answered::Stored } else { Answered::Held });
            return Ok(Settled {
                timings: answer.timings,
                not_stored: doubt.map(|doubt| doubt.why),
                ..known
            });
        }
        if self.holds.load(Ordering::Acquire) > 0 {
            return Ok(Settled::known(0, Answered::Held));
        }
        self.measure(question, build, time)
    }

    /// Remembers that a row answers wrong, and where, for as long as its code, the driver and the device are
    /// the same: a load that times nothing has to know it too.
    pub fn put_wrong(&self, row: &ArmId, difference: &str) {
        let build = BuildId::new(&self.parts, [(row.name.as_str(), row.code)]);
        self.store.remember_for(&key::wrong(&row.name), difference, &build);
    }

    /// Where a row was found to answer wrong.
    pub fn wrong(&self, row: &ArmId) -> Option<String> {
        let build = BuildId::new(&self.parts, [(row.name.as_str(), row.code)]);
        self.store.recall_for(&key::wrong(&row.name), &build).map(|answer| answer.value)
    }

    fn overridden(&self, question: &Question<'_>) -> Option<usize> {
        let arms: Vec<&str> = question.arms.iter().map(|arm| arm.name.as_str()).collect();
        let mut overrides = self.overrides.lock().unwrap_or_else(PoisonError::into_inner);
        overrides.answer([&question.name, question.scope], &arms)
    }

    fn measure(
        &self,
        question: &Question<'_>,
        build: &BuildId,
        time: &mut dyn FnMut() -> Result<Timed, TuneError>,
    ) -> Result<Settled, TuneError> {
        let before = self.others.steady();
        let timed = match time() {
            Ok(timed) => timed,
            Err(error) if error.is_lost() || error.is_wrong() => return Err(error),
            Err(error) => return Ok(self.untimed(question, build, error.to_string())),
        };
        let counter =
            if question.keep == Keep::InMemory { &self.memory_launches } else { &self.stored_launches };
        counter.fetch_add(timed.launches, Ordering::Relaxed);
        let complete = timed.timings.len() == question.arms.len();
        let Some(verdict) = Verdict::of(&timed.timings).filter(|_| complete) else {
            let why = format!("{} of {} arms were timed", timed.timings.len(), question.arms.len());
            return Ok(self.untimed(question, build, why));
        };
        let held = before.max(self.others.steady()).filter(|&percent| percent >= FOREIGN_PERCENT_MAX);
        let not_stored = held.map(|percent| format!("other processes held {percent} % of the device"));
        let answer = Answer {
            value: question.arms[verdict.winner].name.clone(),
            note: note(&verdict),
            timings: timed.timings.clone(),
        };
        match (question.keep, &not_stored) {
            (_, Some(why)) => {
                self.store.remember_now(&question.name, answer, build);
                self.asked.put_doubt(&question.name, build, Doubt { timed: true, why: why.clone() });
            }
            (Keep::InMemory, None) => self.store.remember_now(&question.name, answer, build),
            (keep, None) => {
                self.store.remember_for(&question.name, answer, build);
                if keep == Keep::WithMargin {
                    let lead = format!("{:.2}", verdict.lead_percent.unwrap_or(0.0));
                    let twin = Answer { value: lead, note: note(&verdict), timings: Vec::new() };
                    self.store.remember_for(&key::margin(&question.name), twin, build);
                }
            }
        }
        Ok(Settled {
            arm: verdict.winner,
            answered: Answered::Measured,
            lead_percent: verdict.lead_percent,
            tie: verdict.tie,
            timings: timed.timings,
            launches: timed.launches,
            not_stored,
        })
    }

    /// The first serves for this run, and nobody tries again.
    fn untimed(&self, question: &Question<'_>, build: &BuildId, why: String) -> Settled {
        if let Some(first) = question.arms.first() {
            self.store.remember_now(&question.name, first.name.as_str(), build);
            self.asked.put_doubt(&question.name, build, Doubt { timed: false, why: why.clone() });
        }
        Settled { not_stored: Some(why), ..Settled::known(0, Answered::Held) }
    }

    /// Whether others hold so much of the device that a measurement would not be kept.
    pub fn is_busy(&self) -> bool {
        self.others.steady().is_some_and(|percent| percent >= FOREIGN_PERCENT_MAX)
    }
}

impl std::fmt::Debug for Tuning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tuning")
            .field("store", &self.store)
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

fn note(verdict: &Verdict) -> Option<String> {
    verdict.tie.then(|| format!("a tie: ahead by {:.2} %", verdict.lead_percent.unwrap_or(0.0)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::ArmTiming;
    use cajeta_abi::Code;

    /// Choices over a store in a folder, on a device that others hold so much of.
    pub(crate) fn tuning(folder: Option<&Path>, foreign: Option<u64>) -> Tuning {
        let key = DeviceKey::new("fake", &crate::filter::recorded::rtx_4090());
        let parts = BuildParts { device: "uuid".into(), driver: "1".into(), plugin: "1".into() };
        Tuning::over(Autotune::open(folder, &key), parts, Box::new(move || foreign))
    }

    pub(crate) fn timed(medians: &[f64]) -> Timed {
        let timing =
            |&median_ns: &f64| ArmTiming { median_ns, rounds_ns: vec![median_ns; 5], ..Default::default() };
        Timed { timings: medians.iter().map(timing).collect(), launches: 100 }
    }

    fn question(keep: Keep) -> Question<'static> {
        let arm = |name: &str| ArmId { name: name.into(), code: Some([1; 32]) };
        Question { name: "shape.f.1x2x3".into(), scope: "f", arms: vec![arm("large"), arm("small")], keep }
    }

    fn settle(tuning: &Tuning, keep: Keep, medians: &[f64]) -> Settled {
        tuning.settle(&question(keep), &mut || Ok(timed(medians))).expect("not lost")
    }

    #[test]
    fn a_second_load_times_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = tuning(Some(folder.path()), Some(0));
        let settled = settle(&first, Keep::WithMargin, &[120.0, 100.0]);
        assert_eq!((settled.arm, settled.answered, settled.tie), (1, Answered::Measured, false));
        assert_eq!((settled.lead_percent, first.spent()), (Some(20.0), Spent { stored: 100, memory: 0 }));

        let second = tuning(Some(folder.path()), Some(0));
        let again = second.settle(&question(Keep::WithMargin), &mut || panic!("timed again")).expect("known");
        assert_eq!((again.arm, again.answered, again.timings.len()), (1, Answered::Stored, 2));
        assert_eq!(second.spent(), Spent::default());
        let margin = second.store().recall("shape.f.1x2x3.margin").expect("a twin");
        assert_eq!(margin.value, "20.00");
    }

    #[test]
    fn other_code_is_measured_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        settle(&tuning(Some(folder.path()), Some(0)), Keep::Stored, &[120.0, 100.0]);
        let mut changed = question(Keep::Stored);
        changed.arms[0].code = Some([2; 32]);
        let second = tuning(Some(folder.path()), Some(0));
        let settled = second.settle(&changed, &mut || Ok(timed(&[90.0, 100.0]))).expect("not lost");
        assert_eq!((settled.arm, settled.answered), (0, Answered::Measured));
    }

    #[test]
    fn a_tie_keeps_the_faster_and_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let settled = settle(&tuning(Some(folder.path()), None), Keep::Stored, &[101.0, 100.0]);
        assert!(settled.tie && settled.arm == 1 && settled.not_stored.is_none(), "no load known: kept");
        let answer = tuning(Some(folder.path()), None).store().recall("shape.f.1x2x3").expect("kept");
        assert_eq!(
            (answer.value.as_str(), answer.note.as_deref()),
            ("small", Some("a tie: ahead by 1.00 %"))
        );
    }

    #[test]
    fn a_device_that_others_hold_is_measured_for_this_run_alone() {
        for (percent, kept) in [(24, true), (25, false), (100, false)] {
            let folder = tempfile::tempdir().expect("a folder");
            let first = tuning(Some(folder.path()), Some(percent));
            let settled = settle(&first, Keep::WithMargin, &[120.0, 100.0]);
            assert_eq!(settled.not_stored.is_none(), kept, "{percent} %");
            let again = settle(&first, Keep::WithMargin, &[]);
            assert_eq!(again.answered, Answered::Stored, "for this run");
            assert_eq!(again.not_stored, settled.not_stored, "and it says so again");
            let second = tuning(Some(folder.path()), Some(0));
            assert_eq!(second.store().recall("shape.f.1x2x3").is_some(), kept);
        }
    }

    #[test]
    fn an_override_wins_and_a_hold_times_nothing() {
        let tuning = tuning(None, None);
        let asleep = |keep| tuning.settle(&question(keep), &mut || panic!("timed")).expect("not lost");
        tuning.set_override("f", Some("small"));
        assert_eq!((asleep(Keep::Stored).arm, asleep(Keep::Stored).answered), (1, Answered::Overridden));
        tuning.set_override("shape.f.1x2x3", Some("large"));
        assert_eq!(asleep(Keep::Stored).arm, 0, "the name before the family");
        tuning.set_override("shape.f.1x2x3", None);
        tuning.set_override("f", None);
        {
            let _hold = tuning.hold();
            let held = asleep(Keep::Stored);
            assert_eq!((held.arm, held.answered), (0, Answered::Held));
        }
        let settled = settle(&tuning, Keep::Stored, &[2.0, 1.0]);
        assert_eq!(
            (settled.arm, settled.answered),
            (1, Answered::Measured),
            "what was held is not an answer"
        );
    }

    #[test]
    fn memory_answers_are_counted_apart_and_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = tuning(Some(folder.path()), None);
        assert_eq!(settle(&first, Keep::InMemory, &[2.0, 1.0]).arm, 1);
        assert_eq!(first.spent(), Spent { stored: 0, memory: 100 });
        assert_eq!(settle(&first, Keep::InMemory, &[]).answered, Answered::Stored);
        assert_eq!(tuning(Some(folder.path()), None).store().recall("shape.f.1x2x3"), None);
    }

    #[test]
    fn what_cannot_be_timed_serves_by_priority_and_a_lost_device_is_an_error() {
        let tuning = tuning(None, None);
        let fail = |code| {
            move || -> Result<Timed, TuneError> {
                let backend = "fake".into();
                let text = String::new();
                Err(cajeta_plugin_host::DeviceError { operation: "submit", backend, code, text }.into())
            }
        };
        assert!(tuning.settle(&question(Keep::Stored), &mut fail(Code::LOST)).is_err());
        let settled = tuning.settle(&question(Keep::Stored), &mut fail(Code::OUT_OF_MEMORY)).expect("serves");
        assert!(settled.arm == 0 && settled.not_stored.is_some());
        let again = tuning.settle(&question(Keep::Stored), &mut || panic!("tried again")).expect("serves");
        assert_eq!((again.arm, again.answered), (0, Answered::Held));
        assert_eq!(again.not_stored, settled.not_stored, "it is no more settled than before");
    }

    #[test]
    fn an_arm_that_answers_wrong_is_an_error_and_found_out_again() {
        let tuning = tuning(None, None);
        let mut asked = 0;
        for _ in 0..2 {
            let settled = tuning.settle(&question(Keep::Stored), &mut || {
                asked += 1;
                Err(TuneError::Wrong { row: "small".into(), difference: "output 3".into() })
            });
            let error = settled.expect_err("wrong").to_string();
            assert!(error.contains("`small`") && error.contains("output 3"), "{error}");
        }
        assert_eq!((asked, tuning.store().recall("shape.f.1x2x3")), (2, None));
    }

    #[test]
    fn what_was_asked_is_known_by_name_with_its_build() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = tuning(Some(folder.path()), None);
        assert_eq!(first.asked("shape.f.1x2x3"), None);
        settle(&first, Keep::Stored, &[2.0, 1.0]);
        let asked = first.asked("shape.f.1x2x3").expect("asked");
        assert_eq!((asked.arm.as_str(), asked.answered), ("small", Answered::Measured));
        let known = first.store().recall_for("shape.f.1x2x3", &asked.build).expect("kept");
        assert_eq!(known.timings.len(), 2);
        // Another build of the arms is another question, which the old answer says nothing about.
        let again = tuning(Some(folder.path()), None);
        let _hold = again.hold();
        let mut rebuilt = question(Keep::Stored);
        rebuilt.arms[0].code = Some([7; 32]);
        again.settle(&rebuilt, &mut || panic!("timed while held")).expect("serves");
        let asked = again.asked("shape.f.1x2x3").expect("asked");
        assert_eq!(asked.answered, Answered::Held);
        assert_eq!(again.store().recall_for("shape.f.1x2x3", &asked.build), None);
        assert!(again.store().recall("shape.f.1x2x3").is_some(), "which is of the other build");
    }

    #[test]
    fn one_arm_is_outright() {
        let mut alone = question(Keep::Stored);
        alone.arms.truncate(1);
        let settled = tuning(None, None).settle(&alone, &mut || panic!("timed")).expect("not lost");
        assert_eq!((settled.arm, settled.answered), (0, Answered::Outright));
    }
}
