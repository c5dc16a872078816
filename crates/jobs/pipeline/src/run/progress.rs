//! How far a pipeline is: counts, rate and estimated end, as data. Its JSON is that of `status --json`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use tollway_core::humanize::counted;
use tollway_core::{Name, Span, Timestamp};

use super::history::{History, attempts_by_stage, of};
pub use super::unreachable::HandlerOutage;
use super::{Run, lock};
use crate::view::StageJobs;
use crate::view::text::{as_text, some_as_text};
use crate::{Engine, EngineError, Events, StageCounts, State};

/// The time over which the current rate is measured.
const RECENT: Span = Span::from_mins(1);

/// The shortest time over which the rate of the estimated end is measured: shorter waits are part of it.
const RATES_OVER: Span = Span::from_mins(2);

/// How far a pipeline is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Progress {
    /// When it was read.
    #[serde(serialize_with = "as_text")]
    pub at: Timestamp,
    /// Its stages, the first one first.
    pub stages: Vec<StageProgress>,
    /// Stages that are not among them and have jobs that have not left: a stage was renamed or removed. No worker claims there.
    #[serde(rename = "not_in_config", serialize_with = "as_stage_jobs")]
    pub unlisted: Vec<StageCounts>,
    /// Jobs done a minute in all stages, measured over the last minute; none: too early to say.
    pub per_minute: Option<f64>,
    /// Attempts that are still to be made, if every job hands on as many as those before it.
    #[serde(rename = "attempts_left")]
    pub left: f64,
    /// The same of each stage.
    #[serde(skip)]
    pub left_by_stage: Vec<f64>,
    /// When all may be done. None: too early to say, or no end is in sight, as `stands` says.
    pub eta: Option<Eta>,
    /// Why no end is in sight.
    #[serde(rename = "no_eta_because", serialize_with = "some_as_text")]
    pub stands: Option<Stands>,
}

/// Why a pipeline with jobs has no end in sight, whatever its rate was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stands {
    /// These stages are paused and have jobs, or jobs will come to them.
    Paused(Vec<Name>),
    /// All that is left are so many jobs that wait for their groups.
    Held(u64),
}

impl fmt::Display for Stands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused(stages) => {
                let names = stages.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
                let are = if stages.len() == 1 { "is" } else { "are" };
                write!(f, "no end in sight while {names} {are} paused")
            }
            Self::Held(jobs) => {
                let wait = if *jobs == 1 { "waits for its group" } else { "wait for their groups" };
                let held = counted(*jobs, "jobs");
                write!(f, "no end in sight: only {held} left, which {wait}; see `tollway pipeline why`")
            }
        }
    }
}

/// When all may be done: between the best and the worst rate of the last minutes in which it ran.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Eta {
    /// At the best rate.
    #[serde(serialize_with = "as_text")]
    pub earliest: Timestamp,
    /// At the worst rate.
    #[serde(serialize_with = "as_text")]
    pub latest: Timestamp,
    /// What has moved it.
    pub moved: Option<Moved>,
}

/// Why all will be done later, or sooner, than it looked before. In seconds: positive is later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    /// When it looked otherwise: an hour ago, or at the first sample.
    pub since: Timestamp,
    /// Jobs came, or were cancelled.
    pub by_jobs: i64,
    /// The rate has changed.
    pub by_rate: i64,
    /// The pipeline did not run, or did less than its rate.
    pub by_stops: i64,
    /// Jobs done a minute then.
    pub rate_then: f64,
    /// Jobs done a minute now.
    pub rate: f64,
    /// Attempts that are to be made now and were not expected then.
    pub added: f64,
}

impl Serialize for Moved {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("since", &self.since.to_string())?;
        fields.serialize_entry("later_by_s", &self.seconds())?;
        fields.serialize_entry("by_jobs_s", &self.by_jobs)?;
        fields.serialize_entry("by_rate_s", &self.by_rate)?;
        fields.serialize_entry("by_stops_s", &self.by_stops)?;
        fields.end()
    }
}

impl Moved {
    /// All of it.
    pub fn seconds(&self) -> i64 {
        self.by_jobs + self.by_rate + self.by_stops
    }
}

/// How far a stage is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageProgress {
    /// The stage.
    pub stage: Name,
    /// Jobs done since the engine was made, also those that were purged.
    pub done: u64,
    /// Jobs that can be claimed.
    pub ready: u64,
    /// When ready jobs may go on, if they wait for quota.
    #[serde(rename = "waiting_for_quota_until", serialize_with = "some_as_text")]
    pub waiting_until: Option<Timestamp>,
    /// Why its jobs wait, if its handler cannot be reached from this process, or from the one that has its SQLite file.
    #[serde(rename = "handler_unreachable", serialize_with = "as_outage")]
    pub unreachable: Option<HandlerOutage>,
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
    #[serde(flatten, serialize_with = "as_events")]
    pub events: Events,
    /// The same within the last minute.
    #[serde(skip)]
    pub recent: Events,
}

fn as_stage_jobs<S: Serializer>(counts: &[StageCounts], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(counts.iter().map(StageJobs::of))
}

/// In the socket's protocol, its times are numbers.
fn as_outage<S: Serializer>(outage: &Option<HandlerOutage>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(HandlerOutage { since, next_try_at, error }) = outage else {
        return serializer.serialize_none();
    };
    let times = [("since", since), ("next_try_at", next_try_at)].map(|(name, at)| (name, at.to_string()));
    serializer.collect_map(times.into_iter().chain([("error", error.clone())]))
}

/// Those that need a human's eye.
fn as_events<S: Serializer>(events: &Events, serializer: S) -> Result<S::Ok, S::Error> {
    let Events { failures, crashes, rate_limited, late, duplicates, .. } = events;
    serializer.collect_map([
        ("failures", failures),
        ("crashes", crashes),
        ("rate_limited", rate_limited),
        ("late_answers", late),
        ("duplicates", duplicates),
    ])
}

/// What a runner knows beside the engine.
pub(super) async fn read(run: &Run) -> Result<Progress, EngineError> {
    let waiting = lock(&run.waiting).clone();
    let history = lock(&run.history).clone();
    let names: Vec<Name> = run.stages().iter().map(|stage| stage.config.name.clone()).collect();
    let known = Known { waiting, unreachable: run.unreachable.known(), history, started_at: run.started_at };
    of_engine(&*run.engine, &names, known, run.now()).await
}

impl Progress {
    /// Nothing is known: the engine does not answer.
    pub(crate) fn unknown(at: Timestamp) -> Self {
        let (stages, unlisted, left_by_stage) = (Vec::new(), Vec::new(), Vec::new());
        Self { at, stages, unlisted, per_minute: None, left: 0.0, left_by_stage, eta: None, stands: None }
    }

    /// How far the stages are, as far as the engine knows: for a process beside those that run the pipeline.
    pub async fn read(engine: &dyn Engine, stages: &[Name], now: Timestamp) -> Result<Self, EngineError> {
        let history = History::load(engine, now).await?;
        // Without it, the counts are still true.
        let view = engine.runner_view().await.ok().flatten().unwrap_or_default();
        let (waiting, unreachable) = (BTreeMap::new(), view.unreachable);
        let known = Known { waiting, unreachable, history, started_at: Timestamp::EPOCH };
        of_engine(engine, stages, known, now).await
    }
}

/// What is known beside the engine.
struct Known {
    /// Stages that wait for quota, and until when.
    waiting: BTreeMap<Name, Timestamp>,
    unreachable: BTreeMap<Name, HandlerOutage>,
    history: History,
    /// What happened before is not recent: the end of an earlier process is no fault of a handler.
    started_at: Timestamp,
}

async fn of_engine(
    engine: &dyn Engine,
    names: &[Name],
    known: Known,
    now: Timestamp,
) -> Result<Progress, EngineError> {
    let Known { waiting, unreachable, mut history, started_at } = known;
    let counts = engine.counts().await?;
    let settings = engine.stages().await?;
    history.record(now, counts.clone());
    let before =
        history.back(now, RECENT.min(now.since(started_at))).map_or(&counts, |sample| &sample.stages);
    let stage = |name: &Name| {
        let found = of(&counts, name);
        StageProgress {
            stage: name.clone(),
            done: found.events.completed,
            ready: found.of(State::Ready),
            waiting_until: waiting.get(name).copied(),
            unreachable: unreachable.get(name).cloned(),
            running: found.of(State::Running),
            retrying: found.of(State::Delayed),
            held: found.of(State::Held),
            dead: found.of(State::Dead),
            paused: settings.iter().any(|settings| settings.stage == *name && settings.paused),
            per_minute: history.rate(RECENT, |sample| of(&sample.stages, name).events.completed),
            events: found.events,
            recent: since(found.events, of(before, name).events),
        }
    };
    let stages: Vec<StageProgress> = names.iter().map(stage).collect();
    let unlisted = unlisted(&counts, names);
    let left_by_stage = attempts_by_stage(&counts, names);
    let left = left_by_stage.iter().sum();
    let eta = eta(&history, names, left, now);
    let stands = stands(&stages);
    let eta = eta.filter(|_| stands.is_none());
    let rates = stages.iter().map(|stage| stage.per_minute);
    let per_minute = rates.fold(None, |sum: Option<f64>, rate| Some(sum.unwrap_or(0.0) + rate?));
    let progress = Progress { at: now, stages, unlisted, per_minute, left, left_by_stage, eta, stands };
    Ok(progress.after_waits())
}

/// Why no end is in sight.
fn stands(stages: &[StageProgress]) -> Option<Stands> {
    let mut paused = Vec::new();
    let mut arriving = false;
    for stage in stages {
        // Jobs that run in a paused stage come to their end.
        if stage.paused && (arriving || stage.open_jobs() > stage.running) {
            paused.push(stage.stage.clone());
        }
        arriving |= stage.open_jobs() > 0;
    }
    let sum = |of: fn(&StageProgress) -> u64| stages.iter().map(of).sum::<u64>();
    let held = sum(|stage| stage.held);
    match paused.is_empty() {
        false => Some(Stands::Paused(paused)),
        true if held > 0 && sum(StageProgress::open_jobs) == held => Some(Stands::Held(held)),
        true => None,
    }
}

impl StageProgress {
    /// Jobs that have not left, without dead letters.
    fn open_jobs(&self) -> u64 {
        self.ready + self.running + self.retrying + self.held
    }
}

impl Progress {
    /// The end is not before this time.
    #[must_use]
    pub fn not_before(mut self, at: Timestamp) -> Self {
        if let Some(eta) = self.eta.as_mut().filter(|_| self.left > 0.0) {
            (eta.earliest, eta.latest) = (eta.earliest.max(at), eta.latest.max(at));
        }
        self
    }

    /// The same once until when stages wait for quota is known. While all that could run waits for longer than rates are
    /// measured over, nothing of the rate applies before.
    #[must_use]
    pub fn after_waits(mut self) -> Self {
        let busy = self.stages.iter().any(|stage| stage.running + stage.retrying > 0);
        let ready = || self.stages.iter().filter(|stage| stage.ready > 0);
        let waits = ready().map(|stage| stage.waiting_until.unwrap_or(self.at)).min();
        let Some(until) = waits.filter(|until| *until > self.at && !busy) else { return self };
        let wait = until.since(self.at);
        if let Some(eta) = self.eta.as_mut().filter(|_| wait > RATES_OVER) {
            (eta.earliest, eta.latest) = (eta.earliest.plus(wait), eta.latest.plus(wait));
        }
        self.not_before(until)
    }
}

/// Stages that are not among these, with jobs that have not left.
pub fn unlisted(counts: &[StageCounts], names: &[Name]) -> Vec<StageCounts> {
    let others = counts.iter().filter(|counts| !names.contains(&counts.stage));
    others.filter(|counts| counts.open() > 0).cloned().collect()
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
        duplicates: now.duplicates.saturating_sub(before.duplicates),
    }
}

fn eta(history: &History, names: &[Name], left: f64, now: Timestamp) -> Option<Eta> {
    if left == 0.0 {
        return Some(Eta { earliest: now, latest: now, moved: None });
    }
    let (best, worst) = history.best_and_worst(names)?;
    let at = |rate: f64| now.plus(Span::from_micros((left / rate * 6e7) as u64));
    let moved = history.moved(names, f64::midpoint(best, worst), left, now);
    Some(Eta { earliest: at(best), latest: at(worst), moved })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, ready: u64, held: u64) -> StageProgress {
        StageProgress {
            stage: Name::new(name).unwrap(),
            done: 0,
            ready,
            waiting_until: None,
            running: 0,
            retrying: 0,
            held,
            dead: 0,
            paused: false,
            per_minute: None,
            events: Events::default(),
            recent: Events::default(),
            unreachable: None,
        }
    }

    fn at(minutes: u64) -> Timestamp {
        Timestamp::from_secs(60 * minutes)
    }

    /// 4 minutes of work, by the rate of the last minutes.
    fn progress(stages: Vec<StageProgress>) -> Progress {
        let eta = Some(Eta { earliest: at(4), latest: at(5), moved: None });
        let (unlisted, left_by_stage) = (Vec::new(), vec![400.0]);
        let stands = stands(&stages);
        Progress { at: at(0), stages, unlisted, per_minute: None, left: 400.0, left_by_stage, eta, stands }
    }

    fn range(progress: &Progress) -> (Timestamp, Timestamp) {
        progress.eta.map(|eta| (eta.earliest, eta.latest)).unwrap()
    }

    #[test]
    fn end_is_after_the_quota_that_all_wait_for() {
        let waits = |until| StageProgress { waiting_until: Some(until), ..stage("a", 400, 0) };
        assert_eq!(range(&progress(vec![waits(at(60))]).after_waits()), (at(64), at(65)));
        // A wait within the window that the rate was measured over is part of the rate.
        assert_eq!(range(&progress(vec![waits(at(1))]).after_waits()), (at(4), at(5)));
        // Another stage goes on meanwhile.
        let both = progress(vec![waits(at(60)), stage("free", 1, 0)]).after_waits();
        assert_eq!(range(&both), (at(4), at(5)));
        assert_eq!(range(&progress(vec![waits(at(60))]).not_before(at(90))), (at(90), at(90)));
    }

    #[test]
    fn no_end_is_in_sight_behind_a_pause_or_for_held_jobs_alone() {
        let paused = |stage| StageProgress { paused: true, ..stage };
        let names = |found: Option<Stands>| match found {
            Some(Stands::Paused(stages)) => stages.iter().map(|stage| stage.as_str().to_owned()).collect(),
            other => vec![format!("{other:?}")],
        };
        assert_eq!(names(stands(&[paused(stage("a", 1, 0)), stage("b", 1, 0)])), ["a"]);
        assert_eq!(names(stands(&[stage("a", 1, 0), paused(stage("b", 0, 0))])), ["b"], "jobs will come");
        assert_eq!(stands(&[paused(stage("a", 0, 0)), stage("b", 1, 0)]), None, "nothing is there");
        let ends = StageProgress { running: 2, ..paused(stage("a", 0, 0)) };
        assert_eq!(stands(&[ends]), None, "what runs comes to its end");
        assert_eq!(stands(&[stage("a", 0, 0), stage("b", 0, 3)]), Some(Stands::Held(3)));
        assert_eq!(stands(&[stage("a", 1, 0), stage("b", 0, 3)]), None);
        assert_eq!(stands(&[stage("a", 0, 0)]), None);
    }
}
