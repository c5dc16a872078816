//! Group aws: one hot subject in one DynamoDB, taken from by callers of one process and of sixteen.

mod crowd;
mod naive;
mod round;

use std::time::Duration;

use anyhow::Result;
use crowd::Crowd;
use naive::Naive;
use round::{Figures, play};

use crate::keys::{Keys, VISITS};
use crate::machine;
use crate::report::{Better, Report, Row, Wanted};
use crate::stores::callers::Stage;
use crate::stores::periods::ONE;
use crate::stores::round::Effort;

pub(crate) const GROUP: &str = "aws";

/// G12: an acquisition takes less than 50 ms, for 99 of 100.
const SLOW_MICROS_MAX: f64 = 50_000.0;

/// A hot subject of sixteen processes costs at most one write for each take, failed ones counted.
const WRITES_MAX: f64 = 1.0;

pub(crate) fn measure(quick: bool) -> Result<Report> {
    let (rounds, warm_up_ms, round_ms) = if quick { (3, 300, 1_000) } else { (5, 500, 3_000) };
    let (warm_up, round) = (Duration::from_millis(warm_up_ms), Duration::from_millis(round_ms));
    let effort = Effort { rounds, warm_up, round };
    let mut report = Report::new(GROUP, &["aws-sdk-dynamodb"]);
    notes(effort, &mut report);
    let stage = |callers| Stage { url: String::new(), periods: &ONE, callers, keys: Keys::new(1, VISITS) };
    let one = stage(32);
    contest(
        "32 callers of 1 process",
        &mut report,
        effort,
        Some(Wanted::Ours(SLOW_MICROS_MAX)),
        || play::<Crowd<1>>(&one, effort),
        || play::<Naive<1>>(&one, effort),
    )?;
    let many = stage(16 * 16);
    contest(
        "16 callers of each of 16 processes",
        &mut report,
        effort,
        None,
        || play::<Crowd<16>>(&many, effort),
        || play::<Naive<16>>(&many, effort),
    )?;
    Ok(report)
}

fn contest(
    case: &str,
    report: &mut Report,
    effort: Effort,
    slow_wanted: Option<Wanted>,
    ours: impl Fn() -> Result<Figures>,
    theirs: impl Fn() -> Result<Figures>,
) -> Result<()> {
    let (mut our_rounds, mut their_rounds) = (Vec::new(), Vec::new());
    for round in 1..=effort.rounds {
        eprintln!("{case}, round {round}");
        our_rounds.push(ours()?);
        their_rounds.push(theirs()?);
    }
    let (ours, theirs) = (Figures::median(&our_rounds), Figures::median(&their_rounds));
    let mut row = |unit, better, figure: fn(&Figures) -> f64, wanted| {
        let row =
            Row::new(case, "read, then conditional write", unit, better, figure(&ours), figure(&theirs));
        report.push(row.wanted(wanted));
    };
    row("decisions/s", Better::Higher, |figures| figures.per_second, None);
    row("us p50", Better::Lower, |figures| figures.middle_micros, None);
    row("us p99", Better::Lower, |figures| figures.slow_micros, slow_wanted);
    row("writes", Better::Lower, |figures| figures.writes, Some(Wanted::Ours(WRITES_MAX)));
    row("reads", Better::Lower, |figures| figures.reads, None);
    row("failed conditions, % of writes", Better::Lower, |figures| figures.failed_percent, None);
    Ok(())
}

fn notes(effort: Effort, report: &mut Report) {
    let load = machine::load().map_or("unknown".to_owned(), |load| format!("{load:.1}"));
    let Effort { rounds, warm_up, round } = effort;
    report.note(format!(
        "DynamoDB is an emulator (dynoxide) in the same process, behind a front that counts requests: all share the cores, \
         and a request takes less than on AWS. Load of the machine before the run: {load}."
    ));
    report.note(format!(
        "{rounds} rounds of {} ms after {} ms to get going, in turn, each on an empty table; of each figure the median round \
         counts. A process is a limiter or a client of its own, as far as DynamoDB can tell. `writes` and `reads` are \
         requests for a decision, failed ones counted. After each round the meter is read: it shows every grant.",
        round.as_millis(),
        warm_up.as_millis()
    ));
}
