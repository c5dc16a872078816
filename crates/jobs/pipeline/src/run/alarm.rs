//! Conditions that need a human: too many dead letters, no progress, too many failures, too late.

use std::fmt;

use tollway_core::{Name, Span, Timestamp};

use super::history::of;
use super::outage::EngineOutage;
use super::progress::Progress;
use crate::{StageCounts, State};

/// How long the engine may be away before that is an alarm: longer than a restart that was planned.
const ENGINE_AWAY_MAX: Span = Span::from_secs(10);

/// How long a handler may be away without an alarm: longer than one that is restarted.
const UNREACHABLE_MAX: Span = Span::from_mins(1);

/// When alarms are raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlarmRules {
    /// This many dead letters in a stage.
    pub dead_letters: u64,
    /// No job done for this long, although jobs are ready and neither quota nor a pause keeps them.
    pub no_progress: Span,
    /// This share of attempts failed or crashed within the last minute, in percent: the stage is paused.
    pub failure_percent: u64,
    /// How many attempts that share needs to mean something.
    pub attempts_min: u64,
    /// All should be done by this time.
    pub deadline: Option<Timestamp>,
}

impl Default for AlarmRules {
    fn default() -> Self {
        Self {
            dead_letters: 10,
            no_progress: Span::from_mins(15),
            failure_percent: 50,
            attempts_min: 20,
            deadline: None,
        }
    }
}

/// A condition that is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// A stage has many dead letters.
    DeadLetters {
        /// The stage.
        stage: Name,
        /// How many when it was raised.
        jobs: u64,
    },
    /// No job was done for a long time.
    NoProgress {
        /// Since when.
        since: Timestamp,
        /// How long it lasted when it was raised, in whole seconds.
        lasts: Span,
    },
    /// The handler of a stage cannot be reached: its jobs wait.
    HandlerUnreachable {
        /// The stage.
        stage: Name,
        /// Since when.
        since: Timestamp,
        /// Why it could not be reached, the last time.
        error: String,
    },
    /// Most attempts of a stage fail.
    Failures {
        /// The stage.
        stage: Name,
        /// Failed and crashed attempts of the last minute.
        failed: u64,
        /// All attempts that ended in the last minute.
        attempts: u64,
    },
    /// The pipeline will not be done in time.
    PastDeadline {
        /// When it may be done at the earliest.
        earliest: Timestamp,
        /// When it should be done.
        deadline: Timestamp,
    },
    /// The engine does not answer.
    EngineAway {
        /// Since when.
        since: Timestamp,
        /// How a call failed.
        error: String,
    },
}

impl Alarm {
    /// The stage it is about.
    pub fn stage(&self) -> Option<&Name> {
        match self {
            Self::DeadLetters { stage, .. }
            | Self::HandlerUnreachable { stage, .. }
            | Self::Failures { stage, .. } => Some(stage),
            Self::NoProgress { .. } | Self::PastDeadline { .. } | Self::EngineAway { .. } => None,
        }
    }

    /// A short name that stays the same, for machines.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DeadLetters { .. } => "dead_letters",
            Self::NoProgress { .. } => "no_progress",
            Self::HandlerUnreachable { .. } => "handler_unreachable",
            Self::Failures { .. } => "failures",
            Self::PastDeadline { .. } => "past_deadline",
            Self::EngineAway { .. } => "engine_away",
        }
    }

    /// Whether it pauses its stage.
    pub fn pauses_stage(&self) -> bool {
        matches!(self, Self::Failures { .. })
    }

    /// Whether it is the same condition, with other numbers perhaps.
    fn is_same(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self.stage() == other.stage()
    }
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeadLetters { stage, jobs } => {
                write!(f, "stage {} has {jobs} dead letters", stage.as_str())
            }
            Self::NoProgress { lasts, .. } => {
                write!(f, "no job was done for {lasts}, although jobs are ready or running")
            }
            Self::HandlerUnreachable { stage, error, .. } => {
                write!(
                    f,
                    "jobs of stage {} have waited for their handler for a minute: {error}",
                    stage.as_str()
                )
            }
            Self::Failures { stage, failed, attempts } => {
                write!(
                    f,
                    "{failed} of {attempts} attempts in stage {} failed within a minute",
                    stage.as_str()
                )
            }
            Self::PastDeadline { .. } => f.write_str("the pipeline will not be done by its deadline"),
            Self::EngineAway { error, .. } => write!(f, "the engine does not answer: {error}"),
        }
    }
}

/// Where alarms go.
pub trait AlarmSink: Send + Sync + 'static {
    /// A condition has become true.
    fn raised(&self, alarm: &Alarm);
    /// It is no longer true.
    fn over(&self, alarm: &Alarm);
    /// It was true before this process started, and an earlier one has raised it.
    fn goes_on(&self, alarm: &Alarm) {
        tracing::warn!("alarm of an earlier run goes on: {alarm}");
    }
}

/// Writes alarms to the log.
pub struct LogSink;

impl AlarmSink for LogSink {
    fn raised(&self, alarm: &Alarm) {
        tracing::error!(%alarm, "alarm");
    }

    fn over(&self, alarm: &Alarm) {
        tracing::info!(%alarm, "alarm is over");
    }
}

/// What has changed since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    pub(super) raised: Vec<Alarm>,
    pub(super) goes_on: Vec<Alarm>,
    pub(super) over: Vec<Alarm>,
}

impl News {
    pub(super) fn extend(&mut self, other: Self) {
        self.raised.extend(other.raised);
        self.goes_on.extend(other.goes_on);
        self.over.extend(other.over);
    }
}

/// The alarms that are raised.
pub(super) struct Alarms {
    rules: AlarmRules,
    current: Vec<Alarm>,
    /// Apart from the others, which cannot be looked for while the engine is away.
    engine_away: Option<Alarm>,
    /// The counts that an earlier process kept last, until the first look.
    earlier: Vec<StageCounts>,
    /// How many jobs were done when that last changed, or when nothing was there to do.
    done: Option<(u64, Timestamp)>,
}

impl Alarms {
    pub(super) fn new(rules: AlarmRules) -> Self {
        Self { rules, current: Vec::new(), engine_away: None, earlier: Vec::new(), done: None }
    }

    /// Does not raise an alarm again that was true by these counts of an earlier process: dead letters stay until an operator
    /// comes, and a service may start every minute.
    pub(super) fn after(self, earlier: Vec<StageCounts>) -> Self {
        Self { earlier, ..self }
    }

    pub(super) fn current(&self) -> Vec<Alarm> {
        self.engine_away.iter().chain(&self.current).cloned().collect()
    }

    /// Whether the engine has been away for too long.
    pub(super) fn look_at_engine(&mut self, outage: Option<EngineOutage>) -> News {
        let outage = outage.filter(|outage| outage.lasts >= ENGINE_AWAY_MAX);
        let (mut raised, mut over) = (Vec::new(), Vec::new());
        match outage {
            Some(outage) if self.engine_away.is_none() => {
                let alarm = Alarm::EngineAway { since: outage.since, error: outage.error.to_string() };
                raised.push(alarm.clone());
                self.engine_away = Some(alarm);
            }
            Some(_) => {}
            None => over.extend(self.engine_away.take()),
        }
        News { raised, over, ..News::default() }
    }

    /// Compares progress with the rules.
    pub(super) fn look(&mut self, progress: &Progress) -> News {
        let mut found = Vec::new();
        for stage in &progress.stages {
            let name = stage.stage.clone();
            if stage.dead >= self.rules.dead_letters {
                found.push(Alarm::DeadLetters { stage: name.clone(), jobs: stage.dead });
            }
            let outage = stage.unreachable.as_ref();
            if let Some(outage) = outage.filter(|outage| progress.at.since(outage.since) >= UNREACHABLE_MAX) {
                let (since, error) = (outage.since, outage.error.clone());
                found.push(Alarm::HandlerUnreachable { stage: name.clone(), since, error });
            }
            let failed = stage.recent.failures + stage.recent.crashes;
            let attempts = failed + stage.recent.completed;
            if attempts >= self.rules.attempts_min && failed * 100 >= attempts * self.rules.failure_percent {
                found.push(Alarm::Failures { stage: name, failed, attempts });
            }
        }
        found.extend(self.no_progress(progress));
        // Without an estimate, it is not before now.
        let earliest = progress.eta.map_or(progress.at, |eta| eta.earliest);
        if let Some(deadline) =
            self.rules.deadline.filter(|deadline| progress.left > 0.0 && earliest > *deadline)
        {
            found.push(Alarm::PastDeadline { earliest, deadline });
        }
        let is_new = |alarm: &&Alarm| !self.current.iter().any(|known| known.is_same(alarm));
        let earlier = std::mem::take(&mut self.earlier);
        let was_raised = |alarm: &Alarm| {
            matches!(alarm, Alarm::DeadLetters { stage, .. }
                if of(&earlier, stage).of(State::Dead) >= self.rules.dead_letters)
        };
        let new = found.iter().filter(is_new).cloned();
        let (goes_on, raised) = new.partition(was_raised);
        let is_over = |alarm: &&Alarm| !found.iter().any(|known| known.is_same(alarm));
        let over = self.current.iter().filter(is_over).cloned().collect();
        self.current = found;
        News { raised, goes_on, over }
    }

    fn no_progress(&mut self, progress: &Progress) -> Option<Alarm> {
        let done: u64 = progress.stages.iter().map(|stage| stage.done).sum();
        let due = |stage: &super::progress::StageProgress| {
            let waits = stage.paused || stage.waiting_until.is_some() || stage.unreachable.is_some();
            stage.running > 0 || stage.ready > 0 && !waits
        };
        let idle = !progress.stages.iter().any(due);
        match self.done {
            Some((known, since)) if known == done && !idle => {
                let lasts = Span::from_secs(progress.at.since(since).as_micros() / 1_000_000);
                (lasts >= self.rules.no_progress).then_some(Alarm::NoProgress { since, lasts })
            }
            _ => {
                self.done = Some((done, progress.at));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Events;
    use crate::run::AlarmView;
    use crate::run::progress::{Eta, HandlerOutage, StageProgress};

    fn progress(at: u64, change: impl FnOnce(&mut StageProgress)) -> Progress {
        let mut stage = StageProgress {
            stage: Name::new("a").unwrap(),
            done: 0,
            ready: 5,
            waiting_until: None,
            unreachable: None,
            running: 0,
            retrying: 0,
            held: 0,
            dead: 0,
            paused: false,
            per_minute: None,
            events: Events::default(),
            recent: Events::default(),
        };
        change(&mut stage);
        let at = Timestamp::from_secs(at);
        Progress {
            at,
            stages: vec![stage],
            unlisted: Vec::new(),
            per_minute: None,
            left: 5.0,
            left_by_stage: vec![5.0],
            eta: None,
            stands: None,
        }
    }

    #[test]
    fn tenth_dead_letter_is_an_alarm_once() {
        let mut alarms = Alarms::new(AlarmRules::default());
        let mut raised = |dead| alarms.look(&progress(0, |stage| stage.dead = dead));
        assert_eq!(raised(9), News::default());
        assert_eq!(raised(10).raised.len(), 1);
        assert_eq!(raised(11), News::default());
        assert_eq!(raised(3).over.len(), 1);
    }

    /// A service that is restarted while dead letters wait for an operator.
    #[test]
    fn dead_letters_of_an_earlier_process_are_not_raised_again() {
        let mut earlier = StageCounts::empty(Name::new("a").unwrap());
        let mut first_look = |before, now| {
            earlier.jobs[State::Dead as usize] = before;
            let mut alarms = Alarms::new(AlarmRules::default()).after(vec![earlier.clone()]);
            let news = alarms.look(&progress(0, |stage| stage.dead = now));
            assert_eq!(alarms.look(&progress(5, |stage| stage.dead = now)), News::default());
            assert_eq!(alarms.look(&progress(9, |_| {})).over.len(), 1);
            (news.raised.len(), news.goes_on.len())
        };
        assert_eq!(first_look(10, 12), (0, 1));
        // More came after the earlier process looked last.
        assert_eq!(first_look(9, 12), (1, 0));
    }

    #[test]
    fn waiting_for_quota_is_no_lack_of_progress() {
        let mut alarms = Alarms::new(AlarmRules::default());
        let waits = |stage: &mut StageProgress| stage.waiting_until = Some(Timestamp::MAX);
        assert_eq!(alarms.look(&progress(0, waits)), News::default());
        assert_eq!(alarms.look(&progress(10_000, waits)), News::default());
        assert_eq!(alarms.look(&progress(10_100, |_| {})), News::default());
        assert_eq!(alarms.look(&progress(11_000, |_| {})).raised.len(), 1);
    }

    #[test]
    fn handler_that_is_away_for_a_minute_is_an_alarm_until_it_is_back() {
        let mut alarms = Alarms::new(AlarmRules::default());
        let outage = HandlerOutage {
            since: Timestamp::from_secs(10),
            next_try_at: Timestamp::from_secs(80),
            error: "`scan` cannot be started: no such file".to_owned(),
        };
        let away = |stage: &mut StageProgress| stage.unreachable = Some(outage.clone());
        assert_eq!(alarms.look(&progress(69, away)), News::default());
        let news = alarms.look(&progress(70, away));
        assert_eq!(news.raised.iter().map(Alarm::name).collect::<Vec<_>>(), ["handler_unreachable"]);
        assert!(!news.raised[0].pauses_stage() && news.raised[0].to_string().contains("`scan`"));
        assert_eq!(alarms.look(&progress(3_000, away)), News::default(), "it is no lack of progress, too");
        assert_eq!(alarms.look(&progress(3_001, |_| {})).over.len(), 1);
    }

    #[test]
    fn alarm_without_its_error_says_the_rest() {
        let (stage, since) = (Name::new("a").unwrap(), Timestamp::from_secs(1));
        let error = "page: MARKER: 7".to_owned();
        let without = |alarm: Alarm| AlarmView::of(&alarm).without_error().text;
        assert_eq!(
            without(Alarm::HandlerUnreachable { stage: stage.clone(), since, error: error.clone() }),
            "jobs of stage a have waited for their handler for a minute"
        );
        assert_eq!(without(Alarm::EngineAway { since, error }), "the engine does not answer");
        let none = Alarm::DeadLetters { stage, jobs: 3 };
        assert_eq!(without(none.clone()), none.to_string());
    }

    #[test]
    fn failures_pause_their_stage() {
        let mut alarms = Alarms::new(AlarmRules::default());
        let fails = |stage: &mut StageProgress| (stage.recent.failures, stage.recent.completed) = (12, 8);
        let news = alarms.look(&progress(0, fails));
        assert!(matches!(&news.raised[..], [alarm] if alarm.pauses_stage()), "{news:?}");
    }

    #[test]
    fn eta_past_the_deadline_is_an_alarm() {
        let rules = AlarmRules { deadline: Some(Timestamp::from_secs(100)), ..AlarmRules::default() };
        let mut alarms = Alarms::new(rules);
        let at = |seconds| {
            Some(Eta { earliest: Timestamp::from_secs(seconds), latest: Timestamp::MAX, moved: None })
        };
        assert_eq!(alarms.look(&Progress { eta: at(99), ..progress(0, |_| {}) }), News::default());
        assert_eq!(alarms.look(&Progress { eta: at(101), ..progress(0, |_| {}) }).raised.len(), 1);
    }
}
