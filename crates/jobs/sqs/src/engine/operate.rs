//! What operators change, and what is forgotten.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures_util::{StreamExt, stream};
use tollway_core::{Name, Timestamp};
use tollway_pipeline::bounds::PAGE_MAX;
use tollway_pipeline::engine::checks::within;
use tollway_pipeline::engine::counters::Kind;
use tollway_pipeline::*;

use super::claim::WRITES_AT_A_TIME;
use super::counts::Tally;
use super::ledger::{Versioned, job_key, jobs_part, key_key, read_record};
use super::table::{Guard, SORT, Write, Written, read_text};
use super::{Inner, lock};

impl Inner {
    pub(super) async fn edit(&self, job: JobId, edit: Edit, now: Timestamp) -> Result<Edited, EngineError> {
        if let Some(cost) = edit.new_cost() {
            super::finish::refuse_cost(cost)?;
        }
        let bytes = edit.new_data().map_or(0, str::len);
        within("bytes of data", bytes, super::ledger::DATA_BYTES_MAX)?;
        let Some(known) = self.find(job).await? else { return Ok(Edited::Missing) };
        let edited = self.update(known.clone(), &[], |record| match record.edit(&edit, now) {
            Edited::Changed => Some(()),
            _ => None,
        });
        match edited.await? {
            Some(_) => Ok(Edited::Changed),
            None => Ok(match self.find(job).await? {
                Some(found) => found.record.clone().edit(&edit, now),
                None => Edited::Missing,
            }),
        }
    }

    pub(super) async fn change(
        &self,
        filter: &Filter,
        change: Change,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Changed, EngineError> {
        let mut filter = filter.clone();
        if change == Change::Redrive && filter.state.is_none() {
            filter.state = Some(State::Dead);
        }
        let page = self.scan(&filter, after, limit, |record| change.applies_to(record.job.state)).await?;
        let mut jobs = 0;
        let mut dead: BTreeMap<Name, Vec<Versioned>> = BTreeMap::new();
        let mut others = Vec::new();
        for found in page.items {
            match change {
                Change::Redrive => dead.entry(found.record.job.stage.clone()).or_default().push(found),
                _ => others.push(found),
            }
        }
        for (stage, dead) in dead {
            jobs += self.redrive(&stage, dead, now).await?;
        }
        let apply = |found: Versioned| {
            self.update(found, &[], move |record| {
                change.applies_to(record.job.state).then(|| record.change(change, now))
            })
        };
        let mut changes = stream::iter(others.into_iter().map(apply)).buffer_unordered(WRITES_AT_A_TIME);
        let (mut left, mut failed) = (BTreeSet::new(), Ok(()));
        while let Some(changed) = changes.next().await {
            match changed {
                Ok(Some(((), Versioned { record, .. }))) => {
                    jobs += 1;
                    left.extend(record.job.group.filter(|_| record.job.state.has_left()));
                }
                Ok(None) => {}
                Err(error) => failed = Err(error),
            }
        }
        drop(changes);
        // Also after an error: jobs that have left do not come again.
        self.release_groups(left, now).await?;
        failed?;
        // Once, at the end: a queue of dead letters can only be looked through from its start.
        if page.next.is_none() && !matches!(change, Change::Reprioritise(_)) {
            self.clean_dead_queues(now).await?;
        }
        Ok(Changed { jobs, next: page.next })
    }

    /// Forgets jobs that have left. Each call looks at one page of the stage, and goes on where the last one ended.
    pub(super) async fn purge(
        &self,
        stage: &Name,
        before: Timestamp,
        limit: usize,
    ) -> Result<u64, EngineError> {
        let (queue, table) = (self.queue_name(stage)?, self.table().await?);
        let mut place = lock(&self.purged).get(stage).cloned();
        let (mut purged, mut looked_at) = (0, 0);
        while purged < limit as u64 && looked_at < PAGE_MAX {
            let (items, more) = table.list(&jobs_part(&queue), place.as_deref(), PAGE_MAX).await?;
            looked_at += items.len();
            for item in &items {
                let found = read_record(item)?;
                if purged < limit as u64 && Self::left_before(&found.record, before) {
                    purged += u64::from(self.forget(&queue, &found).await?);
                }
            }
            place = items.last().and_then(|item| read_text(item, SORT)).map(str::to_owned).filter(|_| more);
            if !more {
                break;
            }
        }
        let mut cursors = lock(&self.purged);
        match place {
            Some(place) => cursors.insert(stage.clone(), place),
            None => cursors.remove(stage),
        };
        Ok(purged)
    }

    pub(super) async fn forget(&self, queue: &str, found: &Versioned) -> Result<bool, EngineError> {
        let job = &found.record.job;
        let mut tally = Tally::default();
        tally.count(&job.stage, Kind::Jobs(job.state), -1);
        let mut writes = vec![
            Write::Delete(job_key(queue, job.id), Guard::Version(found.version)),
            Write::Delete(key_key(queue, &job.key), Guard::Any),
        ];
        writes.extend(tally.write());
        let forgotten = matches!(self.table().await?.write(writes).await?, Written::Yes);
        self.counts.changed();
        Ok(forgotten)
    }

    /// Looks whether other programs have left dead letters, and whether a held job was forgotten.
    pub(super) async fn tidy(&self) -> Result<(), EngineError> {
        let now = lock(&self.outlooks).values().map(|outlook| outlook.looked_at).max();
        // None: this process receives no messages.
        let Some(now) = now.filter(|_| self.delivered.is_none()) else { return Ok(()) };
        self.clean_dead_queues(now).await?;
        self.release_forgotten(now).await
    }

    /// Looks through queues that have more dead letters than the ledger, and now and then through the others: messages of jobs
    /// that are not dead are deleted or sent again, and those of other programs adopted.
    pub(super) async fn clean_dead_queues(&self, now: Timestamp) -> Result<(), EngineError> {
        let counts = self.counts.read(self.table().await?).await?;
        let stages: Vec<_> = self.stage_queues.lock().await.values().cloned().collect();
        for queues in stages {
            let known = counts.iter().find(|counts| counts.stage == queues.stage);
            let known = known.map_or(0, |counts| counts.of(State::Dead));
            let visible = queues.dead.attributes().await?.visible;
            let is_due = visible > known || visible > 0 && self.dead_queues_looked_at.is_over(&queues.stage);
            if is_due {
                self.dead_queues_looked_at.note(&queues.stage);
                self.look_through_dead(&queues, &HashSet::new(), now).await?;
            }
        }
        Ok(())
    }

    /// Looks at held jobs: a process may have died, or have known old settings, before it looked at their group. Held jobs are
    /// found by reading all of their stage, so this is rare.
    pub(super) async fn release_forgotten(&self, now: Timestamp) -> Result<(), EngineError> {
        let counts = self.counts.read(self.table().await?).await?;
        let gates = self.gates().await?;
        for counts in counts.iter().filter(|counts| counts.of(State::Held) > 0) {
            let waits = gates.iter().any(|gate| gate.stage == counts.stage);
            if !waits || self.held_looked_at.is_over(&counts.stage) {
                self.held_looked_at.note(&counts.stage);
                self.release_stage(&counts.stage, now).await?;
            }
        }
        Ok(())
    }

    /// Sends and deletes pending batches, and shows messages again that were received ahead.
    pub(super) async fn flush(&self) -> Result<(), EngineError> {
        let stages: Vec<_> = self.stage_queues.lock().await.values().cloned().collect();
        for queues in &stages {
            let ahead = lock(&self.outlooks).get_mut(&queues.stage).map(|outlook| outlook.all_ahead());
            self.give_back(&queues.stage, ahead.unwrap_or_default()).await?;
            queues.queue.flush_sends().await;
        }
        // The messages of done jobs are deleted after their outputs are sent.
        let mut follow_ups = std::mem::take(&mut *lock(&self.follow_ups));
        while follow_ups.join_next().await.is_some() {}
        for queues in &stages {
            queues.queue.flush().await;
            queues.dead.flush().await;
        }
        Ok(())
    }
}
