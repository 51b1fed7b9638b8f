//! Times prefill and decode at a given depth, and each launch of a step: what `bench` prints.

use std::time::{Duration, Instant};

use cajeta_abi::Span;
use cajeta_catalog::state::SampleParams;

use super::LlmEngine;
use super::cost::LaunchCost;
use super::error::EngineError;
use super::noise::split_mix;
use super::state::DecodeRow;
use crate::lower::Segment;

/// Same noise, same draws, for runs that are compared.
const NOISE_SEED: u64 = 1;

/// What the cache holds below the depth of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Keys and values computed from random tokens.
    Prefill,
    /// Noise.
    Noise,
}

/// The time of a number of decode steps.
#[derive(Clone, Copy, Debug)]
pub struct DecodeTime {
    /// From the first step's submission to the last step's tokens.
    pub wall: Duration,
    /// Device time of a step: the mean over those that followed the one before at once.
    pub device: Option<Duration>,
    /// Host time spent queueing a step: the mean.
    pub submit: Duration,
}

/// A launch, what it moves, and how long it ran.
#[derive(Clone, Debug)]
pub struct LaunchTime {
    /// The launch.
    pub cost: LaunchCost,
    /// One for each repetition.
    pub times: Vec<Duration>,
}

impl LlmEngine {
    /// Most sequences decoded at once.
    pub fn max_seqs(&self) -> u32 {
        self.runner.max_seqs()
    }

    /// Fills the caches of the first `seqs` slots to `depth` positions. What `generate` had cached is
    /// forgotten.
    ///
    /// # Errors
    /// When the context is shorter, or the device fails.
    pub fn fill(&mut self, seqs: u32, depth: u32, fill: Fill) -> Result<(), EngineError> {
        self.forget_all()?;
        if depth == 0 {
            return Ok(());
        }
        if fill == Fill::Noise && !self.noisy {
            self.runner.fill_cache_with_noise(NOISE_SEED)?;
            self.noisy = true;
        }
        for slot in 0..seqs as usize {
            match fill {
                Fill::Noise => self.runner.sequences.reserve(slot, depth)?,
                Fill::Prefill => {
                    let tokens = self.random_tokens(depth, slot as u64);
                    self.prefill_chunks(slot, &tokens, 0)?;
                }
            }
        }
        Ok(())
    }

    /// Times computing `n` tokens of the sequence in slot 0 behind `depth` positions, to the drawn token.
    ///
    /// # Errors
    /// When the context is shorter, or the device fails.
    pub fn time_prefill(&mut self, depth: u32, n: u32) -> Result<Duration, EngineError> {
        let tokens = self.random_tokens(n, u64::from(depth));
        self.runner.discard_steps()?;
        self.runner.set_sampling(&SampleParams::GREEDY)?;
        let begun = Instant::now();
        let last = self.prefill_chunks(0, &tokens, depth)?;
        self.runner.draw_after_prefill(last, depth + n)?;
        let wall = begun.elapsed();
        self.runner.truncate(0, depth);
        Ok(wall)
    }

    /// Times `n` decode steps of `seqs` sequences behind `depth` positions each.
    ///
    /// # Errors
    /// When the context is shorter, no kernel serves so many sequences, or the device fails.
    pub fn time_decode(&mut self, seqs: u32, depth: u32, n: u32) -> Result<DecodeTime, EngineError> {
        self.begin_decode_at(seqs, depth)?;
        let (mut device, mut timed, mut submit) = (Duration::ZERO, 0, Duration::ZERO);
        let mut unsubmitted = n as usize;
        let begun = Instant::now();
        loop {
            unsubmitted -= self.keep_steps_under_way(unsubmitted)?;
            let Some(step) = self.runner.collect_step()? else { break };
            submit += step.submit;
            if let Some(time) = step.device {
                device += time;
                timed += 1;
            }
        }
        let wall = begun.elapsed();
        self.end_decode_at(seqs, depth);
        let device = if timed == 0 { None } else { Some(device / timed) };
        Ok(DecodeTime { wall, device, submit: submit / n.max(1) })
    }

    /// Times each launch of a decode step, `repetitions` times over.
    ///
    /// # Errors
    /// As [`LlmEngine::time_decode`]; when the device has no spans.
    pub fn profile_decode(
        &mut self,
        seqs: u32,
        depth: u32,
        repetitions: u32,
    ) -> Result<Vec<LaunchTime>, EngineError> {
        let mut launches = timeless(self.decode_costs(seqs, depth + 1)?);
        self.begin_decode_at(seqs, depth)?;
        // The first run pays for what later ones find done.
        self.runner.profile_step()?;
        for _ in 0..repetitions {
            let spans = self.runner.profile_step()?;
            add(&mut launches, &spans);
        }
        self.end_decode_at(seqs, depth);
        Ok(launches)
    }

    /// Times each launch of the last chunk of a prefill of `n` tokens, `repetitions` times over.
    ///
    /// # Errors
    /// As [`LlmEngine::time_prefill`]; when the device has no spans.
    pub fn profile_prefill(
        &mut self,
        depth: u32,
        n: u32,
        repetitions: u32,
    ) -> Result<Vec<LaunchTime>, EngineError> {
        let rows = n.min(self.chunk);
        let start = depth + n - rows;
        let tokens = self.random_tokens(n, u64::from(depth));
        let (before, chunk) = tokens.split_at((n - rows) as usize);
        self.runner.discard_steps()?;
        self.prefill_chunks(0, before, depth)?;
        let sizes = self.runner.sizes(rows, 1, self.runner.bucket(start + rows));
        let mut launches = timeless(self.runner.costs(Segment::Body, &sizes, &[start + rows])?);
        self.runner.profile_chunk(0, chunk, start)?;
        for _ in 0..repetitions {
            let spans = self.runner.profile_chunk(0, chunk, start)?;
            add(&mut launches, &spans);
        }
        self.runner.truncate(0, depth);
        Ok(launches)
    }

    /// What each launch of a decode step moves, when every sequence has `length` positions.
    ///
    /// # Errors
    /// When no kernel serves so many sequences.
    pub fn decode_costs(&self, seqs: u32, length: u32) -> Result<Vec<LaunchCost>, EngineError> {
        let sizes = self.runner.decode_sizes(seqs, length);
        self.runner.costs(Segment::Step, &sizes, &vec![length; seqs as usize])
    }

    fn begin_decode_at(&mut self, seqs: u32, depth: u32) -> Result<(), EngineError> {
        let tokens = self.random_tokens(seqs, u64::from(depth));
        let row = |&token: &u32| DecodeRow { token, position: depth, sampling: SampleParams::GREEDY };
        let rows: Vec<DecodeRow> = tokens.iter().map(row).collect();
        self.runner.begin_decode(&rows)
    }

    fn end_decode_at(&mut self, seqs: u32, depth: u32) {
        for slot in 0..seqs as usize {
            self.runner.truncate(slot, depth);
        }
    }

    fn random_tokens(&self, count: u32, seed: u64) -> Vec<u32> {
        let n_vocab = u64::from(self.config().n_vocab.max(1));
        let mut state = seed;
        // Below the vocabulary, so it fits.
        (0..count).map(|_| (split_mix(&mut state) % n_vocab) as u32).collect()
    }
}

fn timeless(costs: Vec<LaunchCost>) -> Vec<LaunchTime> {
    costs.into_iter().map(|cost| LaunchTime { cost, times: Vec::new() }).collect()
}

fn add(launches: &mut [LaunchTime], spans: &[Span]) {
    for span in spans {
        if let Some(launch) = launches.get_mut(span.launch as usize) {
            launch.times.push(Duration::from_nanos(span.duration_ns));
        }
    }
}
