//! Compares arms: each launched in brackets, round by round, so that a drifting clock favours none.

use std::fmt;

use cajeta_plugin_host::DeviceError;

use super::clock::{Clock, Tier};
use super::face::TimedQueue;
use super::verdict::median;
use crate::record::ArmTiming;

/// Launches of a bracket: enough to lift the time of one above the noise of the bracket's ends.
pub const LAUNCHES: u32 = 20;
/// Rounds that count, after one that warms.
pub const ROUNDS: usize = 5;

/// A launch this long stands above the noise alone; its bracket is as many as fit into this time.
pub const BRACKET_NS: f64 = 10e6;
/// Where brackets are of one launch, an arm this many times slower than the fastest when warming is out
/// of the race: seconds would be spent on confirming it.
const HOPELESS: f64 = 1.5;
/// Likewise where brackets are of many: a launch by itself says less.
const HOPELESS_BY_ITSELF: f64 = 3.0;

/// One of the things compared.
pub struct Arm<'a, W> {
    /// Its name.
    pub name: String,
    /// Launches it is made of.
    pub launches: u32,
    /// How often a bracket may repeat it at most: an arm over so many different operands would find the
    /// first ones again.
    pub most: u32,
    /// Nanoseconds that a bracket takes at least, as far as `most` lets it.
    pub bracket_ns: f64,
    /// Prepares it so many times over, to be submitted as one.
    pub prepare: Box<dyn Fn(u32) -> Result<W, DeviceError> + 'a>,
}

impl<W> fmt::Debug for Arm<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arm({})", self.name)
    }
}

/// A timer over a queue.
pub struct KernelTimer<Q: TimedQueue> {
    queue: Q,
    clock: Clock,
    launches: u64,
    /// Run before each bracket that counts.
    sweep: Option<Q::Work>,
    /// Longest time of a bracket of long launches.
    most_ns: f64,
}

impl<Q: TimedQueue + fmt::Debug> fmt::Debug for KernelTimer<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelTimer")
            .field("queue", &self.queue)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// An arm that was prepared.
struct Bracket<W> {
    work: W,
    /// Times the arm is in it.
    times: u32,
    /// Launches that is.
    launches: u64,
}

impl<Q: TimedQueue> KernelTimer<Q> {
    /// A timer that has timed nothing yet.
    pub fn new(queue: Q) -> KernelTimer<Q> {
        KernelTimer { queue, clock: Clock::default(), launches: 0, sweep: None, most_ns: f64::INFINITY }
    }

    /// Runs `sweep` before each bracket that counts: work that leaves nothing in a cache of what the
    /// bracket reads. It is not timed.
    pub fn sweep_with(&mut self, sweep: Option<Q::Work>) {
        self.sweep = sweep;
    }

    /// Makes brackets of long launches no longer than this, and goes by the host's clock, which needs no
    /// holding against another: where less time may be spent than precision would like, on a device that
    /// works with the host.
    pub fn hurry(&mut self, bracket: std::time::Duration) {
        self.most_ns = bracket.as_secs_f64() * 1e9;
        self.clock = Clock::host();
    }

    /// The queue, to prepare what is timed.
    pub fn queue(&mut self) -> &mut Q {
        &mut self.queue
    }

    /// Launches it has made so far, warming and calibration included.
    pub fn launches(&self) -> u64 {
        self.launches
    }

    /// By which clock it times, once it has timed something.
    pub fn tier(&self) -> Option<Tier> {
        self.clock.known()
    }

    /// Times arms against each other: a warm round, then five that count, the arms interleaved and each
    /// round begun by the next of them. An answer is nanoseconds of one launch, in the order of the arms.
    ///
    /// # Errors
    /// Whatever the device answers.
    pub fn compare(&mut self, arms: &[Arm<'_, Q::Work>]) -> Result<Vec<ArmTiming>, DeviceError> {
        let mut timings: Vec<ArmTiming> =
            arms.iter().map(|arm| ArmTiming { arm: arm.name.clone(), ..ArmTiming::default() }).collect();
        let mut brackets = Vec::with_capacity(arms.len());
        let mut warm = Vec::with_capacity(arms.len());
        for arm in arms {
            let (bracket, ns) = self.warm_up(arm)?;
            brackets.push(bracket);
            warm.push(ns);
        }
        let fastest = warm.iter().copied().fold(f64::INFINITY, f64::min);
        let mut racing: Vec<usize> = (0..arms.len()).collect();
        racing.retain(|&arm| {
            let times_slower = if brackets[arm].times == 1 { HOPELESS } else { HOPELESS_BY_ITSELF };
            // Where brackets are kept short, rounds are cheap, and one launch confirms little.
            let hopeless = self.most_ns.is_infinite() && warm[arm] > fastest * times_slower;
            if hopeless {
                timings[arm].rounds_ns = vec![warm[arm]];
            }
            !hopeless
        });
        for _ in 0..ROUNDS {
            if let Some(tier) = racing.first().map(|&first| self.tier_with(&brackets[first])) {
                self.round(tier?, &racing, &brackets, &mut timings)?;
            }
            // Whoever comes first runs on the coolest device; nobody always does.
            let step = racing.len().min(1);
            racing.rotate_left(step);
        }
        for timing in &mut timings {
            timing.median_ns = median(&mut timing.rounds_ns.clone());
        }
        Ok(timings)
    }

    /// Prepares an arm's bracket as long as it needs to be, and runs it once.
    fn warm_up(&mut self, arm: &Arm<'_, Q::Work>) -> Result<(Bracket<Q::Work>, f64), DeviceError> {
        let single = (arm.prepare)(1)?;
        // The first launch may load code or fault memory in, and either may be held up by others.
        let first = self.host_ns(&single)?;
        let ns = self.host_ns(&single)?.min(first);
        let of_one = u64::from(arm.launches);
        self.launches += 2 * of_one;
        let most = f64::from(arm.most.clamp(1, LAUNCHES));
        let times = (arm.bracket_ns.min(self.most_ns) / ns.max(1.0)).ceil().clamp(1.0, most) as u32;
        tracing::debug!(target: "cajeta::tune", arm = arm.name, launches = of_one, ns, times, "bracket");
        if times == 1 {
            return Ok((Bracket { work: single, times, launches: of_one }, ns));
        }
        let work = (arm.prepare)(times)?;
        self.host_ns(&work)?;
        let launches = of_one * u64::from(times);
        self.launches += launches;
        Ok((Bracket { work, times, launches }, ns))
    }

    fn tier_with(&mut self, bracket: &Bracket<Q::Work>) -> Result<Tier, DeviceError> {
        let mut count = 0;
        let tier = self.clock.tier(&mut self.queue, &bracket.work, &mut count);
        self.launches += count * bracket.launches;
        tier
    }

    /// One bracket of each arm, on one timeline.
    fn round(
        &mut self,
        tier: Tier,
        racing: &[usize],
        brackets: &[Bracket<Q::Work>],
        timings: &mut [ArmTiming],
    ) -> Result<(), DeviceError> {
        let mut add = |arm: usize, ns: f64| {
            timings[arm].rounds_ns.push(ns / f64::from(brackets[arm].times));
        };
        if tier == Tier::Host {
            for &arm in racing {
                if let Some(sweep) = &self.sweep {
                    let swept = self.queue.submit(sweep)?;
                    self.queue.wait(swept)?;
                }
                let ns = self.host_ns(&brackets[arm].work)?;
                self.launches += brackets[arm].launches;
                add(arm, ns);
            }
            return Ok(());
        }
        let Tier::Event { scale } = tier else { return Ok(()) };
        // The end of one bracket, or of the sweep behind it, is the beginning of the next; the first
        // needs a mark before it.
        let Some(&first) = racing.first() else { return Ok(()) };
        let mut before = match &self.sweep {
            Some(sweep) => self.queue.submit(sweep)?,
            None => {
                self.launches += brackets[first].launches;
                self.queue.submit(&brackets[first].work)?
            }
        };
        let mut marks = Vec::with_capacity(racing.len());
        for (place, &arm) in racing.iter().enumerate() {
            let end = self.queue.submit(&brackets[arm].work)?;
            self.launches += brackets[arm].launches;
            marks.push((arm, before, end));
            before = match &self.sweep {
                Some(sweep) if place + 1 < racing.len() => self.queue.submit(sweep)?,
                _ => end,
            };
        }
        self.queue.wait(before)?;
        for (arm, begin, end) in marks {
            let time = self.queue.elapsed(begin, end)?.unwrap_or_default();
            add(arm, time.as_secs_f64() * 1e9 * scale);
        }
        Ok(())
    }

    /// Host time of a submission and its wait.
    fn host_ns(&mut self, work: &Q::Work) -> Result<f64, DeviceError> {
        let start = self.queue.now();
        let mark = self.queue.submit(work)?;
        self.queue.wait(mark)?;
        Ok(self.queue.now().saturating_sub(start).as_secs_f64() * 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeQueue, FakeWork};
    use super::super::verdict::Verdict;
    use super::*;

    fn arm(name: &'static str, ns: f64) -> Arm<'static, FakeWork> {
        Arm {
            name: name.to_owned(),
            launches: 1,
            most: LAUNCHES,
            bracket_ns: BRACKET_NS,
            prepare: Box::new(move |launches| Ok(FakeQueue::work(name, launches, ns))),
        }
    }

    #[test]
    fn brackets_are_of_twenty_and_rounds_interleave() {
        let mut timer = KernelTimer::new(FakeQueue::new(Some(1.0)));
        let timings = timer.compare(&[arm("a", 10_000.0), arm("b", 9_000.0)]).expect("no fault");
        assert!(timings.iter().all(|timing| timing.rounds_ns.len() == ROUNDS));
        assert!((timings[0].median_ns - 10_000.0).abs() < 100.0, "{timings:?}");
        assert!((timings[1].median_ns - 9_000.0).abs() < 100.0, "{timings:?}");
        let runs = timer.queue().runs.clone();
        assert_eq!(runs.iter().map(|&(_, launches)| u64::from(launches)).sum::<u64>(), timer.launches());
        // The five rounds come last: a mark and one bracket of each, begun by either in turn.
        let last: Vec<&str> = runs[runs.len() - 15..].iter().map(|&(name, _)| name).collect();
        assert_eq!(last.concat(), "aabbbaaabbbaaab");
        assert!(runs[runs.len() - 15..].iter().all(|&(_, launches)| launches == LAUNCHES));
    }

    #[test]
    fn a_sweep_runs_before_each_bracket_and_is_not_timed() {
        for clock in [Some(1.0), None] {
            let mut timer = KernelTimer::new(FakeQueue::new(clock));
            timer.sweep_with(Some(FakeQueue::work("sweep", 1, 700_000.0)));
            let few = |name, ns| Arm { most: 4, ..arm(name, ns) };
            let timings = timer.compare(&[few("a", 20_000.0), few("b", 18_000.0)]).expect("no fault");
            assert!((timings[1].median_ns - 18_000.0).abs() < 3_000.0, "{timings:?}");
            let runs = timer.queue().runs.clone();
            let last: Vec<&str> = runs[runs.len() - 20..].iter().map(|&(name, _)| name).collect();
            let swept = last.chunks(2).all(|pair| pair[0] == "sweep" && pair[1] != "sweep");
            assert!(swept, "{last:?}");
            assert!(runs.iter().all(|&(name, launches)| name == "sweep" || launches <= 4), "{runs:?}");
        }
    }

    #[test]
    fn a_drifting_clock_favours_nobody() {
        // The device slows by a tenth with every submission: whoever always ran later would lose.
        let mut fake = FakeQueue::new(Some(1.0));
        fake.drift = 1.01;
        let mut timer = KernelTimer::new(fake);
        let timings = timer.compare(&[arm("slow", 10_500.0), arm("fast", 10_000.0)]).expect("no fault");
        assert_eq!(Verdict::of(&timings).map(|verdict| verdict.winner), Some(1), "{timings:?}");
    }

    #[test]
    fn a_wrong_clock_is_corrected_and_an_outlier_does_not_decide() {
        let mut fake = FakeQueue::new(Some(1.046));
        fake.hiccup = Some(("a", 7));
        let timings = KernelTimer::new(fake).compare(&[arm("a", 50_000.0), arm("b", 60_000.0)]);
        let timings = timings.expect("no fault");
        assert!((timings[0].median_ns - 50_000.0).abs() < 500.0, "{timings:?}");
        assert_eq!(Verdict::of(&timings).map(|verdict| verdict.winner), Some(0));
    }

    #[test]
    fn without_a_device_clock_the_hosts_serves() {
        let mut timer = KernelTimer::new(FakeQueue::new(None));
        let timings = timer.compare(&[arm("a", 30_000.0), arm("b", 20_000.0)]).expect("no fault");
        assert_eq!(timer.tier(), Some(Tier::Host));
        // The cost of a submission is shared by twenty launches.
        assert!((timings[1].median_ns - 20_000.0).abs() < 1_000.0, "{timings:?}");
        assert_eq!(Verdict::of(&timings).map(|verdict| verdict.winner), Some(1));
    }

    #[test]
    fn long_launches_make_short_brackets_and_the_hopeless_do_not_race() {
        let mut timer = KernelTimer::new(FakeQueue::new(Some(1.0)));
        let arms = [arm("a", 100e6), arm("b", 110e6), arm("c", 400e6)];
        let timings = timer.compare(&arms).expect("no fault");
        let rounds: Vec<usize> = timings.iter().map(|timing| timing.rounds_ns.len()).collect();
        assert_eq!(rounds, [ROUNDS, ROUNDS, 1]);
        assert!(timings[2].median_ns > 3.9e8);
        assert!(timer.queue().runs.iter().all(|&(_, launches)| launches == 1));
    }

    #[test]
    fn a_fault_of_the_device_comes_through() {
        let mut fake = FakeQueue::new(Some(1.0));
        fake.fails_after = Some(3);
        let error = KernelTimer::new(fake).compare(&[arm("a", 10.0)]).expect_err("the device fails");
        assert_eq!(error.code, cajeta_abi::Code::LOST);
    }
}
