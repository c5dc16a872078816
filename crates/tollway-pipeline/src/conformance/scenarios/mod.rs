//! Named scenarios.

mod claims;
mod groups;
mod hand_off;
mod moving;
mod operators;
mod queue;

use super::Scenario;

/// Every scenario.
pub(super) fn all() -> Vec<&'static Scenario> {
    [queue::ALL, claims::ALL, hand_off::ALL, operators::ALL, groups::ALL, moving::ALL]
        .into_iter()
        .flatten()
        .collect()
}
