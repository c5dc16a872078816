//! The report of a demo. Calls come from the vendor's counts, jobs from the audit.

mod figures;
mod text;

use serde::Serialize;

use super::alone::AloneProgress;
use super::audit::Audit;
use super::documents::name;
use super::state::{DemoState, Event, Killed, Side};
use super::tally::Count;
use super::worker::AfterRefusal;
use crate::failure::Failure;
use crate::output::Output;

/// The report of a demo.
#[derive(Debug, Serialize)]
pub(super) struct DemoReport {
    jobs: u64,
    /// Worker processes at a time.
    workers: u64,
    limit: u64,
    minute_ms: u64,
    started_at: String,
    ended_at: String,
    interrupted: bool,
    limit_changes: Vec<LimitChange>,
    with_tollway: WithTollway,
    /// `None` without `--without`.
    alone: Option<Alone>,
}

/// The vendor raised or lowered its limit.
#[derive(Debug, Serialize)]
struct LimitChange {
    at: String,
    limit: u64,
}

/// The workers under Tollway.
#[derive(Debug, Serialize)]
struct WithTollway {
    #[serde(flatten)]
    vendor: VendorCounts,
    #[serde(flatten)]
    audit: Audit,
    failed_tries: u64,
    /// Calls that were served and led to no completion and no failed try: those of killed workers.
    repeated_calls: u64,
    redriven: u64,
}

/// The workers without Tollway.
#[derive(Debug, Serialize)]
struct Alone {
    #[serde(flatten)]
    vendor: VendorCounts,
    after_refusal: AfterRefusal,
    done: u64,
    lost: u64,
    /// Jobs not begun, because the demo was interrupted.
    open: u64,
}

/// What a vendor counted.
#[derive(Debug, Serialize)]
struct VendorCounts {
    /// All calls that arrived, including refused ones.
    calls: u64,
    refusals: u64,
    whole_minutes: WholeMinutes,
    minutes: Vec<Minute>,
    processes: Vec<Process>,
    killed: Option<Victim>,
    duration_ms: u64,
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
    limit: u64,
    whole: bool,
    calls: u64,
    refusals: u64,
}

/// A worker process that called the vendor.
#[derive(Debug, Serialize)]
struct Process {
    pid: u32,
    calls: u64,
}

/// The killed worker.
#[derive(Debug, Serialize)]
struct Victim {
    pid: u32,
    at: String,
    document: String,
}

impl DemoReport {
    pub(super) fn of(state: &DemoState, audit: Audit) -> Self {
        let quota = &state.quota;
        let limit_changes = state.events.iter().filter_map(|event| match event {
            Event::Lowered { limit, from } => Some((*limit, *from)),
            Event::Restored { limit } => Some((*limit, quota.last_change()?)),
            Event::Killed { .. } | Event::Redriven(_) => None,
        });
        Self {
            jobs: state.plan.jobs,
            workers: state.plan.workers,
            limit: quota.limit,
            minute_ms: quota.minute.as_micros() / 1_000,
            started_at: state.started_at.to_string(),
            ended_at: state.now.to_string(),
            interrupted: state.interrupted,
            limit_changes: limit_changes
                .map(|(limit, from)| LimitChange { at: quota.begin_of(from).to_string(), limit })
                .collect(),
            with_tollway: WithTollway::of(state, audit),
            alone: state.alone.as_ref().map(|alone| Alone::of(state, &alone.side, alone.progress)),
        }
    }

    /// Whether Tollway did its work: no call refused, no job lost, none committed twice, and all done unless interrupted.
    pub(super) fn is_good(&self) -> bool {
        let WithTollway { vendor, audit, .. } = &self.with_tollway;
        let finished = self.interrupted || audit.done == self.jobs;
        vendor.refusals == 0 && audit.lost == 0 && audit.committed_twice == 0 && finished
    }

    pub(super) fn say(&self, output: &Output) -> Result<(), Failure> {
        if output.is_json() {
            return output.json(self);
        }
        output.note("");
        self.lines().into_iter().try_for_each(|line| output.line(line))
    }
}

impl WithTollway {
    fn of(state: &DemoState, audit: Audit) -> Self {
        let vendor = VendorCounts::of(state, &state.tollway);
        let redriven = state.events.iter().map(|event| match event {
            Event::Redriven(redriven) => redriven.jobs,
            _ => 0,
        });
        let served = vendor.calls - vendor.refusals;
        Self {
            failed_tries: state.failures,
            repeated_calls: served.saturating_sub(audit.completions + state.failures),
            redriven: redriven.sum(),
            vendor,
            audit,
        }
    }
}

impl Alone {
    fn of(state: &DemoState, side: &Side, progress: AloneProgress) -> Self {
        Self {
            vendor: VendorCounts::of(state, side),
            after_refusal: state.plan.without.unwrap_or(AfterRefusal::AtOnce),
            done: progress.done,
            lost: progress.lost(),
            open: state.plan.jobs.saturating_sub(progress.done + progress.lost()),
        }
    }
}

impl VendorCounts {
    fn of(state: &DemoState, side: &Side) -> Self {
        let Count { calls, refusals } = side.tally.all();
        let victim = |killed: Killed| Victim {
            pid: killed.worker,
            at: killed.at.to_string(),
            document: name(killed.document),
        };
        Self {
            calls,
            refusals,
            whole_minutes: WholeMinutes::of(state, side),
            minutes: minutes(state, side),
            processes: side.tally.workers().map(|(pid, calls)| Process { pid, calls }).collect(),
            killed: side.killed.map(victim),
            duration_ms: state.duration(side).as_micros() / 1_000,
        }
    }
}

impl WholeMinutes {
    fn of(state: &DemoState, side: &Side) -> Self {
        let (mut count, mut quota, mut used) = (0, 0, 0);
        for minute in state.whole_minutes(side) {
            count += 1;
            quota += state.quota.limit_in(minute);
            used += side.tally.minute(minute).served();
        }
        let share = (quota > 0).then(|| used as f64 / quota as f64);
        Self { count, quota, used, share }
    }
}

fn minutes(state: &DemoState, side: &Side) -> Vec<Minute> {
    let whole = state.whole_minutes(side);
    let minute = |(minute, count): (u64, Count)| Minute {
        begins_at: state.quota.begin_of(minute).to_string(),
        limit: state.quota.limit_in(minute),
        whole: whole.contains(&minute),
        calls: count.calls,
        refusals: count.refusals,
    };
    side.tally.minutes().map(minute).collect()
}
