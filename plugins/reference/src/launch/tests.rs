//! Launches of rows with own layouts against the plain row.

use super::*;
use crate::registry;

fn row(name: &str) -> (usize, &'static Row) {
    let found = registry::rows().iter().enumerate().find(|(_, row)| row.name.as_str() == name);
    found.unwrap_or_else(|| panic!("no row {name}"))
}

fn launch(name: &str, problem: Problem, scalars: usize, args: &mut [ArgBytes<'_>]) -> Answer<()> {
    let (index, row) = row(name);
    let lengths: Vec<Option<u64>> = args
        .iter()
        .map(|arg| match arg {
            ArgBytes::Absent => None,
            ArgBytes::Read(bytes) => Some(bytes.len() as u64),
            ArgBytes::Write(bytes) => Some(bytes.len() as u64),
        })
        .collect();
    let prepared = Prepared::new(index, row, &problem, &vec![0; scalars], &lengths)?;
    prepared.run(args).map_err(|error| Fault::internal(error.to_string()))
}

/// Q8_0 rows of one block each, with scale 1.
fn weight(rows: usize) -> Vec<u8> {
    (0..rows)
        .flat_map(|row| [0x00, 0x3c].into_iter().chain((0..32).map(move |i| ((i * 7 + row) % 9) as u8)))
        .collect()
}

fn bytes(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

#[test]
fn expanded_and_packed_products_equal_the_plain_one() {
    let problem = Problem { m: 3, n: 2, k: 32, ..Problem::default() };
    let x = bytes((0..96).map(|i| i as f32 * 0.25 - 3.0));
    let weight = weight(2);
    let product = |name: &str, x: &[u8], weight: &[u8]| {
        let mut out = vec![0; 24];
        let mut args =
            [ArgBytes::Read(x), ArgBytes::Read(weight), ArgBytes::Absent, ArgBytes::Write(&mut out)];
        launch(name, problem, 8, &mut args).unwrap();
        out
    };
    let plain = product("refMatMulQ80Batch", &x, &weight);

    let mut expanded = vec![0; 256];
    let bind = Problem { n: 2, k: 32, ..Problem::default() };
    let mut args = [ArgBytes::Read(&weight), ArgBytes::Write(&mut expanded)];
    launch("refRelayoutQ80Expanded", bind, 0, &mut args).unwrap();
    assert_eq!(product("refMatMulExpandedQ80Batch", &x, &expanded), plain);

    let mut columns = vec![0; 384];
    let mut args = [ArgBytes::Read(&x), ArgBytes::Write(&mut columns)];
    launch("refPackColumnsBatch", Problem { m: 3, k: 32, ..Problem::default() }, 0, &mut args).unwrap();
    assert_ne!(columns, x);
    assert_eq!(product("refMatMulColumnsQ80Batch", &columns, &weight), plain);
}

#[test]
fn a_short_argument_is_refused_by_number() {
    let (x, weight, mut out) = (vec![0; 128], weight(2), vec![0; 7]);
    let mut args = [ArgBytes::Read(&x), ArgBytes::Read(&weight), ArgBytes::Absent, ArgBytes::Write(&mut out)];
    let problem = Problem { m: 1, n: 2, k: 32, ..Problem::default() };
    let fault = launch("refMatMulQ80Row", problem, 8, &mut args).unwrap_err();
    assert!(fault.text.contains("argument 3 needs 8 bytes"), "{fault}");
}

#[test]
fn a_width_of_half_a_block_is_refused() {
    let mut args = [ArgBytes::Absent, ArgBytes::Absent, ArgBytes::Absent, ArgBytes::Absent];
    let problem = Problem { m: 1, n: 2, k: 16, ..Problem::default() };
    // Nothing is given, so nothing is asked of a weight; with one the block counts.
    assert!(launch("refMatMulQ80Row", problem, 8, &mut args).is_err());
    let source = [0; 34];
    let mut out = [0; 64];
    let mut args = [ArgBytes::Read(&source), ArgBytes::Write(&mut out)];
    let fault =
        launch("refRelayoutQ80Expanded", Problem { n: 1, k: 16, ..problem }, 0, &mut args).unwrap_err();
    assert!(fault.text.contains("32"), "{fault}");
}
