//! `argmax`: the index of each row's largest value.

use cajeta_abi::Problem;

use super::OracleError;
use super::operands::Operands;

pub(super) fn run(problem: &Problem, operands: &mut Operands<'_>) -> Result<(), OracleError> {
    let logits = operands.f32s(0, problem.m.saturating_mul(problem.n))?;
    let winners: Vec<u32> = logits.chunks_exact(problem.n as usize).map(argmax).collect();
    operands.write_u32s(1, &winners)
}

/// The index of the largest value: ties go to the lowest index, NaN never wins,
/// `u32::MAX` when there is nothing but NaN.
pub fn argmax(values: &[f32]) -> u32 {
    let mut best: Option<(u32, f32)> = None;
    for (index, &value) in (0..).zip(values) {
        if !value.is_nan() && best.is_none_or(|(_, largest)| value > largest) {
            best = Some((index, value));
        }
    }
    best.map_or(u32::MAX, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_nan_and_infinities() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0]), 1);
        assert_eq!(argmax(&[f32::NAN, f32::NEG_INFINITY, f32::NAN]), 1);
        assert_eq!(argmax(&[-0.0, 0.0]), 0);
        assert_eq!(argmax(&[f32::NAN]), u32::MAX);
        assert_eq!(argmax(&[1.0, f32::INFINITY, f32::NAN]), 1);
    }
}
