//! `advance`: moves the step state one token forward.
//!
//! For a decode state, in which row `i` is sequence `i`, and for each of the
//! `M` sequences: the token drawn becomes the row's token, its position, its
//! `kv_len` and its draw counter rise by one, and the token is written to ring
//! slot `step % RING_TOKENS`. Then `step` rises by one. All wrap around.

use cajeta_abi::Problem;

use super::OracleError;
use super::operands::{Operands, scalars};
use super::size::state_layout;
use crate::op::Op;
use crate::scalars::AdvanceScalars;
use crate::state::{RING_TOKENS, SampleParams, Section, StepHeader, StepLayout};

pub(super) fn run(problem: &Problem, block: &[u8], operands: &mut Operands<'_>) -> Result<(), OracleError> {
    let block: AdvanceScalars = scalars(Op::Advance, block)?;
    let mut state = State { layout: state_layout(&block), bytes: operands.out(0)? };
    let mut header: StepHeader = state.read(Section::Header, 0);
    let slot = u64::from(header.step % RING_TOKENS);
    for seq in 0..problem.m {
        let token: u32 = state.read(Section::Sampled, seq);
        state.write(Section::Tokens, seq, token);
        for section in [Section::Positions, Section::KvLen] {
            let value: u32 = state.read(section, seq);
            state.write(section, seq, value.wrapping_add(1));
        }
        let mut params: SampleParams = state.read(Section::Sampling, seq);
        params.counter = params.counter.wrapping_add(1);
        state.write(Section::Sampling, seq, params);
        state.write(Section::Ring, seq * u64::from(RING_TOKENS) + slot, token);
    }
    header.step = header.step.wrapping_add(1);
    state.write(Section::Header, 0, header);
    Ok(())
}

struct State<'a> {
    layout: StepLayout,
    bytes: &'a mut [u8],
}

impl State<'_> {
    /// The bytes of element `index` of a section; empty outside it.
    fn place<T>(&mut self, section: Section, index: u64) -> &mut [u8] {
        let range = self.layout.range(section);
        let start = range.start.saturating_add(index.saturating_mul(size_of::<T>() as u64));
        let end = start.saturating_add(size_of::<T>() as u64);
        match usize::try_from(start).ok().zip(usize::try_from(end).ok()) {
            Some((from, to)) if end <= range.end => self.bytes.get_mut(from..to).unwrap_or_default(),
            _ => &mut [],
        }
    }

    fn read<T: bytemuck::Pod>(&mut self, section: Section, index: u64) -> T {
        bytemuck::try_pod_read_unaligned(self.place::<T>(section, index)).unwrap_or(T::zeroed())
    }

    fn write<T: bytemuck::Pod>(&mut self, section: Section, index: u64, value: T) {
        let place = self.place::<T>(section, index);
        if place.len() == size_of::<T>() {
            place.copy_from_slice(bytemuck::bytes_of(&value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{self, OracleBuf};
    use bytemuck::Zeroable;

    #[test]
    fn two_of_three_sequences_move_by_hand() {
        let layout = StepLayout { max_rows: 4, max_seqs: 3, max_blocks: 2 };
        let mut bytes = vec![0u8; layout.total_bytes() as usize];
        let mut state = State { layout, bytes: &mut bytes };
        state.write(Section::Header, 0, StepHeader { step: 65, n_rows: 2, n_seqs: 2, ..Zeroable::zeroed() });
        for seq in 0..3u32 {
            let at = u64::from(seq);
            state.write(Section::Sampled, at, 100 + seq);
            state.write(Section::Positions, at, 10 + seq);
            state.write(Section::KvLen, at, 11 + seq);
            state.write(Section::Sampling, at, SampleParams { counter: u32::MAX, ..SampleParams::GREEDY });
        }
        let block = AdvanceScalars { max_rows: 4, max_seqs: 3, max_blocks: 2, reserved: 0 };
        let problem = Problem { m: 2, ..Problem::default() };
        let mut buffers = [OracleBuf::Out(&mut bytes)];
        oracle::run(Op::Advance, 0, &problem, bytemuck::bytes_of(&block), &mut buffers).unwrap();

        let mut state = State { layout, bytes: &mut bytes };
        let mut words = |section, count: u64| -> Vec<u32> {
            (0..count).map(|index| state.read(section, index)).collect()
        };
        assert_eq!(words(Section::Tokens, 4), [100, 101, 0, 0]);
        assert_eq!(words(Section::Positions, 3), [11, 12, 12]);
        assert_eq!(words(Section::KvLen, 3), [12, 13, 13]);
        assert_eq!(words(Section::Sampled, 3), [100, 101, 102]);
        let ring = words(Section::Ring, 192);
        assert_eq!((ring[1], ring[65], ring[129]), (100, 101, 0));
        assert_eq!(ring.iter().filter(|&&token| token != 0).count(), 2);
        assert_eq!(words(Section::Header, 3), [66, 2, 2]);
        let params: SampleParams = state.read(Section::Sampling, 1);
        assert_eq!(params, SampleParams::GREEDY);
    }

    #[test]
    fn more_sequences_than_the_state_holds_are_refused() {
        let block = AdvanceScalars { max_rows: 4, max_seqs: 3, max_blocks: 2, reserved: 0 };
        let problem = Problem { m: 4, ..Problem::default() };
        let mut bytes = vec![0u8; 1 << 14];
        let error = oracle::run(
            Op::Advance,
            0,
            &problem,
            bytemuck::bytes_of(&block),
            &mut [OracleBuf::Out(&mut bytes)],
        )
        .unwrap_err();
        assert!(error.to_string().starts_with("advance: 4 sequences"), "{error}");
    }
}
