//! A noisy neighbour: latency of an occasional client, alone and beside a client that floods the server.

use std::time::Duration;

use anyhow::{Context, Result};

use super::check::Limit;
use super::contest::Effort;
use super::entrants::Entrants;
use super::http::{OURS, our_body, url};
use super::load::Load;
use super::load::h2load::Calls;
use crate::report::{BenchReport, Better, Row, Wanted};
use crate::rounds::median;

/// Target: the quiet client's slowdown.
const WANTED_OF_ALONE: f64 = 2.0;

const QUIET_CLIENTS: usize = 4;
const QUIET_PER_SECOND: u64 = 100;
const FLOOD_CLIENTS: usize = 16;

/// Time for the flood to start.
const HEAD_START: Duration = Duration::from_millis(200);

/// The flood runs at half of `capacity`, Tollway's measured requests a second.
pub(super) fn measure(
    entrants: &Entrants,
    capacity: f64,
    effort: Effort,
    report: &mut BenchReport,
) -> Result<()> {
    let calls = |subject, clients, per_second| {
        let body = our_body(Limit::Plenty, subject);
        Calls::posts(url(entrants.ours.http, OURS), &body, clients, per_second)
    };
    let each = capacity / 2.0 / FLOOD_CLIENTS as f64;
    let (quiet, flood) = (
        calls("quiet", QUIET_CLIENTS, QUIET_PER_SECOND)?,
        calls("flood", FLOOD_CLIENTS, each as u64)?.giving_way(),
    );
    let (mut alone, mut beside, mut flooded) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=effort.rounds {
        eprintln!("a quiet subject, round {round}");
        alone.push(quiet.run(effort.round)?.slow.as_secs_f64() * 1e6);
        let (waited, per_second) = beside_flood(&quiet, &flood, effort.round)?;
        beside.push(waited.as_secs_f64() * 1e6);
        flooded.push(per_second);
    }
    let (beside, alone) = (median(beside), median(alone));
    let row = Row::new(
        "HTTP, a quiet subject beside a flood",
        "the same alone",
        "us p99",
        Better::Lower,
        beside,
        alone,
    );
    report.push(row.wanted(Some(Wanted::Ratio(WANTED_OF_ALONE))));
    report.note(format!(
        "The quiet subject asks {} times a second over {QUIET_CLIENTS} connections. The flood is for another subject: half of \
         the rate in the rows above would be {:.0} requests a second, and {:.0} arrived. The program that sends it has the \
         lowest priority: otherwise the quiet one would wait for its core, and not for the server.",
        QUIET_PER_SECOND * QUIET_CLIENTS as u64,
        capacity / 2.0,
        median(flooded)
    ));
    Ok(())
}

/// The quiet client's latency, and the flood's requests a second.
fn beside_flood(quiet: &Calls, flood: &Calls, lasts: Duration) -> Result<(Duration, f64)> {
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| flood.run(lasts + 2 * HEAD_START));
        std::thread::sleep(HEAD_START);
        let waited = quiet.run(lasts)?.slow;
        let flood = flood.join().ok().context("the flood has not panicked")??;
        Ok((waited, flood.per_second))
    })
}
