//! How far a pipeline is: counts, rate and estimated end, as data.

use std::collections::VecDeque;

use tollway_core::{Name, Span, Timestamp};

use super::{Run, lock};
use crate::{EngineError, Events, StageCounts, State};

/// How long samples are kept: rates are compared over this time.
const HISTORY: Span = Span::from_mins(15);

/// The time over which the current rate is measured.
const RECENT: Span = Span::from_mins(1);

/// How far a pipeline is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// When it was read.
    pub at: Timestamp,
    /// Its stages, the first one first.
    pub stages: Vec<StageProgress>,
    /// Jobs done a minute in all stages, measured over the last minute; none: too early to say.
    pub per_minute: Option<f64>,
    /// Attempts that are still to be made, if every job hands on as many as those before it.
    pub left: f64,
    /// When all may be done.
    pub eta: Option<Eta>,
}

/// When all may be done: between the best and the worst rate of the last minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eta {
    /// At the best rate.
    pub earliest: Timestamp,
    /// At the worst rate.
    pub latest: Timestamp,
}

/// How far a stage is.
#[derive(Clone, Debug, PartialEq)]
pub struct StageProgress {
    /// The stage.
    pub stage: Name,
    /// Jobs done since the engine was made, also those that were purged.
    pub done: u64,
    /// Jobs that can be claimed.
    pub ready: u64,
    /// When ready jobs may go on, if they wait for quota.
    pub waiting_until: Option<Timestamp>,
    /// Jobs that run.
    pub running: u64,
    /// Jobs that wait for their time: another try, or a delay.
    pub retrying: u64,
    /// Jobs that wait for their group.
    pub held: u64,
    /// Dead letters.
    pub dead: u64,
    /// No job is claimed.
    pub paused: bool,
    /// Jobs done a minute, measured over the last minute.
    pub per_minute: Option<f64>,
    /// What happened since the engine was made.
    pub events: Events,
    /// The same within the last minute.
    pub recent: Events,
}

/// Samples of the last minutes.
#[derive(Default)]
pub(super) struct History(VecDeque<(Timestamp, Vec<StageCounts>)>);

impl History {
    /// Keeps a sample, and forgets old ones.
    pub(super) fn record(&mut self, now: Timestamp, counts: Vec<StageCounts>) {
        self.0.push_back((now, counts));
        while self.0.front().is_some_and(|(at, _)| now.since(*at) > HISTORY) {
            self.0.pop_front();
        }
    }

    /// The youngest sample that is at least this old; if there is none, the oldest.
    fn back(&self, now: Timestamp, age: Span) -> Option<&(Timestamp, Vec<StageCounts>)> {
        self.0.iter().rev().find(|(at, _)| now.since(*at) >= age).or(self.0.front())
    }
}

pub(super) async fn read(run: &Run) -> Result<Progress, EngineError> {
    let counts = run.engine.counts().await?;
    let settings = run.engine.stages().await?;
    let now = run.now();
    let waiting = lock(&run.waiting).clone();
    let history = lock(&run.history);
    let recent = history.back(now, RECENT);
    let stage = |name: &Name| {
        let found = of(&counts, name);
        let before = recent.map_or_else(Events::default, |(_, counts)| of(counts, name).events);
        let elapsed = recent.map_or(Span::ZERO, |(at, _)| now.since(*at));
        let recent = since(found.events, before);
        StageProgress {
            stage: name.clone(),
            done: found.events.completed,
            ready: found.of(State::Ready),
            waiting_until: waiting.get(name).copied(),
            running: found.of(State::Running),
            retrying: found.of(State::Delayed),
            held: found.of(State::Held),
            dead: found.of(State::Dead),
            paused: settings.iter().any(|settings| settings.stage == *name && settings.paused),
            per_minute: per_minute(recent.completed, elapsed),
            events: found.events,
            recent,
        }
    };
    let stages: Vec<StageProgress> = run.stages.iter().map(|known| stage(&known.config.name)).collect();
    let left = attempts_left(&stages);
    let eta = eta(&history, &stages, left, now);
    let rates = stages.iter().map(|stage| stage.per_minute);
    let per_minute = rates.fold(None, |sum: Option<f64>, rate| Some(sum.unwrap_or(0.0) + rate?));
    Ok(Progress { at: now, stages, per_minute, left, eta })
}

fn of(counts: &[StageCounts], stage: &Name) -> StageCounts {
    let found = counts.iter().find(|counts| counts.stage == *stage);
    found.cloned().unwrap_or_else(|| StageCounts::empty(stage.clone()))
}

fn since(now: Events, before: Events) -> Events {
    Events {
        enqueued: now.enqueued.saturating_sub(before.enqueued),
        claimed: now.claimed.saturating_sub(before.claimed),
        completed: now.completed.saturating_sub(before.completed),
        failures: now.failures.saturating_sub(before.failures),
        crashes: now.crashes.saturating_sub(before.crashes),
        rate_limited: now.rate_limited.saturating_sub(before.rate_limited),
        late: now.late.saturating_sub(before.late),
    }
}

fn per_minute(jobs: u64, elapsed: Span) -> Option<f64> {
    (elapsed >= Span::from_secs(1)).then(|| jobs as f64 * 6e7 / elapsed.as_micros() as f64)
}

/// The open jobs of every stage, and the jobs that they will hand on: as many for each as those before them did.
fn attempts_left(stages: &[StageProgress]) -> f64 {
    let (mut left, mut arriving) = (0.0, 0.0);
    for (index, stage) in stages.iter().enumerate() {
        let open = (stage.ready + stage.running + stage.retrying + stage.held) as f64 + arriving;
        left += open;
        let entered = stages.get(index + 1).map_or(0, |next| next.events.enqueued);
        let handed_on = if stage.done == 0 { 1.0 } else { entered as f64 / stage.done as f64 };
        arriving = open * handed_on;
    }
    left
}

/// Rates over 1, 5 and 15 minutes: the best and the worst of them make the range.
fn eta(history: &History, stages: &[StageProgress], left: f64, now: Timestamp) -> Option<Eta> {
    if left == 0.0 {
        return Some(Eta { earliest: now, latest: now });
    }
    let done: u64 = stages.iter().map(|stage| stage.done).sum();
    let rates = [1, 5, 15].into_iter().filter_map(|minutes| {
        let (at, counts) = history.back(now, Span::from_mins(minutes))?;
        let before: u64 = counts.iter().map(|stage| stage.events.completed).sum();
        per_minute(done.saturating_sub(before), now.since(*at)).filter(|rate| *rate > 0.0)
    });
    let (best, worst) =
        rates.fold((0.0_f64, f64::INFINITY), |(best, worst), rate| (best.max(rate), worst.min(rate)));
    let at = |rate: f64| now.plus(Span::from_micros((left / rate * 6e7) as u64));
    (best > 0.0).then(|| Eta { earliest: at(best), latest: at(worst) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(name: &str, ready: u64, done: u64, enqueued: u64) -> StageCounts {
        let mut counts = StageCounts::empty(Name::new(name).unwrap());
        counts.jobs[State::Ready as usize] = ready;
        (counts.events.completed, counts.events.enqueued) = (done, enqueued);
        counts
    }

    fn progress(counts: &StageCounts) -> StageProgress {
        StageProgress {
            stage: counts.stage.clone(),
            done: counts.events.completed,
            ready: counts.of(State::Ready),
            waiting_until: None,
            running: 0,
            retrying: 0,
            held: 0,
            dead: 0,
            paused: false,
            per_minute: None,
            events: counts.events,
            recent: Events::default(),
        }
    }

    /// 100 jobs done handed 400 on: the 50 that are left will hand on 200.
    #[test]
    fn jobs_to_come_are_part_of_what_is_left() {
        let stages = [counts("split", 50, 100, 150), counts("tag", 300, 100, 400)];
        let stages = stages.each_ref().map(progress);
        assert_eq!(attempts_left(&stages), 50.0 + 300.0 + 200.0);
    }

    #[test]
    fn eta_lies_between_the_best_and_the_worst_rate() {
        let minute = |n: u64| Timestamp::from_secs(60 * n);
        let mut history = History::default();
        for (at, done) in [(0, 0), (10, 1_000), (14, 1_000), (15, 1_200)] {
            history.record(minute(at), vec![counts("a", 0, done, 0)]);
        }
        let now = [counts("a", 400, 1_200, 0)];
        let eta = eta(&history, &now.each_ref().map(progress), 400.0, minute(15)).unwrap();
        // 200 a minute in the last minute, 40 over the last five, 80 over all.
        assert_eq!((eta.earliest, eta.latest), (minute(17), minute(25)));
    }
}
