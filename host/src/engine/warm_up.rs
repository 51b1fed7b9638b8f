//! A throwaway prefill and decode, so that the first request finds kernels loaded, lists prepared and
//! work space made.

use std::time::{Duration, Instant};

use cajeta_abi::Capability;
use cajeta_catalog::state::SampleParams;

use super::LlmEngine;
use super::error::EngineError;
use super::state::DecodeRow;
use crate::route::Registry;

/// Rows of the first prefill.
const FEW: u32 = 2;
/// Rows of the second, from which the time of a whole chunk is judged.
const SOME: u32 = 16;
/// A step this long is of a device on which more rows would hold the load up.
const QUICK_STEP: Duration = Duration::from_millis(25);
/// Likewise, of the second prefill.
const QUICK_PREFILL: Duration = Duration::from_millis(100);

impl LlmEngine {
    /// Runs what a request runs and forgets it: few rows and two steps, and where those are quick, more
    /// rows, up to a chunk.
    ///
    /// # Errors
    /// When the device fails or lacks the memory. That logits are not numbers is for a request to say.
    pub(super) fn warm_up(&mut self) -> Result<(), EngineError> {
        let ran = self.throw_away();
        self.forget_all()?;
        match ran {
            Err(EngineError::NotANumber { .. }) => Ok(()),
            ran => ran,
        }
    }

    fn throw_away(&mut self) -> Result<(), EngineError> {
        // A decode step comes behind, where the context has room for one.
        let most = self.chunk.min(self.ctx().saturating_sub(1).max(1));
        self.runner.set_sampling(&SampleParams::GREEDY)?;
        self.throw_away_prefill(FEW.min(most))?;
        if self.throw_away_step(FEW.min(most))? > QUICK_STEP || most <= FEW {
            return Ok(());
        }
        let took = self.throw_away_prefill(SOME.min(most))?;
        // Elsewhere nothing is loaded for a chunk that was not loaded for less.
        let by_itself = self.runner.registry.supports(Capability::ASYNC);
        if by_itself && most > SOME && took < QUICK_PREFILL {
            self.throw_away_prefill(most)?;
        }
        Ok(())
    }

    fn throw_away_prefill(&mut self, rows: u32) -> Result<Duration, EngineError> {
        let begun = Instant::now();
        self.runner.prefill(0, &vec![0; rows as usize], 0, &[rows - 1])?;
        self.runner.draw_after_prefill(rows, rows)?;
        Ok(begun.elapsed())
    }

    /// Two steps of as many sequences as there may be; answers the time of the second, whose list is
    /// prepared. Without room for a step, one that takes no time.
    fn throw_away_step(&mut self, position: u32) -> Result<Duration, EngineError> {
        let mut took = Duration::ZERO;
        if position + 2 > self.ctx() {
            return Ok(took);
        }
        let sampling = SampleParams::GREEDY;
        let row = |slot| DecodeRow { token: 0, position: if slot == 0 { position } else { 0 }, sampling };
        let rows: Vec<DecodeRow> = (0..self.max_seqs()).map(row).collect();
        self.runner.begin_decode(&rows)?;
        for _ in 0..2 {
            let begun = Instant::now();
            self.runner.submit_step()?;
            self.runner.collect_step()?;
            took = begun.elapsed();
        }
        Ok(took)
    }
}
