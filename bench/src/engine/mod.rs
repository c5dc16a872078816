//! Group engine: the decision in process.

mod counts;
mod tries;
mod waiting;

use std::time::Duration;

use anyhow::Result;

pub(crate) use counts::count;

use crate::report::Report;
use crate::rounds::Effort;

pub(crate) const GROUP: &str = "engine";

/// Everything, in about three minutes, or in less than one if it is to be quick.
pub(crate) fn measure(quick: bool) -> Result<Report> {
    let (rounds, round_ms, wait_seconds) = if quick { (5, 20, 2) } else { (15, 60, 5) };
    let effort = Effort { rounds, round: Duration::from_millis(round_ms) };
    let mut report = Report::new(GROUP);
    report.note(format!(
        "A try is the best of {rounds} rounds of about {round_ms} ms, ours and the rival's in turn. `ns CPU` is processor \
         time of one thread, `ns wall` the time that passes for it, which also holds the waiting for each other; with 2 \
         threads both take at the same time."
    ));
    // First, while nothing else has touched the process: each of these has a runtime of its own and runs alone.
    waiting::measure(Duration::from_secs(wait_seconds), &mut report);
    tries::measure(effort, &mut report)?;
    counts::measure(&mut report)?;
    report.note(
        "limitador builds the context of every take, as its server does for every request; throttlecrab is behind a \
         `Mutex`, as its API asks for; six governors are six limiters checked in a row, without all or nothing."
            .to_owned(),
    );
    Ok(report)
}
