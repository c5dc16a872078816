//! Group growth: what a take costs as one thing grows, each in a file of its own: policies, subjects, limits of a policy,
//! policies of a take.

mod contenders;
mod curve;
mod limits;
mod policies;
mod policies_per_take;
mod subjects;

use std::time::Duration;

use anyhow::Result;

use crate::machine;
use crate::report::Report;
use crate::rounds::Effort;
use curve::Growth;

pub(crate) const GROUP: &str = "growth";

const RIVALS: &[&str] = &["governor"];

/// How much is measured.
#[derive(Clone, Copy)]
struct Extent {
    quick: bool,
    effort: Effort,
}

/// What grows. Each measures its figures at four sizes or more.
const DIMENSIONS: [fn(Extent) -> Result<Vec<Growth>>; 4] =
    [policies::measure, subjects::measure, limits::measure, policies_per_take::measure];

/// Everything, in about three minutes, or in less than 45 seconds if quick.
pub(crate) fn measure(quick: bool) -> Result<Report> {
    let (rounds, round_ms) = if quick { (5, 10) } else { (20, 15) };
    let effort = Effort { rounds, round: Duration::from_millis(round_ms) };
    let mut report = Report::new(GROUP, RIVALS);
    if let Some(load) = machine::load() {
        report.note(format!("Load of the machine before the run: {load:.1}."));
    }
    report.note(format!(
        "Time of a take: processor time of 1 thread, the best of {rounds} rounds of about {round_ms} ms, ours and the \
         rival's in turn. Rivals without the same thing do it by hand: a map of limiters by policy, or several limiters \
         checked in a row, without all or nothing."
    ));
    report.note(format!("Curves: {}", curve::LEGEND));
    for measure in DIMENSIONS {
        for growth in measure(Extent { quick, effort })? {
            growth.into_rows().into_iter().for_each(|row| report.push(row));
        }
    }
    Ok(report)
}
