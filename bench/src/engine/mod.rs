//! Group engine: the decision in process.

mod counts;
mod tries;
mod waiting;

use std::time::Duration;

use anyhow::Result;

pub(crate) use counts::count;

use crate::machine;
use crate::report::BenchReport;
use crate::rounds::Effort;

pub(crate) const GROUP: &str = "engine";

const RIVALS: &[&str] = &["governor", "leaky-bucket", "throttlecrab", "limitador"];

/// Everything, in about three minutes, or in less than 45 seconds if quick.
pub(crate) fn measure(quick: bool) -> Result<BenchReport> {
    let (rounds, round_ms, wait_seconds) = if quick { (7, 10, 2) } else { (40, 15, 5) };
    let effort = Effort { rounds, round: Duration::from_millis(round_ms) };
    let mut report = BenchReport::new(GROUP, RIVALS);
    if let Some(load) = machine::load() {
        report.note(format!(
            "Load of the machine before the run: {load:.1}. On a machine that is not idle two threads do not always run at \
             the same time: `ns wall` is then too high, and `ns CPU` shows less of the contention."
        ));
    }
    report.note(format!(
        "Time of a take: {rounds} rounds of about {round_ms} ms, ours and the rival's in turn; with 1 thread the best round \
         counts, with 2 that take at the same time the median. `ns CPU` is the processor time of one thread, `ns wall` \
         its wall time, which includes waiting for other threads."
    ));
    // First, in an unused process: each of these has its own runtime and runs alone.
    waiting::measure(Duration::from_secs(wait_seconds), &mut report);
    tries::measure(effort, &mut report)?;
    counts::measure(quick, &mut report)?;
    report.note(
        "limitador builds the context of every take, as its server does for every request; throttlecrab is behind a \
         `Mutex`, as its API asks for; six governors are six limiters checked in a row, without all or nothing. All are built \
         with the profile `dist` of this workspace, whose overflow checks cost the rivals something too."
            .to_owned(),
    );
    Ok(report)
}
