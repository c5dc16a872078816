//! The simplest engine that is right: a list in memory. It is compared with the engine under test.

use tollway_core::{Name, Span, Timestamp};

use crate::*;

/// A job, and whether its newest claim is open.
#[derive(Clone)]
pub(super) struct ModelJob {
    pub(super) job: Job,
    open: bool,
    /// The numbers of claims that were concluded.
    concluded: Vec<u64>,
}

/// A list of jobs, in the order of their ids.
#[derive(Default)]
pub(super) struct Model {
    pub(super) jobs: Vec<ModelJob>,
    stages: Vec<(StageSettings, Events)>,
}

impl Model {
    fn stage(&mut self, name: &Name) -> &mut (StageSettings, Events) {
        let index = self.stages.iter().position(|(settings, _)| settings.stage == *name);
        let index = index.unwrap_or_else(|| {
            let settings =
                StageSettings { stage: name.clone(), paused: false, concurrency: None, after: Vec::new() };
            self.stages.push((settings, Events::default()));
            self.stages.len() - 1
        });
        &mut self.stages[index]
    }

    /// Enqueues a job under the id that the engine gave it. False: it is a duplicate.
    pub(super) fn enqueue(&mut self, new: &NewJob, id: JobId, now: Timestamp) -> bool {
        let same = |job: &ModelJob| job.job.stage == new.stage && job.job.key == new.key;
        if let Some(known) = self.jobs.iter().position(same) {
            if !new.again || self.jobs[known].job.state != State::Cancelled {
                return false;
            }
            self.jobs.remove(known);
        }
        let (settings, events) = self.stage(&new.stage);
        events.enqueued += 1;
        let held = new.group.is_some() && !settings.after.is_empty();
        let job = Job {
            id,
            stage: new.stage.clone(),
            key: new.key.clone(),
            group: new.group.clone(),
            data: new.data.clone(),
            priority: new.priority,
            cost: new.cost.clone(),
            state: if held { State::Held } else { waiting(new.not_before, now) },
            due_at: new.not_before,
            claim_number: 0,
            worker: String::new(),
            failures: 0,
            crashes: 0,
            rate_limited: 0,
            error: String::new(),
            created_at: now,
            changed_at: now,
        };
        self.jobs.push(ModelJob { job, open: false, concluded: Vec::new() });
        true
    }

    /// Makes held jobs ready whose groups have left. After every operation.
    pub(super) fn release_groups(&mut self, now: Timestamp) {
        for index in 0..self.jobs.len() {
            let job = self.jobs[index].job.clone();
            if job.state == State::Held {
                let after = self.stage(&job.stage).0.after.clone();
                let in_way = |other: &ModelJob| {
                    other.job.group == job.group
                        && after.contains(&other.job.stage)
                        && !other.job.state.has_left()
                };
                if !self.jobs.iter().any(in_way) {
                    self.jobs[index].job.state = waiting(job.due_at, now);
                }
            }
        }
    }

    pub(super) fn peek(&mut self, stage: &Name, now: Timestamp) -> Peek {
        let mut next_at = None;
        for ModelJob { job, .. } in self.jobs.iter_mut().filter(|job| job.job.stage == *stage) {
            if matches!(job.state, State::Delayed | State::Running) {
                if job.due_at <= now {
                    job.state = State::Ready;
                } else {
                    next_at = Some(next_at.map_or(job.due_at, |next: Timestamp| next.min(job.due_at)));
                }
            }
        }
        let cost = self.best(stage, None).map(|index| self.jobs[index].job.cost.clone());
        Peek { cost, next_at, paused: self.stage(stage).0.paused, ready: None }
    }

    fn best(&self, stage: &Name, cost: Option<&JobCost>) -> Option<usize> {
        let fits = |job: &Job| {
            job.stage == *stage && job.state == State::Ready && cost.is_none_or(|cost| *cost == job.cost)
        };
        let ready = self.jobs.iter().enumerate().filter(|(_, job)| fits(&job.job));
        ready.min_by_key(|(index, job)| (-i32::from(job.job.priority), *index)).map(|(index, _)| index)
    }

    pub(super) fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Vec<Job> {
        if self.stage(&request.stage).0.paused {
            return Vec::new();
        }
        self.peek(&request.stage, now);
        let mut claimed = Vec::new();
        while claimed.len() < request.count
            && let Some(index) = self.best(&request.stage, request.cost.as_ref())
        {
            if self.jobs[index].open {
                self.count(index, &Attempt::expired());
            }
            let found = &mut self.jobs[index];
            found.open = true;
            found.job.claim_number += 1;
            found.job.state = State::Running;
            found.job.worker = request.worker.clone();
            found.job.due_at = now.plus(request.visibility);
            found.job.changed_at = now;
            claimed.push(found.job.clone());
            self.stage(&request.stage).1.claimed += 1;
        }
        claimed
    }

    /// What `finish_and_claim` claims, after the outputs are enqueued.
    pub(super) fn claim_next(&mut self, next: &[ClaimRequest], now: Timestamp) -> Option<Job> {
        self.release_groups(now);
        let is_paused =
            |stage: &Name| self.stages.iter().any(|(known, _)| known.stage == *stage && known.paused);
        let next: Vec<&ClaimRequest> = next.iter().filter(|request| !is_paused(&request.stage)).collect();
        let is_due = |job: &Job| {
            let open = matches!(job.state, State::Delayed | State::Running) && job.due_at <= now;
            open && next.iter().any(|request| request.stage == job.stage)
        };
        if self.jobs.iter().any(|job| is_due(&job.job)) {
            return None;
        }
        let mut found = next.iter().filter_map(|request| Some((request, self.best(&request.stage, None)?)));
        let (request, index) = found.next()?;
        let fits = request.cost.as_ref().is_none_or(|cost| *cost == self.jobs[index].job.cost);
        fits.then(|| self.claim(&(*request).clone().count(1), now).pop())?
    }

    fn count(&mut self, index: usize, attempt: &Attempt) {
        let stage = self.jobs[index].job.stage.clone();
        let events = &mut self.stage(&stage).1;
        match attempt.cause() {
            Cause::Failure => events.failures += 1,
            Cause::Crash => events.crashes += 1,
            Cause::RateLimited => events.rate_limited += 1,
        }
        let job = &mut self.jobs[index].job;
        match attempt.cause() {
            Cause::Failure => job.failures += 1,
            Cause::Crash => job.crashes += 1,
            Cause::RateLimited => job.rate_limited += 1,
        }
        job.error = attempt.error().to_owned();
    }

    fn fenced(&self, claim: &Claim) -> Option<usize> {
        self.jobs.iter().position(|job| {
            job.open
                && (job.job.id, &job.job.stage, job.job.claim_number)
                    == (claim.job, &claim.stage, claim.number)
        })
    }

    pub(super) fn renew(&mut self, claim: &Claim, visibility: Span, now: Timestamp) -> bool {
        let found = self.fenced(claim);
        if let Some(index) = found {
            let job = &mut self.jobs[index].job;
            (job.state, job.due_at) = (State::Running, now.plus(visibility));
        }
        found.is_some()
    }

    pub(super) fn release(&mut self, claim: &Claim, now: Timestamp) -> bool {
        let found = self.fenced(claim);
        if let Some(index) = found {
            self.end(index, State::Ready, now);
        }
        found.is_some()
    }

    fn end(&mut self, index: usize, state: State, now: Timestamp) {
        let found = &mut self.jobs[index];
        found.open = false;
        (found.job.state, found.job.changed_at) = (state, now);
    }

    /// What `finish` answers. The outputs are enqueued by the caller, who knows their ids.
    pub(super) fn finish(&mut self, claim: &Claim, conclusion: &Conclusion, now: Timestamp) -> Finished {
        let Some(index) = self.fenced(claim) else {
            let concluded = |job: &&ModelJob| {
                job.job.id == claim.job
                    && job.job.claim_number == claim.number
                    && job.concluded.contains(&claim.number)
            };
            if self.jobs.iter().any(|job| concluded(&job)) {
                return Finished::Repeated;
            }
            self.stage(&claim.stage).1.late += 1;
            return Finished::Late;
        };
        self.jobs[index].concluded.push(claim.number);
        match conclusion {
            Conclusion::Done { outputs, .. } => {
                self.end(index, State::Done, now);
                self.jobs[index].job.due_at = now;
                self.stage(&claim.stage).1.completed += 1;
                return Finished::Committed { outputs: outputs.len(), joined: 0 };
            }
            Conclusion::Again { at, attempt } => {
                self.count(index, attempt);
                self.end(index, waiting(*at, now), now);
                self.jobs[index].job.due_at = *at;
            }
            Conclusion::Dead { attempt } => {
                self.count(index, attempt);
                self.end(index, State::Dead, now);
                self.jobs[index].job.due_at = now;
            }
        }
        Finished::Committed { outputs: 0, joined: 0 }
    }

    /// The key of an output. The plain one may belong to an output of an earlier job of the same key.
    pub(super) fn output_key(&self, claimed: &Claimed, index: usize, stage: &Name) -> String {
        let key = claimed.claim.output_key(&claimed.job.key, index);
        let taken = |job: &ModelJob| job.job.stage == *stage && job.job.key == key;
        if self.jobs.iter().any(taken) { claimed.claim.output_key_again(&key) } else { key }
    }

    pub(super) fn change(&mut self, filter: &Filter, change: Change, now: Timestamp) -> u64 {
        let mut changed = 0;
        for found in &mut self.jobs {
            if !matches(filter, &found.job) || !change.applies_to(found.job.state) {
                continue;
            }
            changed += 1;
            match change {
                Change::Redrive => {
                    (found.job.failures, found.job.crashes) = (0, 0);
                    (found.job.state, found.job.changed_at) = (State::Ready, now);
                }
                Change::Cancel => {
                    found.open = false;
                    (found.job.state, found.job.changed_at) = (State::Cancelled, now);
                }
                Change::Reprioritise(priority) => found.job.priority = priority,
            }
        }
        changed
    }

    pub(super) fn edit(&mut self, id: JobId, priority: i16, now: Timestamp) -> Edited {
        let Some(found) = self.jobs.iter_mut().find(|job| job.job.id == id) else { return Edited::Missing };
        if found.job.state == State::Running || found.job.state.has_left() {
            return Edited::Refused(found.job.state);
        }
        found.open = false;
        (found.job.priority, found.job.changed_at) = (priority, now);
        Edited::Changed
    }

    pub(super) fn set_stage(&mut self, stage: &Name, change: &StageChange) {
        let settings = &mut self.stage(stage).0;
        settings.paused = change.paused.unwrap_or(settings.paused);
        if let Some(after) = &change.after {
            settings.after.clone_from(after);
        }
    }

    pub(super) fn abandon(&mut self, now: Timestamp) -> u64 {
        let running =
            self.jobs.iter_mut().filter(|job| job.job.state == State::Running && job.job.due_at > now);
        running.map(|job| job.job.due_at = now).count() as u64
    }

    pub(super) fn purge(&mut self, stage: &Name, before: Timestamp) -> u64 {
        let jobs = self.jobs.len();
        let old = |job: &Job| job.stage == *stage && job.state.has_left() && job.changed_at < before;
        self.jobs.retain(|job| !old(&job.job));
        (jobs - self.jobs.len()) as u64
    }

    /// The counts, by counting.
    pub(super) fn counts(&self) -> Vec<StageCounts> {
        let count = |(settings, events): &(StageSettings, Events)| {
            let jobs = |state| {
                let there = |job: &&ModelJob| job.job.stage == settings.stage && job.job.state == state;
                self.jobs.iter().filter(there).count() as u64
            };
            StageCounts { stage: settings.stage.clone(), jobs: State::ALL.map(jobs), events: *events }
        };
        self.stages.iter().map(count).collect()
    }
}

fn waiting(due_at: Timestamp, now: Timestamp) -> State {
    if due_at > now { State::Delayed } else { State::Ready }
}

fn matches(filter: &Filter, job: &Job) -> bool {
    filter.job.is_none_or(|id| id == job.id)
        && filter.stage.as_ref().is_none_or(|stage| *stage == job.stage)
        && filter.state.is_none_or(|state| state == job.state)
        && filter.group.as_ref().is_none_or(|group| Some(group) == job.group.as_ref())
        && filter.key.as_ref().is_none_or(|key| *key == job.key)
        && filter.error.as_ref().is_none_or(|error| job.error.contains(error))
}
