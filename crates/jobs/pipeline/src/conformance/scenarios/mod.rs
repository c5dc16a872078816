//! Named scenarios.

mod claims;
mod groups;
mod hand_off;
mod moving;
mod operators;
mod queue;
mod stage_move;
mod transitions;

use super::Scenario;

/// Every scenario.
pub(super) fn all() -> Vec<&'static Scenario> {
    [
        queue::ALL,
        claims::ALL,
        hand_off::ALL,
        operators::ALL,
        groups::ALL,
        moving::ALL,
        stage_move::ALL,
        transitions::ALL,
    ]
    .into_iter()
    .flatten()
    .collect()
}
