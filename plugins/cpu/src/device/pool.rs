//! The threads: the caller of `poll` leads, workers join it phase by phase.
//!
//! A phase opens when the leader raises the generation. Workers that are awake
//! join it; the leader closes it when it finds no work left to claim, and waits
//! for those that joined, so that a worker the system is not running holds
//! nobody up. Workers wait by spinning, because a decode step has hundreds of
//! phases a microsecond apart, and go to sleep when nothing comes.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Instant;

use cajeta_plugin_api::{Answer, Fault};

use super::memory::Arena;
use crate::task::{Crew, Refusal, Task};

/// Spins (with a pause each) before a worker goes to sleep: about 100 us.
const SPINS: u32 = 4000;

/// Set in [`Shared::phase`] while the phase may be joined.
const OPEN: u64 = 1 << 31;
/// The workers in [`Shared::phase`] that joined.
const JOINED: u64 = OPEN - 1;

fn generation(phase: u64) -> u64 {
    phase >> 32
}

/// The threads of a device.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    leader: Mutex<Arena>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    /// The current phase: its generation in the upper half, then [`OPEN`] while
    /// workers may join, and the number that did.
    phase: AtomicU64,
    /// Workers that joined the current phase and are done.
    arrived: AtomicU64,
    job: UnsafeCell<Option<Job>>,
    next: AtomicUsize,
    refusal: Refusal,
    panicked: AtomicBool,
    stop: AtomicBool,
    threads: usize,
    sleepers: AtomicUsize,
    bed: Mutex<()>,
    bell: Condvar,
}

#[derive(Clone, Copy)]
struct Job {
    task: *const dyn Task,
    phase: usize,
}

// SAFETY: `job` is written only by the leader while no phase is open and every
// worker that joined the last one has arrived, and read only by workers that
// joined a phase (with acquire) the leader opened (with release) after the write.
// The task behind the pointer is `Sync` and outlives the phase.
unsafe impl Sync for Shared {}
// SAFETY: as above; a `Job` is a pointer to a `Sync` task.
unsafe impl Send for Shared {}

impl Pool {
    /// A pool of `threads` (at least 1), the caller's included.
    pub(crate) fn new(threads: usize) -> Answer<Pool> {
        let threads = threads.max(1);
        let shared = Arc::new(Shared {
            phase: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            next: AtomicUsize::new(0),
            refusal: Refusal::default(),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            threads,
            sleepers: AtomicUsize::new(0),
            bed: Mutex::new(()),
            bell: Condvar::new(),
        });
        let mut pool =
            Pool { shared: Arc::clone(&shared), leader: Mutex::new(Arena::new()?), workers: Vec::new() };
        for index in 1..threads {
            let arena = Arena::new()?;
            let shared = Arc::clone(&shared);
            let worker = std::thread::Builder::new()
                .name(format!("cajeta-cpu-{index}"))
                .spawn(move || work(&shared, &arena))
                .map_err(|error| {
                    Fault::unavailable(format!(
                        "starting worker thread {index} of {threads}: {error}; set CAJETA_CPU_THREADS to fewer"
                    ))
                })?;
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    /// Leads until dropped; waits for another leader until `deadline`.
    pub(crate) fn lead(&self, deadline: Option<Instant>) -> Option<Lead<'_>> {
        loop {
            match self.leader.try_lock() {
                Ok(arena) => return Some(Lead { shared: &self.shared, arena }),
                Err(TryLockError::Poisoned(poisoned)) => {
                    return Some(Lead { shared: &self.shared, arena: poisoned.into_inner() });
                }
                Err(TryLockError::WouldBlock) => {
                    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                        return None;
                    }
                    std::thread::yield_now();
                }
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.open();
        for worker in self.workers.drain(..) {
            // A worker catches what its tasks throw, so there is nothing to learn here.
            let _ = worker.join();
        }
    }
}

/// The right to run tasks on a pool.
pub(crate) struct Lead<'a> {
    shared: &'a Shared,
    arena: MutexGuard<'a, Arena>,
}

impl Lead<'_> {
    /// Runs a task to its end.
    ///
    /// # Errors
    /// `INVALID` with what the task refused; `INTERNAL` when it panicked.
    ///
    /// # Safety
    /// As [`Task::run`].
    pub(crate) unsafe fn run(&mut self, task: &dyn Task) -> Answer<()> {
        let shared = self.shared;
        for phase in 0..task.phases() {
            shared.next.store(0, Ordering::Relaxed);
            let solo = shared.threads == 1 || task.solo(phase);
            if !solo {
                shared.arrived.store(0, Ordering::Relaxed);
                // SAFETY: no phase is open and nobody is in the last one, so no
                // worker reads `job`; the lifetime is erased only until the phase
                // is closed below, which the task outlives.
                unsafe {
                    *shared.job.get() =
                        Some(Job { task: std::mem::transmute::<&dyn Task, *const dyn Task>(task), phase });
                }
                shared.open();
            }
            let mut crew = Crew {
                threads: if solo { 1 } else { shared.threads },
                next: &shared.next,
                arena: self.arena.start(),
                refusal: &shared.refusal,
            };
            // SAFETY: passed on from the caller; earlier phases were waited for.
            let own = catch_unwind(AssertUnwindSafe(|| unsafe { task.run(phase, &mut crew) }));
            if !solo {
                shared.close();
            }
            if own.is_err() || shared.panicked.swap(false, Ordering::AcqRel) {
                shared.refusal.take();
                return Err(Fault::internal("a kernel panicked"));
            }
            if let Some(text) = shared.refusal.take() {
                return Err(Fault::invalid(text));
            }
        }
        Ok(())
    }
}

impl Shared {
    /// Opens a phase (or lets workers see `stop`).
    fn open(&self) {
        let next = generation(self.phase.load(Ordering::Relaxed)) + 1;
        self.phase.store(next << 32 | OPEN, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _awake = self.bed.lock().unwrap_or_else(PoisonError::into_inner);
            self.bell.notify_all();
        }
    }

    /// Lets no more workers join and waits for those that did.
    fn close(&self) {
        let joined = self.phase.fetch_and(!OPEN, Ordering::AcqRel) & JOINED;
        let mut spins = 0u32;
        while self.arrived.load(Ordering::Acquire) < joined {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Waits for a phase later than `seen` and joins it; answers its generation.
    fn join(&self, mut seen: u64) -> u64 {
        loop {
            let phase = self.wait_for_phase(seen);
            if phase & OPEN == 0 {
                // Closed before this worker came: wait for the one after it.
                seen = generation(phase);
                continue;
            }
            let joined = self.phase.compare_exchange(phase, phase + 1, Ordering::AcqRel, Ordering::Relaxed);
            if joined.is_ok() {
                return generation(phase);
            }
        }
    }

    /// Waits until the generation is later than `seen`.
    fn wait_for_phase(&self, seen: u64) -> u64 {
        for _ in 0..SPINS {
            let phase = self.phase.load(Ordering::Acquire);
            if generation(phase) != seen {
                return phase;
            }
            std::hint::spin_loop();
        }
        let mut bed = self.bed.lock().unwrap_or_else(PoisonError::into_inner);
        // Both sides use sequential consistency: either `open` sees the sleeper,
        // or the sleeper sees the new generation.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let phase = loop {
            let phase = self.phase.load(Ordering::SeqCst);
            if generation(phase) != seen {
                break phase;
            }
            bed = self.bell.wait(bed).unwrap_or_else(PoisonError::into_inner);
        };
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        phase
    }
}

fn work(shared: &Shared, arena: &Arena) {
    let mut seen = 0;
    loop {
        seen = shared.join(seen);
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        // SAFETY: the leader wrote `job` before it opened the phase this worker
        // joined, and does not write it again before this worker has arrived.
        if let Some(Job { task, phase }) = unsafe { *shared.job.get() } {
            let mut crew = Crew {
                threads: shared.threads,
                next: &shared.next,
                arena: arena.start(),
                refusal: &shared.refusal,
            };
            // SAFETY: the leader keeps the task alive and its contract until all
            // workers that joined have arrived.
            let done = catch_unwind(AssertUnwindSafe(|| unsafe { (*task).run(phase, &mut crew) }));
            if done.is_err() {
                shared.panicked.store(true, Ordering::Release);
            }
        }
        shared.arrived.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count {
        items: usize,
        sums: [AtomicU64; 2],
        refuse_at: Option<usize>,
        panic_at: Option<usize>,
    }

    impl Task for Count {
        fn phases(&self) -> usize {
            2
        }
        fn solo(&self, _phase: usize) -> bool {
            false
        }
        unsafe fn run(&self, phase: usize, crew: &mut Crew<'_>) {
            while let Some(range) = crew.claim(3, self.items) {
                for item in range {
                    if phase == 1 {
                        assert_eq!(self.sums[0].load(Ordering::Relaxed), (0..self.items as u64).sum());
                        if self.refuse_at == Some(item) {
                            crew.refusal.say(|| format!("item {item}"));
                        }
                        assert!(self.panic_at != Some(item), "asked to");
                    }
                    self.sums[phase].fetch_add(item as u64, Ordering::Relaxed);
                }
            }
        }
    }

    fn count(refuse_at: Option<usize>, panic_at: Option<usize>) -> Count {
        Count { items: 100, sums: [AtomicU64::new(0), AtomicU64::new(0)], refuse_at, panic_at }
    }

    #[test]
    fn phases_are_complete_before_the_next_and_work_is_done_once() {
        for threads in [1, 2, 5] {
            let pool = Pool::new(threads).unwrap();
            for round in 0..50 {
                let task = count(None, None);
                // SAFETY: the task touches only its own atomics.
                unsafe { pool.lead(None).unwrap().run(&task) }.unwrap();
                assert_eq!(task.sums[1].load(Ordering::Relaxed), 4950, "round {round}");
            }
        }
    }

    #[test]
    fn refusals_and_panics_are_answers_and_the_pool_lives_on() {
        let pool = Pool::new(3).unwrap();
        let run = |task: &Count| {
            // SAFETY: the task touches only its own atomics.
            unsafe { pool.lead(None).unwrap().run(task) }
        };
        assert_eq!(run(&count(Some(40), None)).unwrap_err(), Fault::invalid("item 40"));
        assert_eq!(run(&count(None, Some(41))).unwrap_err(), Fault::internal("a kernel panicked"));
        run(&count(None, None)).unwrap();
    }

    #[test]
    fn sleepers_wake() {
        let pool = Pool::new(2).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let task = count(None, None);
        // SAFETY: the task touches only its own atomics.
        unsafe { pool.lead(None).unwrap().run(&task) }.unwrap();
    }
}
