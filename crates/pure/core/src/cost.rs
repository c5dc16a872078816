//! The cost of one call: an amount per unit of its policy.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::bounds::AMOUNT_MAX;
use crate::{Name, Policy, nearest};

/// The unit of every call: 1 unless given.
pub const REQUESTS: &str = "requests";

/// The amounts of one take, in the order of its policy's units. Made by [`Policy::cost`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cost(SmallVec<[u64; 2]>);

/// Why amounts are not a valid cost.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    /// A unit that no limit of the policy counts.
    #[error("no limit of policy {policy} counts {unit:?}{}", .meant.as_ref().map(|unit| format!("; did you mean {:?}?", unit.as_str())).unwrap_or_default())]
    UnknownUnit {
        /// The policy.
        policy: Name,
        /// The unit the caller named.
        unit: String,
        /// The unit it may have meant.
        meant: Option<Name>,
    },
    /// Above [`AMOUNT_MAX`].
    #[error("a cost of {amount} {unit} is more than the largest amount, {AMOUNT_MAX}")]
    TooLarge {
        /// The unit.
        unit: String,
        /// The amount.
        amount: u64,
    },
}

crate::debug_as_display!(CostError);

impl Cost {
    /// The amount of the policy's unit at this index.
    pub fn of(&self, unit: usize) -> u64 {
        self.0.get(unit).copied().unwrap_or(0)
    }

    /// The amounts, in the order of the policy's units.
    pub fn amounts(&self) -> &[u64] {
        &self.0
    }

    /// One request and nothing else.
    pub(crate) fn of_one_request(units: &[Name]) -> Self {
        Self(units.iter().map(|unit| u64::from(unit.as_str() == REQUESTS)).collect())
    }
}

impl Policy {
    /// The cost of a call under this policy: the given amounts, one request unless given, nothing else.
    ///
    /// The take checks whether a limit can ever grant it, under the amounts then in force.
    pub fn cost<'a>(&self, amounts: impl IntoIterator<Item = (&'a str, u64)>) -> Result<Cost, CostError> {
        let start = self.default_cost().clone();
        amounts.into_iter().try_fold(start, |cost, (unit, amount)| self.cost_with(cost, unit, amount))
    }

    /// The same cost with this amount of one unit.
    pub fn cost_with(&self, mut cost: Cost, unit: &str, amount: u64) -> Result<Cost, CostError> {
        if amount > AMOUNT_MAX {
            return Err(CostError::TooLarge { unit: unit.to_owned(), amount });
        }
        match self.units().iter().position(|known| known.as_str() == unit) {
            Some(index) => {
                if let Some(place) = cost.0.get_mut(index) {
                    *place = amount;
                }
                Ok(cost)
            }
            None if unit == REQUESTS => Ok(cost),
            None => Err(self.unknown_unit(unit)),
        }
    }

    /// The actual cost for a settle: the permit's cost, with the given amounts replaced.
    pub fn actual_cost<'a>(
        &self,
        reserved: &Cost,
        amounts: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<Cost, CostError> {
        amounts
            .into_iter()
            .try_fold(reserved.clone(), |cost, (unit, amount)| self.cost_with(cost, unit, amount))
    }

    fn unknown_unit(&self, unit: &str) -> CostError {
        let meant =
            nearest(unit, self.units().iter().map(Name::as_str)).and_then(|near| Name::new(near).ok());
        CostError::UnknownUnit { policy: self.name().clone(), unit: unit.to_owned(), meant }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        Policy::new("gemini", ["5 / minute bucket", "250k tokens / minute bucket"]).unwrap()
    }

    #[test]
    fn a_request_is_one_unless_given_and_other_units_nothing() {
        let policy = policy();
        assert_eq!(policy.cost([]).unwrap().amounts(), [1, 0]);
        assert_eq!(policy.cost([("tokens", 7)]).unwrap().amounts(), [1, 7]);
        assert_eq!(policy.cost([("requests", 0), ("tokens", 7)]).unwrap().amounts(), [0, 7]);
    }

    #[test]
    fn requests_are_ignored_where_no_limit_counts_them() {
        let policy = Policy::new("bytes", ["5M bytes / minute"]).unwrap();
        assert_eq!(policy.cost([("requests", 3)]).unwrap().amounts(), [0]);
    }

    #[test]
    fn bad_costs_are_named() {
        let policy = policy();
        assert!(policy.cost([("tokns", 1)]).unwrap_err().to_string().contains("did you mean \"tokens\"?"));
        assert!(matches!(policy.cost([("tokens", u64::MAX)]), Err(CostError::TooLarge { .. })));
    }

    #[test]
    fn an_actual_cost_keeps_what_is_not_named() {
        let policy = policy();
        let reserved = policy.cost([("tokens", 3_750)]).unwrap();
        assert_eq!(policy.actual_cost(&reserved, [("tokens", 3_120)]).unwrap().amounts(), [1, 3_120]);
    }
}
