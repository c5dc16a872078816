//! Why there is no forecast.

use tollway_core::{CostError, Limit, Name, PolicyError};

/// Why there is no forecast. Always a caller error: a forecast depends only on its arguments.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A cost in a unit that no limit of the policy counts.
    #[error("no limit counts {unit:?}")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The units that the limits count.
        known: Vec<Name>,
    },
    /// Two costs in one unit.
    #[error("the cost in {unit} is given twice")]
    UnitTwice {
        /// The unit.
        unit: String,
    },
    /// A cost that the engine refuses.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// A call that costs more than a limit ever grants.
    #[error("a call of {charge} {unit} can never be granted by \"{limit}\"", unit = .limit.unit())]
    NeverGranted {
        /// The limit.
        limit: Box<Limit>,
        /// What one call takes of it.
        charge: u64,
    },
    /// A replacement for a limit that the policy does not have.
    #[error("no limit is named {}; there are {}", .limit.name(), list(.names))]
    NoSuchLimit {
        /// The replacement.
        limit: Box<Limit>,
        /// The names of the policy's limits.
        names: Vec<Name>,
    },
    /// The limits make no policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Only concurrency limits apply, and [`Load::latency`](crate::plan::Load::latency) is missing.
    #[error("how many calls \"{limit}\" lets through depends on how long one takes")]
    NeedsLatency {
        /// The concurrency limit.
        limit: Box<Limit>,
    },
    /// The calls cost nothing that a limit counts.
    #[error("the calls cost nothing that \"{limit}\" counts, so nothing limits them")]
    CostsNothing {
        /// The first limit.
        limit: Box<Limit>,
    },
}

tollway_core::debug_as_display!(PlanError);

fn list(names: &[Name]) -> String {
    names.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")
}
