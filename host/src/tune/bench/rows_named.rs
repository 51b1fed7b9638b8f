//! Rows and their problems in words, for whoever reads that the device failed while they were timed.

use cajeta_abi::{Problem, Row};

/// Most rows that are named.
const NAMED: usize = 8;

/// Launches of rows, each at its problem: `` `q4kCols` at 4x4096x4096, `add` at 4x1x4096 ``. Each is named once.
pub(in crate::tune) fn rows_named(rows: &[Row], launches: Vec<(usize, Problem)>) -> String {
    let mut names: Vec<String> = Vec::new();
    for (row, problem) in launches {
        let name = rows.get(row).map_or("", |row| row.name.as_str());
        let text = format!("`{name}` at {}x{}x{}", problem.m, problem.n, problem.k);
        if !names.contains(&text) {
            names.push(text);
        }
    }
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    if more > 0 {
        names.push(format!("{more} others"));
    }
    names.join(", ")
}

/// Of the launches of some forms, those whose rows not all of them launch; all where the forms have the same
/// rows.
pub(super) fn apart(forms: Vec<Vec<(usize, Problem)>>) -> Vec<(usize, Problem)> {
    let common = |row: usize| forms.iter().all(|form| form.iter().any(|&(other, _)| other == row));
    let launches = || forms.iter().flatten().copied();
    let apart: Vec<(usize, Problem)> = launches().filter(|&(row, _)| !common(row)).collect();
    if apart.is_empty() { launches().collect() } else { apart }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::choice_tests::row;
    use cajeta_abi::Regime;

    const SMALL: Problem = Problem { m: 1, n: 2, k: 3, batch: 1, aux: 0 };

    #[test]
    fn rows_are_named_once_with_their_problems_and_not_all_of_them() {
        let rows: Vec<Row> =
            ["a", "b"].into_iter().map(|name| row(name, "", Regime::DECODE_ROW, 0)).collect();
        let large = Problem { m: 4, ..SMALL };
        let launches = vec![(0, SMALL), (1, SMALL), (0, SMALL), (0, large)];
        assert_eq!(rows_named(&rows, launches), "`a` at 1x2x3, `b` at 1x2x3, `a` at 4x2x3");
        let many = (0..11).map(|m| (0, Problem { m, ..SMALL })).collect();
        assert!(rows_named(&rows, many).ends_with("`a` at 7x2x3, 3 others"));
    }

    #[test]
    fn what_forms_have_in_common_is_left_out() {
        let of = |rows: &[usize]| rows.iter().map(|&row| (row, SMALL)).collect::<Vec<_>>();
        assert_eq!(apart(vec![of(&[1, 2, 5]), of(&[1, 3, 4, 5])]), of(&[2, 3, 4]));
        assert_eq!(apart(vec![of(&[1]), of(&[1])]), of(&[1, 1]));
    }
}
