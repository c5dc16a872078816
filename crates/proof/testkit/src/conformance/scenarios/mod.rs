//! Named scenarios, one idea each.
//!
//! Each answer is asserted here and compared with the model as well.

mod bad_input;
mod basics;
mod begin;
mod calendar;
mod config;
mod feedback;
mod ids;
mod peers;
mod queue;
mod refund;
mod shadow;
mod slots;
mod together;

use super::lab::Lab;
use super::{Failure, Report, attempt};
use crate::Rig;

/// A scenario: its name and what it does.
type Scenario = (&'static str, fn(&Lab<'_>));

/// Lists functions as scenarios under their own names.
macro_rules! list {
    ($($name:ident),* $(,)?) => {
        pub(super) const ALL: &[super::Scenario] = &[$((stringify!($name), $name)),*];
    };
}
use list;

const FILES: [&[Scenario]; 13] = [
    basics::ALL,
    calendar::ALL,
    together::ALL,
    queue::ALL,
    begin::ALL,
    refund::ALL,
    slots::ALL,
    ids::ALL,
    config::ALL,
    feedback::ALL,
    shadow::ALL,
    bad_input::ALL,
    peers::ALL,
];

/// Runs every scenario on the rig's store; the first that does not hold is the failure.
pub fn scenarios(rig: &dyn Rig) -> Result<Report, Failure> {
    let mut report = Report::default();
    for placing in rig.profile().placings() {
        for (name, scenario) in FILES.into_iter().flatten() {
            attempt(name, || scenario(&Lab::new(rig, *placing)))?;
            report.scenarios += 1;
        }
    }
    Ok(report)
}
