//! Which job is next: the latest stage with a ready job and a free worker.
//!
//! A cycle looks at every stage with a free worker, the latest one first. It takes the cost of the stage's best ready job
//! from the limiter, and claims a job of that cost when the place is due. It takes nothing for an empty queue, and never
//! has more places than free workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::task::JoinSet;
use tollway::{Permit, TakeError};
use tollway_core::{Name, Span, Timestamp};

use super::outage::is_outage;
use super::places::{Places, is_hopeless};
use super::slots::Slot;
use super::stage::{RunStage, first_worked};
use super::{CALLS_END_WITHIN, Phase, Run, SharedStages, lock, work};
use crate::bounds::BATCH_MAX;
use crate::{ClaimRequest, Claimed, EngineAnswer, EngineError, JobCost, Peek, StageSettings, State};

/// How soon stages are looked at again without any hint: other processes enqueue, pause and resume, too.
const LOOK_EVERY: Span = Span::from_secs(1);

/// The pause after an engine or a limiter failed.
const FAILED_PAUSE: Span = Span::from_secs(1);

/// How often to say that the limiter does not decide.
const UNDECIDED_EVERY: Span = Span::from_mins(1);

/// The pause after the config's cost of a stage turned out to be impossible.
const HOPELESS_PAUSE: Span = Span::from_secs(30);

pub(super) struct Dispatcher {
    run: Arc<Run>,
    places: Places,
    workers: JoinSet<()>,
    /// The stages as this cycle knows them. A reload does not change how many there are.
    stages_now: SharedStages,
    settings: Vec<StageSettings>,
    /// When to read the settings again.
    settings_until: Timestamp,
    /// When it was last logged that the limiter does not decide; none: it does.
    undecided_at: Option<Timestamp>,
}

/// What a cycle knows of the stages.
struct Look {
    /// By the index of the stage; none if no worker is free for it, or if it takes nothing.
    peeks: Vec<Option<Peek>>,
    ready: BTreeMap<Name, u64>,
}

/// What a cycle has found out.
struct Cycle {
    /// When to look again.
    next_at: Timestamp,
    claimed: bool,
    /// Costs that a ready job has.
    wanted: Vec<JobCost>,
    /// Policies that a later stage waits for, and until when: earlier stages must not overtake it.
    blocked: BTreeMap<String, Timestamp>,
    waiting: BTreeMap<Name, Timestamp>,
}

impl Cycle {
    /// Looks again when the next job is due.
    fn look_at(&mut self, next_at: Option<Timestamp>, now: Timestamp) {
        if let Some(at) = next_at {
            self.next_at = self.next_at.min(at.max(now.plus(Span::from_millis(1))));
        }
    }
}

impl Dispatcher {
    pub(super) fn new(run: Arc<Run>) -> Self {
        let stages_now = run.stages();
        let places = Places::new(run.limiter.clone(), run.clock.clone(), run.subject.clone());
        Self {
            run,
            places,
            workers: JoinSet::new(),
            stages_now,
            settings: Vec::new(),
            settings_until: Timestamp::EPOCH,
            undecided_at: None,
        }
    }

    /// Claims and starts jobs until the runner drains, then waits for the jobs that run.
    pub(super) async fn run(mut self) {
        let run = self.run.clone();
        let mut hints = run.engine.hints();
        loop {
            if let Some(hints) = &mut hints {
                hints.mark_unchanged();
            }
            let cycle = tokio::select! {
                cycle = self.cycle() => cycle,
                // A claim that is on its way is waited for, but an engine that does not answer must not delay the end.
                () = run.cut_off_for(CALLS_END_WITHIN) => break,
            };
            let next_at = match cycle {
                Ok(cycle) => cycle.next_at,
                Err(error) => {
                    self.failed(error);
                    run.now().plus(FAILED_PAUSE)
                }
            };
            tokio::select! {
                biased;
                () = run.reached(Phase::Draining) => break,
                Some(_) = self.workers.join_next() => self.places.slot_freed(),
                () = hint(&mut hints) => {}
                () = run.wake.notified() => self.settings_until = Timestamp::EPOCH,
                () = run.sleep_until(next_at) => {}
            }
            while self.workers.try_join_next().is_some() {
                self.places.slot_freed();
            }
        }
        self.places.keep(&[]).await;
        while self.workers.join_next().await.is_some() {}
    }

    /// A cycle ended early. An outage of the engine has its own lines in the log.
    fn failed(&self, error: EngineError) {
        let is_outage = is_outage(&error);
        if !is_outage {
            tracing::warn!(%error, "no job can be claimed; trying again");
        }
        self.run.health.note(&Err::<(), _>(error), self.run.now());
    }

    async fn cycle(&mut self) -> Result<Cycle, EngineError> {
        let run = self.run.clone();
        self.stages_now = run.stages();
        let stages = self.stages_now.clone();
        let look = self.look().await?;
        let now = run.now();
        let mut cycle = Cycle {
            next_at: now.plus(LOOK_EVERY),
            claimed: false,
            wanted: Vec::new(),
            blocked: BTreeMap::new(),
            waiting: BTreeMap::new(),
        };
        look.peeks.iter().flatten().for_each(|peek| cycle.look_at(peek.next_at, now));
        for (index, stage) in stages.iter().enumerate().rev() {
            match &look.peeks[index] {
                Some(peek) => self.stage(index, stage, peek, &look, &mut cycle).await?,
                None if stage.config.take == JobCost::OF_STAGE => {
                    self.stage_without_cost(index, stage, &look, &mut cycle).await?;
                }
                None => {}
            }
        }
        self.use_up_places(&mut cycle).await?;
        self.places.keep(&cycle.wanted).await;
        self.run.slots.set_places(self.places.count());
        *lock(&run.waiting) = std::mem::take(&mut cycle.waiting);
        if cycle.claimed {
            cycle.next_at = now;
        }
        Ok(cycle)
    }

    /// Queries the engine about the stages that take something and have free workers.
    async fn look(&mut self) -> Result<Look, EngineError> {
        let (run, now) = (self.run.clone(), self.run.now());
        if self.settings_until <= now {
            let settings = run.engine.stages().await;
            run.health.note(&settings, now);
            self.settings = settings?;
            self.settings_until = now.plus(LOOK_EVERY);
        }
        self.run.slots.set_most(self.stages_now.iter().map(|stage| self.most(stage)).collect());
        let mut look = Look { peeks: Vec::new(), ready: BTreeMap::new() };
        // All are queued before the first is awaited, so that they share a transaction.
        let asked = self.stages_now.iter().enumerate().map(|(index, stage)| {
            let asks = stage.config.take != JobCost::OF_STAGE && self.free(index) > 0;
            asks.then(|| run.engine.peek(&stage.config.name, now))
        });
        let asked: Vec<_> = asked.collect();
        // Counts that are not exact are slow to read, and then a peek says what it knows.
        let exact = run.engine.capabilities().exact_counts;
        let counts = (exact && asked.iter().any(Option::is_some)).then(|| run.engine.counts());
        for (peek, stage) in asked.into_iter().zip(self.stages_now.iter()) {
            let peek = match peek {
                Some(peek) => Some(peek.await?),
                None => None,
            };
            let ready = peek.as_ref().and_then(|peek| peek.ready);
            look.ready.extend(ready.map(|ready| (stage.config.name.clone(), ready)));
            look.peeks.push(peek);
        }
        if let Some(counts) = counts {
            let ready =
                counts.await?.into_iter().map(|counts| (counts.stage.clone(), counts.of(State::Ready)));
            look.ready = ready.collect();
        }
        Ok(look)
    }

    /// How many jobs of a stage may run.
    fn most(&self, stage: &RunStage) -> usize {
        let RunStage { config, works: true, .. } = stage else { return 0 };
        let set = self.settings.iter().find(|settings| settings.stage == config.name);
        let jobs = set.and_then(|settings| settings.concurrency).unwrap_or(config.concurrency);
        usize::try_from(jobs).unwrap_or(usize::MAX)
    }

    /// How many more jobs of a stage may start now.
    fn free(&self, index: usize) -> usize {
        let name = &self.stages_now[index].config.name;
        let free = self.run.slots.free(index).min(BATCH_MAX);
        let free = free.min(self.run.unreachable.may_start(name, self.run.now()));
        match &self.run.jobs_left {
            Some(left) if index == first_worked(&self.stages_now) => {
                free.min(usize::try_from(left.load(Ordering::Relaxed)).unwrap_or(usize::MAX))
            }
            _ => free,
        }
    }

    /// Claims at once what a stage without a cost has ready. Its jobs may have costs of their own.
    async fn stage_without_cost(
        &mut self,
        index: usize,
        stage: &RunStage,
        look: &Look,
        cycle: &mut Cycle,
    ) -> Result<(), EngineError> {
        let others = self.places.of_others(&JobCost::OF_STAGE);
        let free = self.free(index).min(self.run.slots.free_in_total().saturating_sub(others));
        let slots = self.run.slots.take(index, free);
        if slots.is_empty() {
            return Ok(());
        }
        // Queued together, so that they share a transaction: few workers find a stage empty every other time.
        let claimed = self.claim(stage, &JobCost::OF_STAGE, slots.len());
        let peek = self.run.engine.peek(&stage.config.name, self.run.now());
        let claimed = claimed.await?;
        cycle.claimed |= !claimed.is_empty();
        let filled = claimed.len() == slots.len();
        claimed.into_iter().zip(slots).for_each(|(claimed, slot)| self.start(slot, claimed, None));
        if !filled {
            let peek = peek.await?;
            cycle.look_at(peek.next_at, self.run.now());
            match &peek.cost {
                Some(cost) if *cost != JobCost::OF_STAGE => {
                    self.stage(index, stage, &peek, look, cycle).await?;
                }
                // It came after the claim.
                Some(_) if !peek.paused => cycle.claimed = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes and claims for the best ready job of a stage, and for those behind it with the same cost.
    async fn stage(
        &mut self,
        index: usize,
        stage: &RunStage,
        peek: &Peek,
        look: &Look,
        cycle: &mut Cycle,
    ) -> Result<(), EngineError> {
        let Some(cost) = peek.cost.as_ref().filter(|_| !peek.paused) else { return Ok(()) };
        let place = stage.place_cost(cost);
        let others = self.places.of_others(&place);
        let free = self.free(index).min(self.run.slots.free_in_total().saturating_sub(others));
        // The count may be older than the peek, which found one.
        let ready = look.ready.get(&stage.config.name).copied().unwrap_or(1).max(1);
        let wanted = free.min(usize::try_from(ready).unwrap_or(usize::MAX));
        let amounts = place.amounts();
        let blocked_until = amounts.keys().filter_map(|policy| cycle.blocked.get(policy).copied()).max();
        if let Some(until) = blocked_until {
            cycle.waiting.insert(stage.config.name.clone(), until);
        }
        if wanted == 0 || blocked_until.is_some() {
            return Ok(());
        }
        cycle.wanted.push(place.clone());
        match self.places.fill(&place, wanted).await {
            Ok(due) => {
                if due > 0 && self.undecided_at.take().is_some() {
                    tracing::warn!("the limiter decides again");
                }
                self.claim_due(index, stage, &place, due.min(wanted), cycle).await?;
            }
            Err(error) => self.cannot_take(stage, cost, &place, &error).await?,
        }
        if let Some((again_at, fits_at)) = self.places.waits_until(&place) {
            cycle.next_at = cycle.next_at.min(again_at);
            cycle.waiting.insert(stage.config.name.clone(), fits_at);
            cycle.blocked.extend(amounts.into_keys().map(|policy| (policy, fits_at)));
        }
        Ok(())
    }

    /// Claims up to `due` jobs for places of this cost.
    async fn claim_due(
        &mut self,
        index: usize,
        stage: &RunStage,
        place: &JobCost,
        due: usize,
        cycle: &mut Cycle,
    ) -> Result<(), EngineError> {
        let mut slots = self.run.slots.take(index, due);
        for cost in stage.job_costs(place) {
            if slots.is_empty() {
                break;
            }
            let claimed = self.claim(stage, &cost, slots.len()).await?;
            cycle.claimed |= !claimed.is_empty();
            let left = slots.split_off(claimed.len().min(slots.len()));
            for (claimed, slot) in claimed.into_iter().zip(std::mem::replace(&mut slots, left)) {
                let permit = self.places.pop(place);
                self.start(slot, claimed, permit);
            }
        }
        Ok(())
    }

    /// A place whose job is gone goes to the best job of that cost in any stage; if there is none, it is given back.
    async fn use_up_places(&mut self, cycle: &mut Cycle) -> Result<(), EngineError> {
        let stages = self.stages_now.clone();
        for (cost, _) in self.places.due() {
            for (index, stage) in stages.iter().enumerate().rev() {
                let left =
                    self.places.due().into_iter().find(|(known, _)| *known == cost).map_or(0, |(_, due)| due);
                let due = left.min(self.free(index));
                self.claim_due(index, stage, &cost, due, cycle).await?;
            }
            self.places.give_back(&cost).await;
        }
        Ok(())
    }

    /// Claims jobs of this cost. The engine has queued the call when this returns.
    fn claim(&self, stage: &RunStage, cost: &JobCost, count: usize) -> EngineAnswer<Vec<Claimed>> {
        if count == 0 {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        let config = &stage.config;
        let mut request =
            ClaimRequest::new(&config.name, &self.run.worker, config.visibility_timeout).count(count);
        if self.run.engine.capabilities().claim_by_cost {
            request = request.cost(cost.clone());
        }
        self.run.engine.claim(request, self.run.now())
    }

    fn start(&mut self, slot: Slot, claimed: Claimed, permit: Option<Permit>) {
        let index = slot.stage();
        // A second try of a job of the batch is no further job.
        let first = index == first_worked(&self.stages_now) && work::is_first_try(&claimed.job);
        if let Some(left) = self.run.jobs_left.as_ref().filter(|_| first) {
            left.fetch_sub(1, Ordering::Relaxed);
        }
        let probe = self.run.unreachable.started(&self.stages_now[index].config.name);
        let (run, claim) = (self.run.clone(), claimed.claim.clone());
        let workers = &mut self.workers;
        self.run.active.start(claim, index, || workers.spawn(work::work(run, slot, claimed, permit, probe)));
    }

    /// The limiter did not decide. A cost that is a job's own, and can never be granted, is that job's end.
    async fn cannot_take(
        &mut self,
        stage: &RunStage,
        cost: &JobCost,
        place: &JobCost,
        error: &TakeError,
    ) -> Result<(), EngineError> {
        let (name, now) = (&stage.config.name, self.run.now());
        if !is_hopeless(error) {
            self.undecided(error, now);
            self.places.wait(place, now.plus(FAILED_PAUSE));
        } else if *cost == JobCost::OF_STAGE {
            tracing::error!(%error, stage = %name.as_str(), "the cost of this stage can never be granted: change the config");
            self.places.wait(place, now.plus(HOPELESS_PAUSE));
        } else {
            for claimed in self.claim(stage, cost, 1).await? {
                work::bury(&self.run, claimed, &format!("its cost can never be granted: {error}")).await?;
            }
        }
        Ok(())
    }
}

impl Dispatcher {
    /// The limiter's store is away, and its policy says `closed`. One warning a minute, not one a second and stage.
    fn undecided(&mut self, error: &TakeError, now: Timestamp) {
        if self.undecided_at.is_none_or(|at| now.since(at) >= UNDECIDED_EVERY) {
            self.undecided_at = Some(now);
            tracing::warn!(%error, "the limiter does not decide, so no job is claimed; trying again");
        }
    }
}

async fn hint(hints: &mut Option<tokio::sync::watch::Receiver<u64>>) {
    let hinted = match hints {
        Some(hints) => hints.changed().await.is_ok(),
        None => false,
    };
    // Without an engine that gives hints, only time passes.
    if !hinted {
        std::future::pending().await
    }
}
