//! Samples of the counts, and what they say: rates, and what has moved the estimated end.

use std::collections::VecDeque;

use tollway_core::{Name, Span, Timestamp};

use super::progress::Moved;
use crate::{Engine, EngineError, Sample, StageCounts, State};

/// The time over which the best and the worst rate are looked for.
const LONGEST: Span = Span::from_mins(15);

/// Samples further apart than this have a stop between them, which no rate counts.
const APART_MAX: Span = Span::from_secs(150);

/// The estimated end is compared with the one this long ago.
const MOVED_SINCE: Span = Span::from_mins(60);

/// A change of the end that is smaller than this share of what is left is noise.
const MOVED_MIN: f64 = 0.02;

/// Samples of the counts, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct History(VecDeque<Sample>);

impl History {
    /// What the engine has kept: also from before a restart.
    pub(super) async fn load(engine: &dyn Engine, now: Timestamp) -> Result<Self, EngineError> {
        Ok(Self(engine.samples(now.minus(MOVED_SINCE.times(2))).await?.into()))
    }

    /// Adds a sample. Those of seconds are kept as long as rates need them, those of whole minutes longer.
    pub(super) fn record(&mut self, at: Timestamp, stages: Vec<StageCounts>) {
        self.0.push_back(Sample { at, stages });
        while self.0.front().is_some_and(|first| at.since(first.at) > MOVED_SINCE.times(2)) {
            self.0.pop_front();
        }
        let mut minute = None;
        self.0.retain(|sample| {
            let this = sample.at.as_micros() / Span::from_mins(1).as_micros();
            at.since(sample.at) <= LONGEST || minute.replace(this) != Some(this)
        });
    }

    /// The youngest counts.
    pub(super) fn last(&self) -> Vec<StageCounts> {
        self.0.back().map(|sample| sample.stages.clone()).unwrap_or_default()
    }

    /// Events a minute over the last `window` in which the pipeline ran. None: it ran for less than half of it so far.
    pub(super) fn rate(&self, window: Span, count: impl Fn(&Sample) -> u64) -> Option<f64> {
        let (mut ran, mut events) = (Span::ZERO, 0);
        for (later, earlier) in self.0.iter().rev().zip(self.0.iter().rev().skip(1)) {
            let apart = later.at.since(earlier.at);
            if apart <= APART_MAX {
                ran = ran.plus(apart);
                events += count(later).saturating_sub(count(earlier));
            }
            if ran >= window {
                break;
            }
        }
        // A window of a minute lets all of its calls out at once: a shorter time would promise too much.
        (ran.times(2) >= window).then(|| events as f64 * 6e7 / ran.as_micros() as f64)
    }

    /// The youngest sample that is at least this old; if there is none, the oldest.
    pub(super) fn back(&self, now: Timestamp, age: Span) -> Option<&Sample> {
        self.0.iter().rev().find(|sample| now.since(sample.at) >= age).or(self.0.front())
    }

    /// The best and the worst rate over 2, 5 and 15 minutes.
    pub(super) fn best_and_worst(&self, names: &[Name]) -> Option<(f64, f64)> {
        let rates =
            [2, 5, 15].map(|minutes| self.rate(Span::from_mins(minutes), |sample| done(sample, names)));
        let known = rates.into_iter().flatten().filter(|rate| *rate > 0.0);
        known.fold(None, |range, rate| match range {
            None => Some((rate, rate)),
            Some((best, worst)) => Some((rate.max(best), rate.min(worst))),
        })
    }

    /// What has moved the end since an hour ago, or since the first sample.
    pub(super) fn moved(&self, names: &[Name], rate: f64, left: f64, now: Timestamp) -> Option<Moved> {
        let then = self.back(now, MOVED_SINCE)?;
        let older = Self(self.0.iter().take_while(|sample| sample.at <= then.at).cloned().collect());
        let newer = self.0.iter().find(|sample| sample.at > then.at)?;
        let first = |sample: &Sample| done(sample, names);
        // Of the first sample there is no rate before it, only after it.
        let rate_then = older.rate(LONGEST, first).or_else(|| {
            let ran = newer.at.since(then.at);
            let events = first(newer).saturating_sub(first(then)) as f64;
            (ran <= APART_MAX && ran > Span::ZERO).then(|| events * 6e7 / ran.as_micros() as f64)
        });
        let rate_then = rate_then.filter(|rate| *rate > 0.0)?;
        let left_then = attempts_left(&then.stages, names);
        let completed = self.0.back().map_or(0, first).saturating_sub(first(then)) as f64;
        let added = left + completed - left_then;
        let minutes = |attempts: f64, rate: f64| (attempts / rate * 60.0).round() as i64;
        let (by_jobs, by_rate) = (minutes(added, rate_then), minutes(left, rate) - minutes(left, rate_then));
        let ran = now.since(then.at).as_micros() as f64 / 1e6;
        // Time in which the pipeline did not do what its rate promised: a stop, or waiting.
        let by_stops = (ran - completed / rate_then * 60.0).round() as i64;
        let moved = Moved { since: then.at, by_jobs, by_rate, by_stops, rate_then, rate, added };
        let total = moved.seconds().unsigned_abs() as f64;
        (total >= 60.0 && total >= MOVED_MIN * left / rate * 60.0).then_some(moved)
    }
}

/// The counts of a stage.
pub(super) fn of(counts: &[StageCounts], stage: &Name) -> StageCounts {
    let found = counts.iter().find(|counts| counts.stage == *stage);
    found.cloned().unwrap_or_else(|| StageCounts::empty(stage.clone()))
}

fn done(sample: &Sample, names: &[Name]) -> u64 {
    names.iter().map(|name| of(&sample.stages, name).events.completed).sum()
}

/// The attempts that are left in all stages.
fn attempts_left(counts: &[StageCounts], names: &[Name]) -> f64 {
    attempts_by_stage(counts, names).iter().sum()
}

/// The open jobs of every stage, and the jobs that they will hand on: as many for each as those before them did.
pub(super) fn attempts_by_stage(counts: &[StageCounts], names: &[Name]) -> Vec<f64> {
    let mut arriving = 0.0;
    let left = names.iter().enumerate().map(|(index, name)| {
        let stage = of(counts, name);
        let open = [State::Ready, State::Running, State::Delayed, State::Held].map(|state| stage.of(state));
        let open = open.iter().sum::<u64>() as f64 + arriving;
        let entered = names.get(index + 1).map_or(0, |next| of(counts, next).events.enqueued);
        let completed = stage.events.completed;
        let handed_on = if completed == 0 { 1.0 } else { entered as f64 / completed as f64 };
        arriving = open * handed_on;
        open
    });
    left.collect()
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

    fn names(names: &[&str]) -> Vec<Name> {
        names.iter().map(|name| Name::new(name).unwrap()).collect()
    }

    fn minute(n: u64) -> Timestamp {
        Timestamp::from_secs(60 * n)
    }

    /// A sample every minute: at each, how many jobs are left and done.
    fn history(samples: impl IntoIterator<Item = (u64, u64, u64)>) -> History {
        let mut history = History::default();
        for (at, ready, done) in samples {
            history.record(minute(at), vec![counts("a", ready, done, ready + done)]);
        }
        history
    }

    /// 100 jobs done handed 400 on: the 50 that are left will hand on 200.
    #[test]
    fn jobs_to_come_are_part_of_what_is_left() {
        let stages = [counts("split", 50, 100, 150), counts("tag", 300, 100, 400)];
        assert_eq!(attempts_left(&stages, &names(&["split", "tag"])), 50.0 + 300.0 + 200.0);
    }

    #[test]
    fn best_and_worst_rate_make_the_range() {
        let per_minute = [40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 0, 0, 0, 0, 200];
        let mut done = 0;
        let mut samples = vec![(0, 400, 0)];
        for (at, jobs) in (1..).zip(per_minute) {
            done += jobs;
            samples.push((at, 400, done));
        }
        // 100 in the last two minutes, 40 over five, 40 over fifteen.
        assert_eq!(history(samples).best_and_worst(&names(&["a"])), Some((100.0, 40.0)));
    }

    /// The night in which the process was stopped says nothing about its rate.
    #[test]
    fn rate_survives_a_restart() {
        let before = (0..=15).map(|at| (at, 10_000 - 100 * at, 100 * at));
        let rates = history(before.clone()).best_and_worst(&names(&["a"]));
        assert_eq!(rates, Some((100.0, 100.0)));
        let after = history(before.chain([(60, 8_500, 1_500), (61, 8_400, 1_600)]));
        assert_eq!(after.best_and_worst(&names(&["a"])), Some((100.0, 100.0)));
    }

    #[test]
    fn new_jobs_and_a_lower_rate_move_the_end() {
        let all = names(&["a"]);
        let steady = history((0..=60).map(|at| (at, 12_000 - 100 * at, 100 * at)));
        assert_eq!(steady.moved(&all, 100.0, 6_000.0, minute(60)), None);
        let more =
            history((0..=60).map(|at| (at, 12_000 - 100 * at + if at > 30 { 3_000 } else { 0 }, 100 * at)));
        let moved = more.moved(&all, 100.0, 9_000.0, minute(60)).unwrap();
        assert_eq!((moved.by_jobs, moved.by_rate, moved.by_stops), (30 * 60, 0, 0));
        let slower = steady.moved(&all, 50.0, 6_000.0, minute(60)).unwrap();
        assert_eq!((slower.by_jobs, slower.by_rate), (0, 60 * 60));
    }

    #[test]
    fn history_stays_small() {
        let mut history = History::default();
        for seconds in 0..4_000 {
            history.record(Timestamp::from_secs(5 * seconds), vec![counts("a", 1, 1, 1)]);
        }
        assert!(history.0.len() < 181 + 121, "{}", history.0.len());
    }
}
