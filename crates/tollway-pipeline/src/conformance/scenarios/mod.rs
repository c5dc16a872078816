//! Named scenarios.

mod claims;
mod groups;
mod hand_off;
mod operators;
mod queue;

use super::Scenario;

/// Every scenario.
pub(super) fn all() -> Vec<&'static Scenario> {
    [queue::ALL, claims::ALL, hand_off::ALL, operators::ALL, groups::ALL].into_iter().flatten().collect()
}
