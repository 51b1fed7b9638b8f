//! The fixed order of backends: the only place of the host that names vendors.

use super::restriction::Restriction;
use crate::candidate::Candidate;

/// Backends of the fixed order, first choice first.
pub(super) const ORDER: [&str; 4] = ["cuda", "hip", "vulkan", "cpu"];

/// Positions of the candidates a selection may try, in the order in which it tries them.
///
/// Backends outside the fixed order follow by name, and are there only when they are named. Of
/// several candidates with one id only the first, which is not a duplicate, takes part.
pub(super) fn plan(candidates: &[Candidate], restriction: &Restriction) -> Vec<usize> {
    let rank = |id: &str| ORDER.iter().position(|known| *known == id).unwrap_or(ORDER.len());
    let mut plan: Vec<usize> = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        let first = !plan.iter().any(|&earlier| candidates[earlier].id == candidate.id);
        if first && restriction.allows(&candidate.id) {
            plan.push(index);
        }
    }
    plan.sort_by_key(|&index| (rank(&candidates[index].id), candidates[index].id.clone()));
    plan
}

/// Whether a backend is of the fixed order.
pub(super) fn is_known(id: &str) -> bool {
    ORDER.contains(&id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::Outcome;
    use crate::search::Source;
    use crate::select::restriction::tests::named;

    fn candidates(ids: &[&str]) -> Vec<Candidate> {
        let candidate = |id: &&str| Candidate {
            id: id.to_string(),
            version: String::new(),
            manifest: "m".into(),
            library: None,
            source: Source::System,
            outcome: Outcome::NotTried { reason: String::new() },
            policy: String::new(),
            checked: None,
        };
        ids.iter().map(candidate).collect()
    }

    fn order(ids: &[&str], restriction: &Restriction) -> Vec<String> {
        let candidates = candidates(ids);
        plan(&candidates, restriction).into_iter().map(|index| candidates[index].id.clone()).collect()
    }

    #[test]
    fn the_order_is_fixed_and_third_parties_are_not_in_it() {
        assert_eq!(order(&["cpu", "zebra", "vulkan", "cuda"], &Restriction::None), ["cuda", "vulkan", "cpu"]);
    }

    #[test]
    fn names_filter_and_never_reorder() {
        let all = ["cpu", "zebra", "vulkan", "aardvark", "cuda"];
        assert_eq!(order(&all, &named("cpu,cuda")), ["cuda", "cpu"]);
        assert_eq!(order(&all, &named("zebra,aardvark,cpu")), ["cpu", "aardvark", "zebra"]);
    }

    #[test]
    fn duplicates_take_no_part() {
        let candidates = candidates(&["cpu", "cpu"]);
        assert_eq!(plan(&candidates, &Restriction::None), [0]);
    }
}
