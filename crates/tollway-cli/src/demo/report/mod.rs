//! The report of a demo, from the vendor's counts.

mod text;

use serde::Serialize;

use super::state::{DemoState, Killed};
use super::tally::Count;
use crate::failure::Failure;
use crate::output::Output;

/// The report of a demo.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    with_tollway: bool,
    limit: u64,
    minute_ms: u64,
    started_at: String,
    ended_at: String,
    interrupted: bool,
    /// All calls that arrived, including refused ones.
    calls: u64,
    refusals: u64,
    /// The most calls in any one minute, full or not.
    most_calls_in_a_minute: u64,
    whole_minutes: WholeMinutes,
    minutes: Vec<Minute>,
    workers: Vec<Worker>,
    killed: Option<Loss>,
}

/// Only full minutes show how much of the quota was used.
#[derive(Debug, Serialize)]
struct WholeMinutes {
    count: u64,
    quota: u64,
    used: u64,
    /// From 0 to 1; `None` without a full minute.
    share: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Minute {
    begins_at: String,
    whole: bool,
    calls: u64,
    refusals: u64,
}

#[derive(Debug, Serialize)]
struct Worker {
    number: usize,
    pid: u32,
    calls: u64,
}

/// The loss from the killed worker.
#[derive(Debug, Serialize)]
struct Loss {
    worker: usize,
    at: String,
    replaced_by: Option<usize>,
    /// Calls that were not made because the killed worker held their permit; a worker holds one at most.
    calls_lost_at_most: Option<u64>,
}

impl Report {
    pub(super) fn of(state: &DemoState) -> Self {
        let plan = &state.plan;
        let Count { calls, refusals } = state.tally.all();
        let whole_minutes = WholeMinutes::of(state);
        let lost = if state.interrupted { 1 } else { whole_minutes.unused().min(1) };
        let loss = |killed: Killed| Loss {
            worker: killed.worker,
            at: killed.at.to_string(),
            replaced_by: killed.replaced_by,
            calls_lost_at_most: plan.with_tollway.then_some(lost),
        };
        Self {
            with_tollway: plan.with_tollway,
            limit: plan.quota.limit,
            minute_ms: plan.quota.minute.as_micros() / 1_000,
            started_at: state.started_at.to_string(),
            ended_at: state.now.to_string(),
            interrupted: state.interrupted,
            calls,
            refusals,
            most_calls_in_a_minute: state.tally.minutes().map(|(_, count)| count.calls).max().unwrap_or(0),
            whole_minutes,
            minutes: minutes(state),
            workers: workers(state),
            killed: state.killed.map(loss),
        }
    }

    /// Whether the limit was kept, by the vendor's count.
    pub(super) fn is_good(&self) -> bool {
        self.refusals == 0 && self.most_calls_in_a_minute <= self.limit
    }

    pub(super) fn say(&self, output: &Output) -> Result<(), Failure> {
        if output.is_json() {
            return output.json(self);
        }
        output.note("");
        self.lines().into_iter().try_for_each(|line| output.line(line))
    }
}

impl WholeMinutes {
    fn of(state: &DemoState) -> Self {
        let (mut minutes, mut used) = (0, 0);
        for (_, count) in state.full_minutes() {
            minutes += 1;
            used += count.served();
        }
        let quota = minutes * state.plan.quota.limit;
        let share = (quota > 0).then(|| used as f64 / quota as f64);
        Self { count: minutes, quota, used, share }
    }

    fn unused(&self) -> u64 {
        self.quota - self.used
    }
}

fn minutes(state: &DemoState) -> Vec<Minute> {
    let is_whole = |minute| state.full_minutes().any(|(whole, _)| whole == minute);
    let minute = |(minute, count): (u64, Count)| Minute {
        begins_at: state.plan.quota.begin_of(minute).to_string(),
        whole: is_whole(minute),
        calls: count.calls,
        refusals: count.refusals,
    };
    state.tally.minutes().map(minute).collect()
}

fn workers(state: &DemoState) -> Vec<Worker> {
    let worker = |(number, &pid)| Worker { number, pid, calls: state.tally.calls_of(number) };
    (1..).zip(&state.pids).map(worker).collect()
}
