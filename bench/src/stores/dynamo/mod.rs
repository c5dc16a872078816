//! Group aws, without its cases `sqs`: one hot subject in one DynamoDB, with callers in one process and in sixteen.

mod crowd;
mod figures;
mod naive;
mod round;

use std::time::Duration;

use anyhow::Result;
use crowd::{Crowd, LeasedCrowd};
use figures::{Figures, Targets};
use naive::Naive;
use round::play;

use crate::keys::{Keys, VISITS};
use crate::machine;
use crate::report::BenchReport;
use crate::stores::callers::Stage;
use crate::stores::periods::ONE;
use crate::stores::round::Effort;

pub(crate) const GROUP: &str = "aws";

/// Target for the 99th percentile of 32 callers: 50 ms.
const SLOW_MICROS_MAX: f64 = 50_000.0;

/// Target for a hot subject with sixteen processes: the most writes per take, including failed ones.
const WRITES_MAX: f64 = 1.0;
const WRITES_LEASED_MAX: f64 = 0.1;

const PROCESSES: usize = 16;
const NAIVE: &str = "read, then conditional write";

pub(crate) fn measure(quick: bool) -> Result<BenchReport> {
    let (rounds, warm_up_ms, round_ms) = if quick { (2, 200, 500) } else { (5, 500, 3_000) };
    let (warm_up, round) = (Duration::from_millis(warm_up_ms), Duration::from_millis(round_ms));
    let effort = Effort { rounds, warm_up, round };
    let mut report = BenchReport::new(GROUP, &["aws-sdk-dynamodb", "aws-sdk-sqs"]);
    notes(effort, &mut report);
    let stage = |callers| Stage { url: String::new(), periods: &ONE, callers, keys: Keys::new(1, VISITS) };

    let case = "32 callers of 1 process";
    let [ours, naive] = in_turn(case, &stage(32), effort, [play::<Crowd<1>>, play::<Naive<1>>])?;
    let wanted = Targets { slow_micros: Some(SLOW_MICROS_MAX), writes: WRITES_MAX };
    ours.compare(&naive, case, NAIVE, wanted, &mut report);

    let wanted = |writes| Targets { slow_micros: None, writes };
    let case = "16 callers of each of 16 processes";
    let plays = [play::<Crowd<PROCESSES>>, play::<Naive<PROCESSES>>];
    // Hundreds of callers that race for one item take seconds, so `--quick` runs once.
    let few = Effort { rounds: if quick { 1 } else { rounds }, ..effort };
    let [ours, naive] = in_turn(case, &stage(16 * PROCESSES), few, plays)?;
    ours.compare(&naive, case, NAIVE, wanted(WRITES_MAX), &mut report);

    // The naive rival would take minutes here, so Tollway is compared with itself.
    let case = "64 callers of each of 16 processes";
    let plays = [play::<Crowd<PROCESSES>>, play::<LeasedCrowd<PROCESSES>>];
    let [plain, leased] = in_turn(case, &stage(64 * PROCESSES), effort, plays)?;
    plain.compare(&leased, case, "tollway leased", wanted(WRITES_MAX), &mut report);
    let case = format!("{case}, leased");
    leased.compare(&plain, &case, "tollway without leases", wanted(WRITES_LEASED_MAX), &mut report);
    Ok(report)
}

type Play = fn(&Stage, Effort) -> Result<Figures>;

/// Runs both in alternating rounds.
fn in_turn(case: &str, stage: &Stage, effort: Effort, plays: [Play; 2]) -> Result<[Figures; 2]> {
    let mut rounds = [const { Vec::new() }; 2];
    for round in 1..=effort.rounds {
        eprintln!("{case}, round {round}");
        for (play, rounds) in plays.iter().zip(&mut rounds) {
            rounds.push(play(stage, effort)?);
        }
    }
    Ok(rounds.map(|rounds| Figures::median(&rounds)))
}

fn notes(effort: Effort, report: &mut BenchReport) {
    let load = machine::load().map_or("unknown".to_owned(), |load| format!("{load:.1}"));
    let Effort { rounds, warm_up, round } = effort;
    report.note(format!(
        "DynamoDB is an emulator (dynoxide) in its own process, behind a proxy that counts requests: all share the cores, \
         and a request takes less than on AWS. Load of the machine before the run: {load}."
    ));
    report.note(format!(
        "{rounds} rounds of {} ms after {} ms of warm-up, in turn, each on an empty table (if quick, one round of 16 \
         callers of each of 16 processes); of each figure the median round counts. A process is a limiter or a client of its \
         own, as far as DynamoDB can tell. `writes` and `reads` are requests for a decision, failed ones counted. After each \
         round the meter is read: it shows every grant, or more while leases are out.",
        round.as_millis(),
        warm_up.as_millis()
    ));
}
