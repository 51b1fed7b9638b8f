//! Which widened copies of weights are made: whole groups in the order of the plan, while a budget lasts.

use std::collections::BTreeSet;

use cajeta_abi::Fact;
use cajeta_model_arch::plan::Plan;

use super::registry::DeviceRegistry;
use crate::lower::{self, LowerError, Segment, Sizes, WeightKey};
use crate::record::WidenBudget;

/// The part of a device's free memory that widened copies may take, where nobody says how much.
const AUTO_PART: u64 = 4;
/// The part of it that they leave in any case: what others take meanwhile, and what is rounded up.
const MARGIN_PART: u64 = 32;

/// The widened copies that fit a budget, and those that do not.
#[derive(Clone, Debug)]
pub struct Widened {
    /// Bytes they may take.
    pub budget: u64,
    /// Whether somebody named the budget.
    pub given: bool,
    /// The copies to make.
    pub granted: BTreeSet<WeightKey>,
    /// What they take.
    pub bytes: u64,
    /// The copies that are not made, in the order of the plan, and what each would take.
    pub declined: Vec<(WeightKey, u64)>,
}

/// Bytes that widened copies may take on a device with `free` bytes, of which `needed` are for weights as
/// they are, the cache and work: what was `given`, else at most a quarter of the free ones; never more
/// than is left but for a margin.
pub(super) fn budget(given: Option<u64>, free: u64, needed: u64) -> u64 {
    let left = free.saturating_sub(needed).saturating_sub(free / MARGIN_PART);
    given.unwrap_or(free / AUTO_PART).min(left)
}

impl Widened {
    /// Chooses among what some segments want.
    ///
    /// # Errors
    /// When no row serves an op, or the backend does not size one of its layouts.
    pub(super) fn choose(
        registry: &DeviceRegistry,
        plan: &Plan,
        segments: &[(Segment, Sizes)],
        given: bool,
        budget: u64,
    ) -> Result<Widened, LowerError> {
        let mut groups: Vec<Vec<WeightKey>> = Vec::new();
        for (segment, sizes) in segments {
            groups.extend(lower::declare_widened(registry, plan, *segment, sizes)?);
        }
        let bytes = |key: &WeightKey| {
            lower::weight_bytes(registry, plan, key)
                .map_err(|text| LowerError::Backend { what: "the size of a widened weight".into(), text })
        };
        let sized = groups.into_iter().map(|group| {
            group.into_iter().map(|key| bytes(&key).map(|bytes| (key, bytes))).collect::<Result<Vec<_>, _>>()
        });
        let sized: Vec<Vec<(WeightKey, u64)>> = sized.collect::<Result<_, _>>()?;
        let largest = registry.device().facts().get(Fact::LARGEST_BINDING).unwrap_or(u64::MAX);
        Ok(Widened::of(sized, given, budget, largest))
    }

    /// `largest` is what a kernel can be given of one copy.
    fn of(groups: Vec<Vec<(WeightKey, u64)>>, given: bool, budget: u64, largest: u64) -> Widened {
        let mut widened = Widened { budget, given, granted: BTreeSet::new(), bytes: 0, declined: Vec::new() };
        for group in &groups {
            // What another group has anyhow costs nothing; all of a group is needed all the same.
            let new = group.iter().filter(|(key, _)| !widened.granted.contains(key));
            let size = new.map(|(_, bytes)| *bytes).fold(0u64, u64::saturating_add);
            let usable = group.iter().all(|(_, bytes)| *bytes <= largest);
            // A later group may be smaller and fit.
            if usable && size <= budget.saturating_sub(widened.bytes) {
                widened.bytes += size;
                widened.granted.extend(group.iter().map(|(key, _)| key.clone()));
            }
        }
        let mut seen = BTreeSet::new();
        let declined = groups.into_iter().flatten();
        let declined = declined.filter(|(key, _)| !widened.granted.contains(key) && seen.insert(key.clone()));
        widened.declined = declined.collect();
        widened
    }

    /// What is said about it.
    pub(super) fn record(&self, plan: &Plan) -> WidenBudget {
        let names = |key: &WeightKey| {
            key.tensors.iter().map(|id| plan.tensor(*id).name.as_str()).collect::<Vec<_>>().join(" and ")
        };
        WidenBudget {
            budget_bytes: self.budget,
            policy: if self.given { "given" } else { "auto" }.to_owned(),
            copies: self.granted.len() as u64,
            copied_bytes: self.bytes,
            declined: self.declined.len() as u64,
            declined_bytes: self.declined.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add),
            first_declined: self.declined.first().map(|(key, _)| names(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_abi::LayoutId;
    use cajeta_model_arch::plan::TensorId;

    #[test]
    fn a_budget_is_what_is_given_or_a_quarter_and_never_more_than_is_left() {
        assert_eq!(budget(None, 1000, 100), 250);
        assert_eq!(budget(None, 1000, 900), 69);
        assert_eq!(budget(None, 1000, 980), 0);
        assert_eq!(budget(None, 1000, 2000), 0);
        assert_eq!(budget(Some(600), 1000, 100), 600);
        assert_eq!(budget(Some(5000), 1000, 100), 869);
        assert_eq!(budget(Some(0), 1000, 100), 0);
    }

    #[test]
    fn whole_groups_are_taken_in_order_while_they_fit() {
        let key = |id| WeightKey::new(LayoutId::OWN, [TensorId(id)]);
        let groups = vec![
            vec![(key(0), 40), (key(1), 40)],
            vec![(key(2), 15), (key(3), 15)],
            vec![(key(4), 20)],
            vec![],
        ];
        let widened = Widened::of(groups.clone(), true, 100, 1000);
        assert_eq!(widened.granted, BTreeSet::from([key(0), key(1), key(4)]));
        assert_eq!((widened.bytes, widened.declined), (100, vec![(key(2), 15), (key(3), 15)]));
        assert_eq!(Widened::of(groups.clone(), true, 0, 1000).granted, BTreeSet::new());
        assert_eq!(Widened::of(groups.clone(), false, u64::MAX, 40).declined, []);
        let small = Widened::of(groups, false, u64::MAX, 20);
        assert_eq!(small.declined, vec![(key(0), 40), (key(1), 40)], "no kernel can be given these");
    }

    #[test]
    fn a_copy_that_two_rows_read_is_made_for_a_whole_group_alone() {
        let key = |id| WeightKey::new(LayoutId::OWN, [TensorId(id)]);
        let groups = vec![
            vec![(key(0), 40), (key(1), 40)],
            // Its second copy alone would fit, and serve nobody.
            vec![(key(1), 40), (key(2), 10)],
            vec![(key(3), 30)],
            vec![(key(3), 30), (key(4), 15)],
            vec![(key(0), 40), (key(1), 40)],
        ];
        let widened = Widened::of(groups.clone(), true, 45, 1000);
        assert_eq!(widened.granted, BTreeSet::from([key(3), key(4)]));
        assert_eq!(widened.bytes, 45, "what is shared counts once");
        assert_eq!(widened.declined, vec![(key(0), 40), (key(1), 40), (key(2), 10)], "each once");
        let all = Widened::of(groups, true, 135, 1000);
        assert_eq!((all.granted.len(), all.bytes, all.declined.len()), (5, 135, 0));
    }
}
