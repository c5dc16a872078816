//! What operators see: counts, lists, results.

use std::collections::BTreeMap;

use tollway_core::{Name, Timestamp};
use tollway_pipeline::bounds::PAGE_MAX;
use tollway_pipeline::*;

use super::counts::{read_items, sums};
use super::ledger::{Versioned, dead_part, job_key, jobs_part, key_key, read_id, read_record, sort_of};
use super::record::LedgerRecord;
use super::table::{Item, SORT, read_text};
use super::{Inner, lock};

/// How many items a page may look at to find what matches.
const LOOKED_AT_MAX: usize = 5 * PAGE_MAX;

impl Inner {
    /// The counts of every stage. Messages that the counters do not know, of other programs, count as ready.
    pub(super) async fn counts(&self) -> Result<Vec<StageCounts>, EngineError> {
        let counts = self.counts.read(self.table().await?).await?;
        self.with_messages(counts).await
    }

    /// The counts of one moment, at which no held job was about to be released.
    ///
    /// The transaction of the last job of a group is followed by the release of the jobs that wait for it. In between, no job
    /// is open, and jobs are left: so every held job is looked at. The counters are read before and after that. Each
    /// transaction changes one of them, and events are only ever added: counters that are the same were so all the time.
    pub(super) async fn settled_counts(
        &self,
        now: Timestamp,
    ) -> Result<Option<Vec<StageCounts>>, EngineError> {
        let table = self.table().await?;
        let before = read_items(table).await?;
        let counts = sums(&before);
        for counts in counts.iter().filter(|counts| counts.of(State::Held) > 0) {
            self.release_stage(&counts.stage, now).await?;
        }
        match read_items(table).await? == before {
            true => self.with_messages(counts).await.map(Some),
            false => Ok(None),
        }
    }

    /// Adds what only SQS knows of.
    async fn with_messages(&self, mut counts: Vec<StageCounts>) -> Result<Vec<StageCounts>, EngineError> {
        for stage in self.url.stages() {
            if !counts.iter().any(|known| known.stage == stage.stage) {
                counts.push(StageCounts::empty(stage.stage.clone()));
            }
        }
        let paused = self.stages().await?.into_iter().filter(|settings| settings.paused);
        let paused: Vec<Name> = paused.map(|settings| settings.stage).collect();
        for counts in &mut counts {
            // Messages of cancelled jobs stay in the queue of a paused stage: they are no work. Of messages that are handed over,
            // this process knows only its own.
            if paused.contains(&counts.stage) || self.delivered.is_some() {
                continue;
            }
            // Of a stage that the config lacks, messages are left over from jobs that moved.
            let configured = self.url.stages();
            if !configured.is_empty() && !configured.iter().any(|known| known.stage == counts.stage) {
                continue;
            }
            self.look(&counts.stage).await;
            self.delete_surplus(counts).await;
            if let Some(outlook) = lock(&self.outlooks).get(&counts.stage) {
                let ready = &mut counts.jobs[State::Ready as usize];
                *ready = (*ready).max(outlook.visible + outlook.ahead());
            }
        }
        Ok(counts)
    }

    /// Reads how many messages are visible, if that was not read a moment ago.
    async fn look(&self, stage: &Name) {
        if !self.looked_at.is_over(stage) {
            return;
        }
        self.looked_at.note(stage);
        let Ok(queues) = self.queues(stage).await else { return };
        match queues.queue.attributes().await {
            Ok(said) => {
                let mut outlooks = lock(&self.outlooks);
                let outlook = outlooks.entry(stage.clone()).or_default();
                outlook.visible = said.visible;
                if said.visible > 0 {
                    outlook.ready(0);
                }
            }
            Err(error) => tracing::debug!(%error, "the number of messages could not be read"),
        }
    }

    pub(super) async fn group_counts(&self, group: &str) -> Result<Vec<StageCounts>, EngineError> {
        let filter = Filter { group: Some(group.to_owned()), ..Filter::default() };
        let mut stages: BTreeMap<Name, StageCounts> = BTreeMap::new();
        let mut after = None;
        loop {
            let page = self.scan(&filter, after, PAGE_MAX, |_| true).await?;
            for found in page.items {
                let Job { stage, state, .. } = found.record.job;
                let counts = stages.entry(stage.clone()).or_insert_with(|| StageCounts::empty(stage));
                counts.jobs[state as usize] += 1;
            }
            after = page.next;
            if after.is_none() {
                return Ok(stages.into_values().collect());
            }
        }
    }

    pub(super) async fn matching(&self, filter: &Filter) -> Result<u64, EngineError> {
        let (mut found, mut after) = (0, None);
        loop {
            let page = self.scan(filter, after, PAGE_MAX, |_| true).await?;
            found += page.items.len() as u64;
            after = page.next;
            if after.is_none() {
                return Ok(found);
            }
        }
    }

    /// The job of an id, in any stage.
    pub(super) async fn find(&self, id: JobId) -> Result<Option<Versioned>, EngineError> {
        for settings in self.stages().await? {
            let queue = self.queue_name(&settings.stage)?;
            if let Some(found) = self.table().await?.record(&queue, id).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The job of a key.
    pub(super) async fn find_key(&self, stage: &Name, key: &str) -> Result<Option<Versioned>, EngineError> {
        let queue = self.queue_name(stage)?;
        let table = self.table().await?;
        match table.get(&key_key(&queue, key)).await?.as_ref().and_then(read_id) {
            Some(id) => table.record(&queue, id).await,
            None => Ok(None),
        }
    }

    /// Jobs that match, in the order of their ids.
    pub(super) async fn scan(
        &self,
        filter: &Filter,
        after: Option<JobId>,
        limit: usize,
        also: impl Fn(&LedgerRecord) -> bool,
    ) -> Result<Page<Versioned>, EngineError> {
        let stages = self.stages().await?.into_iter().map(|settings| settings.stage);
        let stages: Vec<Name> =
            stages.filter(|stage| filter.stage.as_ref().is_none_or(|wanted| wanted == stage)).collect();
        let fits = |found: &Versioned| {
            let job = &found.record.job;
            matches(filter, job) && also(&found.record) && after.is_none_or(|after| job.id > after)
        };
        if filter.job.is_some() || filter.key.is_some() {
            let mut items = Vec::new();
            for stage in &stages {
                items.extend(match (filter.job, &filter.key) {
                    (Some(id), _) => self.table().await?.record(&self.queue_name(stage)?, id).await?,
                    (None, Some(key)) => self.find_key(stage, key).await?,
                    (None, None) => None,
                });
            }
            items.retain(fits);
            items.sort_by_key(|found| found.record.job.id);
            return Ok(Page { items, next: None });
        }
        let (mut items, mut until): (Vec<Versioned>, Option<JobId>) = (Vec::new(), None);
        for stage in &stages {
            let (found, stopped_at) = self.scan_stage(stage, filter.state, after, limit, &fits).await?;
            items.extend(found);
            until = match (until, stopped_at) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        items.sort_by_key(|found| found.record.job.id);
        if let Some(until) = until {
            items.retain(|found| found.record.job.id <= until);
        }
        let more = items.len() > limit;
        items.truncate(limit);
        let next = if more { items.last().map(|found| found.record.job.id) } else { until };
        Ok(Page { items, next })
    }

    /// Jobs of one stage that fit, and the last id looked at if there may be more.
    async fn scan_stage(
        &self,
        stage: &Name,
        state: Option<State>,
        after: Option<JobId>,
        limit: usize,
        fits: &impl Fn(&Versioned) -> bool,
    ) -> Result<(Vec<Versioned>, Option<JobId>), EngineError> {
        let (queue, table) = (self.queue_name(stage)?, self.table().await?);
        let dead = state == Some(State::Dead);
        let part = if dead { dead_part(&queue) } else { jobs_part(&queue) };
        let (mut found, mut looked_at) = (Vec::new(), 0);
        let mut place = after.map(sort_of);
        loop {
            let (mut items, more) = table.list(&part, place.as_deref(), PAGE_MAX.min(limit.max(10))).await?;
            looked_at += items.len();
            place = items.last().and_then(|item| read_text(item, SORT)).map(str::to_owned).or(place);
            if dead {
                items = self.records_at(&queue, &items).await?;
            }
            for item in &items {
                let one = read_record(item)?;
                if fits(&one) {
                    found.push(one);
                }
            }
            if !more || found.len() >= limit || looked_at >= LOOKED_AT_MAX {
                let id = place.as_deref().and_then(|place| place.parse().ok()).map(JobId::new);
                return Ok((found, id.filter(|_| more)));
            }
        }
    }

    /// The records that list items point to.
    async fn records_at(&self, queue: &str, items: &[Item]) -> Result<Vec<Item>, EngineError> {
        let ids = items.iter().filter_map(|item| read_text(item, SORT)?.parse().ok());
        let keys: Vec<_> = ids.map(|id| job_key(queue, JobId::new(id))).collect();
        Ok(self.table().await?.get_many(&keys).await?.into_iter().flatten().collect())
    }

    pub(super) async fn results(
        &self,
        stage: &Name,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Page<JobResult>, EngineError> {
        let filter = Filter { stage: Some(stage.clone()), state: Some(State::Done), ..Filter::default() };
        let page = self.scan(&filter, after, limit, |_| true).await?;
        let result = |found: Versioned| {
            let LedgerRecord { job, outputs_count, result, .. } = found.record;
            JobResult {
                job: job.id,
                key: job.key,
                group: job.group,
                number: job.claim_number,
                finished_at: job.changed_at,
                outputs: outputs_count,
                result,
            }
        };
        Ok(Page { items: page.items.into_iter().map(result).collect(), next: page.next })
    }

    /// Whether a job has left since a time; for the purge.
    pub(super) fn left_before(record: &LedgerRecord, before: Timestamp) -> bool {
        record.job.state.has_left() && record.job.changed_at < before
    }
}

fn matches(filter: &Filter, job: &Job) -> bool {
    let contains = |text: &str| {
        let lower = job.error.to_ascii_lowercase();
        lower.contains(&text.to_ascii_lowercase())
    };
    filter.job.is_none_or(|id| id == job.id)
        && filter.stage.as_ref().is_none_or(|stage| *stage == job.stage)
        && filter.state.is_none_or(|state| state == job.state)
        && filter.group.as_ref().is_none_or(|group| Some(group) == job.group.as_ref())
        && filter.key.as_ref().is_none_or(|key| *key == job.key)
        && filter.error.as_ref().is_none_or(|error| contains(error))
}
