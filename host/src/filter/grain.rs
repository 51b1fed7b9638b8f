//! The grain of a shape: how many rows and outputs one block computes, found by asking its geometry.
//!
//! A manifest does not say which tile a kernel computes, but its grid does: one more block appears
//! exactly where a tile is full. Geometry is a pure answer, so asking costs no launch.

use cajeta_abi::{Geometry, Problem};

/// Largest tile side looked for.
const SIDE_MAX: u64 = 4096;

/// Rows and outputs of one block. Absent where the grid does not depend on them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Grain {
    /// Rows of a tile.
    pub m: Option<u64>,
    /// Outputs of a tile.
    pub n: Option<u64>,
}

impl Grain {
    /// The grain of a row around a problem; `geometry` answers `None` for problems it refuses.
    pub fn of(problem: &Problem, geometry: &dyn Fn(&Problem) -> Option<Geometry>) -> Grain {
        let blocks = |problem: Problem| geometry(&problem).as_ref().and_then(blocks);
        Grain {
            m: side(&|m| blocks(Problem { m, ..*problem })),
            n: side(&|n| blocks(Problem { n, ..*problem })),
        }
    }
}

/// Blocks of a grid; `None` when their number is no number.
pub(super) fn blocks(geometry: &Geometry) -> Option<u64> {
    geometry.grid.iter().try_fold(1u64, |blocks, &side| blocks.checked_mul(u64::from(side)))
}

/// The largest size with as many blocks as size 1.
fn side(blocks: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
    let one = blocks(1)?;
    let mut low = 1;
    let mut high = 2;
    while blocks(high)? <= one {
        low = high;
        high *= 2;
        if high > SIDE_MAX {
            return None;
        }
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if blocks(middle)? <= one { low = middle } else { high = middle }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tiles(m: u64, n: u64) -> impl Fn(&Problem) -> Option<Geometry> {
        move |problem| {
            let grid = [problem.m.div_ceil(m) as u32, problem.n.div_ceil(n) as u32, 1];
            Some(Geometry { grid, ..Geometry::default() })
        }
    }

    proptest! {
        #[test]
        fn a_tile_is_found_whatever_its_sides(m in 1u64..2048, n in 1u64..2048) {
            let problem = Problem { m: 300, n: 5000, k: 4096, ..Problem::default() };
            prop_assert_eq!(Grain::of(&problem, &tiles(m, n)), Grain { m: Some(m), n: Some(n) });
        }
    }

    #[test]
    fn a_grid_that_does_not_depend_on_the_problem_has_no_grain() {
        let fixed = |_: &Problem| Some(Geometry { grid: [16, 1, 1], ..Geometry::default() });
        assert_eq!(Grain::of(&Problem::default(), &fixed), Grain::default());
        assert_eq!(Grain::of(&Problem::default(), &|_| None), Grain::default());
        let absurd = |_: &Problem| Some(Geometry { grid: [u32::MAX; 3], ..Geometry::default() });
        assert_eq!(Grain::of(&Problem::default(), &absurd), Grain::default());
    }
}
