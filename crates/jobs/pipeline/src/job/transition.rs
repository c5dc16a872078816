//! What a call makes of a job: the one rule book of all engines. The state of a job, a call and the time give its new state and
//! the effects. No I/O.
//!
//! SQLite and SQS apply [`transition`]. On Postgres, statements change many jobs at once, and each names the call that it
//! carries out here. The conformance suite compares every engine with this, state by state and call by call.

use std::borrow::Cow;

use tollway_core::{Span, Timestamp};

use crate::{Attempt, Cause, Change, Job, State};

/// Where a job is in its life: what calls change of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    /// What it is doing.
    pub state: State,
    /// Its newest claim has not ended.
    pub open: bool,
    /// The number of its newest claim.
    pub claim_number: u64,
    /// When it is due, or when its claim expires.
    pub due_at: Timestamp,
    /// When it was last claimed, finished, given back, or changed by an operator.
    pub changed_at: Timestamp,
    /// The tries it has used.
    pub failures: u32,
    /// Attempts that crashed.
    pub crashes: u32,
    /// Attempts that the vendor refused for its rate.
    pub rate_limited: u32,
    /// Higher is claimed first.
    pub priority: i16,
}

/// What happens to a job. The engine has seen before that a claim is the newest of its job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JobCall<'c> {
    /// Its time comes: a delay is over, or a claim has expired. The claim stays open, so that its worker can still finish it
    /// until another claims the job.
    Due,
    /// A worker gets it.
    Claim {
        /// How long the claim lasts.
        visibility: Span,
    },
    /// Its worker keeps it, also after the claim expired.
    Renew {
        /// How long the claim lasts from now.
        visibility: Span,
    },
    /// Its worker gives it back.
    Release,
    /// Its worker is known to be dead: the claim expires now.
    Abandon,
    /// It is done.
    Done,
    /// It is tried again then.
    Again {
        /// When.
        at: Timestamp,
        /// What happened.
        attempt: &'c Attempt,
    },
    /// It is a dead letter.
    Bury {
        /// What happened.
        attempt: &'c Attempt,
    },
    /// All others of its group have left the stages before.
    GroupLeft,
    /// An operator edits it.
    Edit {
        /// In place of its priority.
        priority: Option<i16>,
    },
    /// An operator changes all that match.
    Change(Change),
    /// It leaves for another engine.
    Withdraw,
    /// It comes from another engine: as a job that was just enqueued, or as one that had left for there.
    Import {
        /// What it was there.
        from: &'c Job,
        /// Whether its stage waits for its group.
        held: bool,
    },
    /// It goes to another stage, where it is held for its group or not.
    Move {
        /// Whether that stage waits for its group.
        held: bool,
    },
}

/// What a call has made of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition<'c> {
    /// Where the job is now.
    pub after: Lifecycle,
    /// The attempt that this ended, under the claim number of before: it is counted, and kept as evidence.
    pub attempt: Option<Cow<'c, Attempt>>,
    /// It left its stage, or enters one: held jobs of its group may become ready.
    pub moves_group: bool,
}

/// The state of a job that waits until this time.
pub fn waiting(due_at: Timestamp, now: Timestamp) -> State {
    if due_at > now { State::Delayed } else { State::Ready }
}

/// The state of a job that enters a stage.
pub fn entering(held: bool, due_at: Timestamp, now: Timestamp) -> State {
    if held { State::Held } else { waiting(due_at, now) }
}

/// Until when a job is delayed that comes from elsewhere. Of one that waits for no time, it is left over from its last claim.
pub fn delay(was: State, due_at: Timestamp) -> Timestamp {
    if matches!(was, State::Delayed | State::Held) { due_at } else { Timestamp::EPOCH }
}

impl JobCall<'_> {
    /// Whether it applies to a job: a call of a worker to an open claim, a call of an operator in some states only.
    pub fn applies_to(&self, job: &Lifecycle, now: Timestamp) -> bool {
        let waits = matches!(job.state, State::Ready | State::Delayed | State::Held | State::Dead);
        match self {
            Self::Due => matches!(job.state, State::Delayed | State::Running) && job.due_at <= now,
            Self::Claim { .. } => job.state == State::Ready,
            Self::Renew { .. } | Self::Release | Self::Done | Self::Again { .. } | Self::Bury { .. } => {
                job.open
            }
            Self::Abandon => job.state == State::Running && job.due_at > now,
            Self::GroupLeft => job.state == State::Held,
            Self::Change(change) => change.applies_to(job.state),
            Self::Edit { .. } | Self::Withdraw | Self::Move { .. } => waits,
            Self::Import { .. } => waits || job.state == State::Cancelled,
        }
    }
}

/// What a call makes of a job. None: it does not apply.
pub fn transition<'c>(job: &Lifecycle, call: JobCall<'c>, now: Timestamp) -> Option<Transition<'c>> {
    if !call.applies_to(job, now) {
        return None;
    }
    let (mut after, mut attempt, mut moves_group) = (*job, None, false);
    match call {
        JobCall::Due => after.state = State::Ready,
        JobCall::Claim { visibility } => {
            // The worker of the claim before has not answered in time.
            attempt = job.open.then(|| Cow::Owned(Attempt::expired()));
            (after.state, after.open, after.claim_number) = (State::Running, true, job.claim_number + 1);
            (after.due_at, after.changed_at) = (now.plus(visibility), now);
        }
        JobCall::Renew { visibility } => {
            (after.state, after.due_at) = (State::Running, now.plus(visibility));
        }
        JobCall::Release => after.end(State::Ready, now),
        JobCall::Abandon => after.due_at = now,
        JobCall::Done => {
            after.end(State::Done, now);
            (after.due_at, moves_group) = (now, true);
        }
        JobCall::Again { at, attempt: ended } => {
            attempt = Some(Cow::Borrowed(ended));
            after.end(waiting(at, now), now);
            after.due_at = at;
        }
        JobCall::Bury { attempt: ended } => {
            attempt = Some(Cow::Borrowed(ended));
            after.end(State::Dead, now);
            after.due_at = now;
        }
        JobCall::GroupLeft => after.state = waiting(job.due_at, now),
        JobCall::Edit { priority } => {
            after.end(job.state, now);
            after.priority = priority.unwrap_or(job.priority);
        }
        JobCall::Change(Change::Redrive) => {
            (after.state, after.changed_at) = (State::Ready, now);
            (after.failures, after.crashes) = (0, 0);
        }
        JobCall::Change(Change::Cancel) | JobCall::Withdraw => {
            after.end(State::Cancelled, now);
            moves_group = true;
        }
        JobCall::Change(Change::Reprioritise(priority)) => after.priority = priority,
        JobCall::Move { held } => {
            after.due_at = delay(job.state, job.due_at);
            after.arrive(job.state, held, now);
            moves_group = true;
        }
        JobCall::Import { from, held } => {
            after.due_at = delay(from.state, from.due_at);
            after.claim_number = job.claim_number.max(from.claim_number);
            (after.failures, after.crashes, after.rate_limited) =
                (from.failures, from.crashes, from.rate_limited);
            after.priority = from.priority;
            after.arrive(from.state, held, now);
            moves_group = true;
        }
    }
    if let Some(attempt) = &attempt {
        after.count(attempt.cause());
    }
    Some(Transition { after, attempt, moves_group })
}

impl Lifecycle {
    /// Of a job whose newest claim is open or not.
    pub fn of(job: &Job, open: bool) -> Self {
        Self {
            state: job.state,
            open,
            claim_number: job.claim_number,
            due_at: job.due_at,
            changed_at: job.changed_at,
            failures: job.failures,
            crashes: job.crashes,
            rate_limited: job.rate_limited,
            priority: job.priority,
        }
    }

    /// Counts an attempt that did not finish the job.
    pub fn count(&mut self, cause: Cause) {
        let counter = match cause {
            Cause::Failure => &mut self.failures,
            Cause::Crash => &mut self.crashes,
            Cause::RateLimited => &mut self.rate_limited,
        };
        *counter = counter.saturating_add(1);
    }

    /// It enters a stage, in which dead letters stay dead.
    fn arrive(&mut self, was: State, held: bool, now: Timestamp) {
        let dead = was == State::Dead;
        self.end(if dead { State::Dead } else { entering(held, self.due_at, now) }, now);
    }

    fn end(&mut self, state: State, now: Timestamp) {
        (self.state, self.open, self.changed_at) = (state, false, now);
    }
}

#[cfg(test)]
mod tests {
    use tollway_core::Name;

    use super::*;
    use crate::{JobId, NewJob};

    const NOW: Timestamp = Timestamp::from_secs(1_000);
    const VISIBILITY: Span = Span::from_mins(5);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    fn job(state: State, open: bool, due_at: Timestamp) -> Lifecycle {
        Lifecycle {
            state,
            open,
            claim_number: 3,
            due_at,
            changed_at: at(900),
            failures: 2,
            crashes: 1,
            rate_limited: 4,
            priority: 5,
        }
    }

    fn after(job: &Lifecycle, call: JobCall<'_>) -> Lifecycle {
        transition(job, call, NOW).unwrap().after
    }

    #[test]
    fn claim_that_expired_is_a_crash_when_another_takes_over_and_not_before() {
        let expired = job(State::Running, true, NOW);
        let due = after(&expired, JobCall::Due);
        assert_eq!(due, Lifecycle { state: State::Ready, ..expired }, "its worker may still finish it");
        let taken = transition(&due, JobCall::Claim { visibility: VISIBILITY }, NOW).unwrap();
        assert_eq!(taken.attempt.as_deref(), Some(&Attempt::expired()));
        assert_eq!((taken.after.claim_number, taken.after.crashes, taken.after.open), (4, 2, true));
        assert_eq!((taken.after.due_at, taken.after.changed_at), (NOW.plus(VISIBILITY), NOW));
        assert_eq!(after(&due, JobCall::Done).state, State::Done);
        let renewed = after(&due, JobCall::Renew { visibility: VISIBILITY });
        assert_eq!((renewed.state, renewed.changed_at), (State::Running, at(900)));
    }

    #[test]
    fn worker_without_an_open_claim_changes_nothing() {
        let attempt = Attempt::new(Cause::Failure, "no");
        for state in State::ALL {
            let job = job(state, false, at(0));
            let again = JobCall::Again { at: NOW, attempt: &attempt };
            let bury = JobCall::Bury { attempt: &attempt };
            let renew = JobCall::Renew { visibility: VISIBILITY };
            for call in [renew, JobCall::Release, JobCall::Done, again, bury] {
                assert_eq!(transition(&job, call, NOW), None, "{state} {call:?}");
            }
        }
    }

    #[test]
    fn only_the_cause_of_an_attempt_is_counted() {
        let running = job(State::Running, true, at(2_000));
        for (cause, counts) in
            [(Cause::Failure, [3, 1, 4]), (Cause::Crash, [2, 2, 4]), (Cause::RateLimited, [2, 1, 5])]
        {
            let attempt = Attempt::new(cause, "no");
            let again = after(&running, JobCall::Again { at: at(1_001), attempt: &attempt });
            assert_eq!([again.failures, again.crashes, again.rate_limited], counts);
            assert_eq!((again.state, again.due_at, again.open), (State::Delayed, at(1_001), false));
            assert_eq!(after(&running, JobCall::Again { at: NOW, attempt: &attempt }).state, State::Ready);
        }
    }

    #[test]
    fn operators_change_what_they_may_and_dead_letters_get_all_their_tries() {
        let call = |state, call| transition(&job(state, false, at(2_000)), call, NOW);
        for state in State::ALL {
            let waits = matches!(state, State::Ready | State::Delayed | State::Held | State::Dead);
            for operator in
                [JobCall::Edit { priority: None }, JobCall::Withdraw, JobCall::Move { held: false }]
            {
                assert_eq!(call(state, operator).is_some(), waits, "{state} {operator:?}");
            }
            assert_eq!(call(state, JobCall::Change(Change::Redrive)).is_some(), state == State::Dead);
            let cancelled = call(state, JobCall::Change(Change::Cancel));
            assert_eq!(cancelled.is_some(), !state.has_left());
            assert!(cancelled.is_none_or(|cancelled| cancelled.moves_group && !cancelled.after.open));
        }
        let redriven = call(State::Dead, JobCall::Change(Change::Redrive)).unwrap().after;
        assert_eq!((redriven.failures, redriven.crashes, redriven.rate_limited), (0, 0, 4));
        let edited = call(State::Delayed, JobCall::Edit { priority: Some(9) }).unwrap().after;
        assert_eq!((edited.state, edited.priority, edited.changed_at), (State::Delayed, 9, NOW));
    }

    #[test]
    fn imported_jobs_keep_their_history_and_wait_as_their_new_stage_says() {
        let there = |state| Job {
            state,
            due_at: at(2_000),
            claim_number: 7,
            failures: 1,
            priority: -3,
            ..NewJob::new(&Name::new("a").unwrap(), "k", "1").unwrap().into_job(JobId::new(9), at(500))
        };
        let import = |job: Lifecycle, state, held| after(&job, JobCall::Import { from: &there(state), held });
        let fresh = import(job(State::Ready, false, at(0)), State::Ready, false);
        assert_eq!((fresh.state, fresh.due_at), (State::Ready, Timestamp::EPOCH));
        assert_eq!((fresh.claim_number, fresh.failures, fresh.crashes, fresh.priority), (7, 1, 0, -3));
        let back = Lifecycle { claim_number: 12, ..job(State::Cancelled, false, at(0)) };
        let back = import(back, State::Delayed, false);
        assert_eq!((back.state, back.due_at, back.claim_number), (State::Delayed, at(2_000), 12));
        assert_eq!(import(job(State::Held, false, at(0)), State::Delayed, true).state, State::Held);
        assert_eq!(import(job(State::Held, false, at(0)), State::Dead, true).state, State::Dead);
    }

    #[test]
    fn delays_move_along_and_dead_letters_stay_dead() {
        let moved = |state, held| after(&job(state, false, at(2_000)), JobCall::Move { held });
        assert_eq!(
            (moved(State::Delayed, false).state, moved(State::Delayed, false).due_at),
            (State::Delayed, at(2_000))
        );
        assert_eq!(moved(State::Delayed, true).state, State::Held);
        assert_eq!(moved(State::Held, false).state, State::Delayed);
        assert_eq!(
            (moved(State::Ready, false).state, moved(State::Ready, false).due_at),
            (State::Ready, Timestamp::EPOCH)
        );
        assert_eq!(moved(State::Dead, true).state, State::Dead);
        assert_eq!(after(&job(State::Held, false, at(0)), JobCall::GroupLeft).state, State::Ready);
        assert_eq!(after(&job(State::Held, false, at(2_000)), JobCall::GroupLeft).state, State::Delayed);
    }
}
