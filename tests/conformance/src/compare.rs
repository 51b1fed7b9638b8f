//! Judges what came back.

use cajeta_catalog::oracle::sample;
use cajeta_catalog::state::SampleParams;
use half::f16;

use crate::expect::{Unit, floats, share};
use crate::plan::{Judged, Output, Plan, Wanted};

/// Judges all buffers of a plan; the largest error in parts of what is allowed.
///
/// # Errors
/// The first element that is wrong, as a sentence.
pub(crate) fn judge(plan: &Plan, contents: &[Vec<u8>]) -> Result<f64, String> {
    let share = share(plan.arith.unwrap_or(cajeta_abi::Arith::F32));
    let mut worst = 0f64;
    for (buffer, got) in plan.buffers.iter().zip(contents) {
        let result = match &buffer.wanted {
            Wanted::Opaque => Ok(0.0),
            Wanted::Unchanged => match &buffer.initial {
                Some(initial) => exactly(initial, got).map_err(|why| format!("an input was changed: {why}")),
                None => Ok(0.0),
            },
            Wanted::Output(output) => judge_output(output, got, share),
        };
        worst = worst.max(result.map_err(|why| format!("{}: {why}", buffer.name))?);
    }
    Ok(worst)
}

fn judge_output(output: &Output, got: &[u8], share: f64) -> Result<f64, String> {
    match &output.of {
        Judged::Exactly => exactly(&output.bytes, got),
        Judged::Floats => within(&floats(&output.bytes), &floats(got), &output.unit, share),
        Judged::Halves => within(&halves(&output.bytes), &halves(got), &output.unit, share),
        Judged::Largest { logits, unit } => largest(&output.bytes, got, logits, unit, share),
        Judged::Drawn { logits, params } => drawn(&output.bytes, got, logits, params),
    }
}

fn halves(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<2>().0.iter().map(|&word| f16::from_le_bytes(word).to_f32()).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
}

fn exactly(wanted: &[u8], got: &[u8]) -> Result<f64, String> {
    match wanted.iter().zip(got).position(|(wanted, got)| wanted != got) {
        None if wanted.len() == got.len() => Ok(0.0),
        None => Err(format!("{} bytes expected, {} got", wanted.len(), got.len())),
        Some(at) => {
            Err(format!("byte {at} of {}: expected {:#04x}, got {:#04x}", wanted.len(), wanted[at], got[at]))
        }
    }
}

/// Element by element within unit and fixed part. NaN is matched by NaN alone.
fn within(wanted: &[f32], got: &[f32], unit: &Unit, share: f64) -> Result<f64, String> {
    if wanted.len() != got.len() {
        return Err(format!("{} elements expected, {} got", wanted.len(), got.len()));
    }
    let mut worst = 0f64;
    for (at, (&wanted, &got)) in wanted.iter().zip(got).enumerate() {
        if wanted.to_bits() == got.to_bits() || wanted.is_nan() && got.is_nan() {
            continue;
        }
        let part = |values: &[f32]| f64::from(values.get(at).copied().unwrap_or(0.0));
        let allowed = part(&unit.scaled) * share + part(&unit.fixed);
        let error = (f64::from(wanted) - f64::from(got)).abs();
        // A NaN fails this as well; zeros of either sign are the same.
        if error <= allowed {
            if allowed > 0.0 {
                worst = worst.max(error / allowed);
            }
            continue;
        }
        let poison = if got.is_nan() { " (nothing was written there, or poison was read)" } else { "" };
        return Err(format!(
            "element {at}: expected {wanted}, got {got}{poison}; {allowed:.3e} of difference is allowed"
        ));
    }
    Ok(worst)
}

/// The index of the largest: exactly, unless the logits are themselves inexact.
fn largest(wanted: &[u8], got: &[u8], logits: &[f32], unit: &[f32], share: f64) -> Result<f64, String> {
    let (wanted, got) = (words(wanted), words(got));
    let width = logits.len() / wanted.len().max(1);
    for (row, (&wanted, &got)) in wanted.iter().zip(&got).enumerate() {
        if wanted == got {
            continue;
        }
        let at = |token: u32| {
            let index = row * width + token as usize;
            let slack = unit.get(index).copied().unwrap_or(0.0);
            let logit = logits.get(index).filter(|_| (token as usize) < width)?;
            Some((f64::from(*logit), f64::from(slack) * share))
        };
        let tie = at(wanted)
            .zip(at(got))
            .is_some_and(|((best, a), (other, b))| a + b > 0.0 && other + a + b >= best);
        if !tie {
            return Err(format!("row {row}: expected index {wanted}, got {got}"));
        }
    }
    Ok(0.0)
}

/// A token `sample` may have drawn: the oracle's, or its neighbour where the
/// draw, `top_p` or `min_p` falls within f32 rounding of a boundary.
fn drawn(wanted: &[u8], got: &[u8], logits: &[f32], params: &[u8]) -> Result<f64, String> {
    let (wanted, got) = (words(wanted), words(got));
    let width = logits.len() / wanted.len().max(1);
    let params = params.chunks_exact(size_of::<SampleParams>());
    for (row, ((&wanted, &got), params)) in wanted.iter().zip(&got).zip(params).enumerate() {
        let params: SampleParams = bytemuck::pod_read_unaligned(params);
        let logits = logits.get(row * width..(row + 1) * width).unwrap_or(&[]);
        if wanted != got && !near(logits, &params, got) {
            return Err(format!("row {row}: expected token {wanted}, got {got}, drawing with {params:?}"));
        }
    }
    Ok(0.0)
}

/// Part of the unit interval by which a draw may be off.
const DRAW_SLACK: f64 = 2e-5;

fn near(logits: &[f32], params: &SampleParams, token: u32) -> bool {
    if params.temperature <= 0.0 {
        return false;
    }
    let seed = u64::from(params.seed_hi) << 32 | u64::from(params.seed_lo);
    let target = f64::from(sample::uniform(seed, params.counter));
    let edges = [-1e-5f32, 0.0, 1e-5];
    edges.iter().any(|p| {
        edges.iter().any(|q| {
            let moved = SampleParams { top_p: params.top_p + p, min_p: params.min_p * (1.0 + q), ..*params };
            let mut running = 0.0;
            sample::candidates(logits, &moved).iter().any(|candidate| {
                let low = running;
                running += candidate.probability;
                candidate.token == token && low - DRAW_SLACK <= target && target <= running + DRAW_SLACK
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(scaled: f32) -> Unit {
        Unit { scaled: vec![scaled; 2], fixed: vec![0.0; 2] }
    }

    #[test]
    fn errors_are_measured_in_parts_of_what_is_allowed() {
        assert_eq!(within(&[1.0, 2.0], &[1.0, 2.5], &unit(10.0), 0.1), Ok(0.5));
        let wrong = within(&[1.0, 2.0], &[1.0, 3.5], &unit(10.0), 0.1).unwrap_err();
        assert!(wrong.starts_with("element 1: expected 2, got 3.5"), "{wrong}");
        assert!(within(&[1.0, 2.0], &[1.0, f32::NAN], &unit(10.0), 0.1).unwrap_err().contains("poison"));
        assert!(within(&[f32::NAN, 2.0], &[1.0, 2.0], &unit(10.0), 0.1).is_err());
        assert_eq!(within(&[f32::NAN, 0.0], &[f32::NAN, -0.0], &unit(0.0), 0.1), Ok(0.0));
        assert!(within(&[1.0], &[1.0, 1.0], &unit(1.0), 0.1).is_err());
    }

    #[test]
    fn an_index_may_differ_only_between_inexact_ties() {
        let word = |token: u32| token.to_le_bytes();
        let logits = [1.0f32, 1.001, 0.0];
        assert!(largest(&word(1), &word(1), &logits, &[], 0.1).is_ok());
        assert!(largest(&word(1), &word(0), &logits, &[], 0.1).is_err());
        assert!(largest(&word(1), &word(0), &logits, &[0.1; 3], 0.1).is_ok());
        assert!(largest(&word(1), &word(2), &logits, &[0.1; 3], 0.1).is_err());
        assert!(largest(&word(1), &word(7), &logits, &[0.1; 3], 0.1).is_err());
    }

    #[test]
    fn a_draw_may_be_off_only_at_a_boundary() {
        let logits = [0f32, 0.0];
        let params = SampleParams { temperature: 1.0, ..SampleParams::GREEDY };
        let wanted = sample::choose(&logits, &params);
        let word = |token: u32| token.to_le_bytes();
        assert!(drawn(&word(wanted), &word(wanted), &logits, bytemuck::bytes_of(&params)).is_ok());
        assert!(drawn(&word(wanted), &word(1 - wanted), &logits, bytemuck::bytes_of(&params)).is_err());
    }
}
