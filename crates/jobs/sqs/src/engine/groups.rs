//! Stages that wait for whole groups.
//!
//! Every job of a group that has not left its stage is a member: an item that is written and deleted in the transactions that
//! write the job. A job that arrives in a stage that waits is written as held. After that, and after every member that leaves,
//! the group is looked at: if no member is in the stages before, held jobs are released. Reads are consistent, so the later of
//! two processes sees what both have written.
//!
//! A held job needs no message: its release sends one. A process that dies between its commit and the look has not deleted
//! the message of its own job, so the group is looked at when that message comes again.

use std::collections::{BTreeSet, HashSet};

use tollway_core::{Name, Timestamp};
use tollway_pipeline::bounds::PAGE_MAX;
use tollway_pipeline::engine::transition::JobCall;
use tollway_pipeline::*;

use super::Inner;
use super::ledger::{ID, Versioned, job_key, read_id, read_record, sort_of};
use super::message::Outgoing;
use super::record::LedgerRecord;
use super::table::{Guard, Item, PART, SORT, Write, number, read_text, text};

/// How many jobs of a group are released together.
const HELD_AT_A_TIME: usize = 100;

/// The partition of a group's members.
fn group_part(group: &str) -> String {
    format!("group/{group}")
}

/// Where the members of a stage begin. Names of stages have no `/`.
fn stage_prefix(stage: &Name) -> String {
    format!("{}/", stage.as_str())
}

/// The change of the members that belongs to a write of a record, if it enters its stage or leaves it.
pub(super) fn membership(was: Option<&LedgerRecord>, record: &LedgerRecord) -> Option<Write> {
    let group = record.job.group.as_ref()?;
    let was_there = was.is_some_and(|was| !was.job.state.has_left());
    let key = (group_part(group), format!("{}{}", stage_prefix(&record.job.stage), sort_of(record.job.id)));
    match (was_there, !record.job.state.has_left()) {
        (false, true) => {
            let item = Item::from([
                (PART.to_owned(), text(&key.0)),
                (SORT.to_owned(), text(&key.1)),
                (ID.to_owned(), number(record.job.id.get())),
            ]);
            Some(Write::Put(item, Guard::Any))
        }
        (true, false) => Some(Write::Delete(key, Guard::Any)),
        _ => None,
    }
}

impl Inner {
    /// The stages that wait for groups, and for which stages.
    pub(super) async fn gates(&self) -> Result<Vec<StageSettings>, EngineError> {
        Ok(self.stages().await?.into_iter().filter(|settings| !settings.after.is_empty()).collect())
    }

    /// Holds a new job if its stage waits for its group. [`Inner::release_groups`] decides after it is written.
    pub(super) async fn hold(&self, record: &mut LedgerRecord) -> Result<(), EngineError> {
        hold_by(&self.gates().await?, record);
        Ok(())
    }

    /// Whether a held job still waits for members of its group.
    pub(super) async fn is_held_back(&self, record: &LedgerRecord) -> Result<bool, EngineError> {
        let gates = self.gates().await?;
        let gate = gates.iter().find(|gate| gate.stage == record.job.stage);
        match (gate, &record.job.group) {
            (Some(gate), Some(group)) => self.is_in_any(group, &gate.after).await,
            _ => Ok(false),
        }
    }

    /// Whether a job of the group is in one of these stages, and has not left it. Earlier stages are read first, so that a job
    /// that is handed on meanwhile is seen in one of them.
    async fn is_in_any(&self, group: &str, stages: &[Name]) -> Result<bool, EngineError> {
        let (table, part) = (self.table().await?, group_part(group));
        let place = |stage: &&Name| self.url.stages().iter().position(|known| known.stage == **stage);
        let mut stages: Vec<&Name> = stages.iter().collect();
        stages.sort_by_key(|stage| place(stage).unwrap_or(usize::MAX));
        for stage in stages {
            if !table.list_under(&part, &stage_prefix(stage), None, 1).await?.0.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks at groups of which jobs arrived or left, and releases held jobs that wait for no member any more.
    pub(super) async fn release_groups(
        &self,
        groups: BTreeSet<String>,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        if groups.is_empty() {
            return Ok(());
        }
        let gates = self.gates().await?;
        for group in &groups {
            for gate in &gates {
                // Most groups are not complete, and one read shows that.
                if !self.is_in_any(group, &gate.after).await? {
                    self.release_group(group, gate, now).await?;
                }
            }
        }
        Ok(())
    }

    /// Releases the held jobs of a group in a stage. The stages before are read after the held jobs: those may have been
    /// enqueued together with others of their group.
    async fn release_group(
        &self,
        group: &str,
        gate: &StageSettings,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let (table, queue) = (self.table().await?, self.queue_name(&gate.stage)?);
        let (part, prefix) = (group_part(group), stage_prefix(&gate.stage));
        let mut place: Option<String> = None;
        loop {
            let (members, more) = table.list_under(&part, &prefix, place.as_deref(), HELD_AT_A_TIME).await?;
            let keys: Vec<_> = members.iter().filter_map(read_id).map(|id| job_key(&queue, id)).collect();
            let mut held = Vec::new();
            for item in table.get_many(&keys).await?.into_iter().flatten() {
                held.extend(Some(read_record(&item)?).filter(|known| known.record.job.state == State::Held));
            }
            if !held.is_empty() {
                if self.is_in_any(group, &gate.after).await? {
                    return Ok(());
                }
                self.release_held(&gate.stage, held, now).await?;
            }
            place = members.last().and_then(|item| read_text(item, SORT)).map(str::to_owned);
            if !more || place.is_none() {
                return Ok(());
            }
        }
    }

    /// Their messages go first: a worker that receives one while its job is still held looks at the group itself.
    pub(super) async fn release_held(
        &self,
        stage: &Name,
        held: Vec<Versioned>,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let messages = held.iter().map(|known| Outgoing::of(&known.record, now)).collect();
        self.queues(stage).await?.queue.send(messages).await?;
        for known in held {
            if let Some(record) = self.release_one(known, now).await? {
                let Job { due_at, id, .. } = record.job;
                match record.job.state {
                    State::Delayed => self.due(stage, due_at, id),
                    _ => self.ready(stage, 1),
                }
            }
        }
        Ok(())
    }

    /// The record of a job that was held, and is released now.
    pub(super) async fn release_one(
        &self,
        known: Versioned,
        now: Timestamp,
    ) -> Result<Option<LedgerRecord>, EngineError> {
        let released = self.update(known, &[], |record| record.apply(JobCall::GroupLeft, now));
        Ok(released.await?.map(|((), versioned)| versioned.record))
    }

    /// Looks at every held job of a stage: it may wait for fewer stages now, or the process that was to look at its group died.
    pub(super) async fn release_stage(&self, stage: &Name, now: Timestamp) -> Result<(), EngineError> {
        let filter = Filter { stage: Some(stage.clone()), state: Some(State::Held), ..Filter::default() };
        let mut after = None;
        loop {
            let page = self.scan(&filter, after, PAGE_MAX, |_| true).await?;
            let (mut free, mut waiting) = (Vec::new(), HashSet::new());
            for known in page.items {
                let group = known.record.job.group.clone().unwrap_or_default();
                if waiting.contains(&group) {
                    continue;
                }
                match self.is_held_back(&known.record).await? {
                    true => drop(waiting.insert(group)),
                    false => free.push(known),
                }
            }
            self.release_held(stage, free, now).await?;
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}

/// Holds a new job if one of these stages is its own.
pub(super) fn hold_by(gates: &[StageSettings], record: &mut LedgerRecord) {
    let waits = matches!(record.job.state, State::Ready | State::Delayed) && record.job.group.is_some();
    if waits && gates.iter().any(|gate| gate.stage == record.job.stage) {
        record.job.state = State::Held;
    }
}

/// The groups of jobs.
pub(super) fn groups_of<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> BTreeSet<String> {
    jobs.into_iter().filter_map(|job| job.group.clone()).collect()
}
