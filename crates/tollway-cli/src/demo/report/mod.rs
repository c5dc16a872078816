//! What came of it, by what the vendor counted: for people and for programs.

mod text;

use serde::Serialize;

use super::course::{Course, Killed};
use super::tally::Count;
use crate::failure::Failure;
use crate::output::Output;

/// What came of it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    with_tollway: bool,
    limit: u64,
    minute_ms: u64,
    started_at: String,
    ended_at: String,
    interrupted: bool,
    /// All calls that arrived, and how many of them were refused.
    calls: u64,
    refusals: u64,
    /// The most calls that arrived in any one minute, whole or not.
    most_calls_in_a_minute: u64,
    whole_minutes: WholeMinutes,
    minutes: Vec<Minute>,
    workers: Vec<Worker>,
    killed: Option<Loss>,
}

/// Only a minute that was watched from its begin to its end says how much of the quota was used.
#[derive(Debug, Serialize)]
struct WholeMinutes {
    count: u64,
    quota: u64,
    used: u64,
    /// Of 1; nothing if there was no whole minute.
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

/// What the killed worker took with it.
#[derive(Debug, Serialize)]
struct Loss {
    worker: usize,
    at: String,
    replaced_by: Option<usize>,
    /// Calls of the quota that nobody could make, because it held their permit; a worker holds one.
    calls_lost_at_most: Option<u64>,
}

impl Report {
    pub(super) fn of(course: &Course) -> Self {
        let plan = &course.plan;
        let Count { calls, refusals } = course.tally.all();
        let whole_minutes = WholeMinutes::of(course);
        let lost = if course.interrupted { 1 } else { whole_minutes.unused().min(1) };
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
            started_at: course.started_at.to_string(),
            ended_at: course.now.to_string(),
            interrupted: course.interrupted,
            calls,
            refusals,
            most_calls_in_a_minute: course.tally.minutes().map(|(_, count)| count.calls).max().unwrap_or(0),
            whole_minutes,
            minutes: minutes(course),
            workers: workers(course),
            killed: course.killed.map(loss),
        }
    }

    /// Whether the limit was kept: by the vendor's count, which is the only one that matters.
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
    fn of(course: &Course) -> Self {
        let (mut minutes, mut used) = (0, 0);
        for (_, count) in course.whole_minutes() {
            minutes += 1;
            used += count.served();
        }
        let quota = minutes * course.plan.quota.limit;
        let share = (quota > 0).then(|| used as f64 / quota as f64);
        Self { count: minutes, quota, used, share }
    }

    fn unused(&self) -> u64 {
        self.quota - self.used
    }
}

fn minutes(course: &Course) -> Vec<Minute> {
    let is_whole = |minute| course.whole_minutes().any(|(whole, _)| whole == minute);
    let minute = |(minute, count): (u64, Count)| Minute {
        begins_at: course.plan.quota.begin_of(minute).to_string(),
        whole: is_whole(minute),
        calls: count.calls,
        refusals: count.refusals,
    };
    course.tally.minutes().map(minute).collect()
}

fn workers(course: &Course) -> Vec<Worker> {
    let worker = |(number, &pid)| Worker { number, pid, calls: course.tally.calls_of(number) };
    (1..).zip(&course.pids).map(worker).collect()
}
