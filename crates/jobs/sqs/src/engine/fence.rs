//! Conditional writes: a record changes only if no other process has written it meanwhile.

use tollway_core::{Name, Retry};
use tollway_pipeline::engine::counters::Kind;
use tollway_pipeline::{Claim, EngineError, State};

use super::claim::ATTEMPTS;
use super::counts::Tally;
use super::error::storage;
use super::groups::membership;
use super::ledger::{Versioned, delete_dead, put_dead, put_record, read_record};
use super::record::LedgerRecord;
use super::table::Written;
use super::{Inner, lock};

impl Inner {
    /// The record of a claim, as this process last wrote it, or as the ledger has it.
    pub(super) async fn record_of_claim(&self, claim: &Claim) -> Result<Option<Versioned>, EngineError> {
        if let Some(known) = lock(&self.claims).get(&(claim.stage.clone(), claim.job)) {
            return Ok(Some(known.clone()));
        }
        let queue = self.queue_name(&claim.stage)?;
        self.table().await?.record(&queue, claim.job).await
    }

    /// Changes the record of a claim. None: there is none, or `change` wants no change.
    pub(super) async fn change_claim<T>(
        &self,
        claim: &Claim,
        events: &[Kind],
        change: impl Fn(&mut LedgerRecord) -> Option<T>,
    ) -> Result<Option<(T, Versioned)>, EngineError> {
        match self.record_of_claim(claim).await? {
            Some(known) => {
                let changed = self.update(known, events, change).await?;
                if changed.is_none() {
                    lock(&self.claims).remove(&(claim.stage.clone(), claim.job));
                }
                Ok(changed)
            }
            None => Ok(None),
        }
    }

    /// Changes a record, on the newest version of it, and counts its new state and these events.
    pub(super) async fn update<T>(
        &self,
        mut known: Versioned,
        events: &[Kind],
        change: impl Fn(&mut LedgerRecord) -> Option<T>,
    ) -> Result<Option<(T, Versioned)>, EngineError> {
        let stage = known.record.job.stage.clone();
        let queue = self.queue_name(&stage)?;
        for _ in 0..ATTEMPTS {
            let mut record = known.record.clone();
            let Some(value) = change(&mut record) else { return Ok(None) };
            let (from, to, id) = (known.record.job.state, record.job.state, record.job.id);
            let expires = self.expires(&stage, record.job.changed_at);
            let mut writes = vec![put_record(&queue, &record, known.version, expires)?];
            match (from == State::Dead, to == State::Dead) {
                (false, true) => writes.push(put_dead(&queue, id)),
                (true, false) => writes.push(delete_dead(&queue, id)),
                _ => {}
            }
            let mut tally = Tally::default();
            tally.moved(&stage, from, to);
            events.iter().for_each(|kind| tally.count(&stage, *kind, 1));
            writes.extend(membership(Some(&known.record), &record));
            writes.extend(tally.write());
            match self.table().await?.write(writes).await? {
                Written::Yes => {
                    self.counts.changed();
                    if !record.open && !record.unfinished.is_empty() {
                        // Boxed, because it may release other jobs by this very function.
                        Box::pin(self.delete_unfinished(&record, record.job.changed_at)).await?;
                    }
                    return Ok(Some((value, Versioned { record, version: known.version + 1 })));
                }
                Written::Lost(lost) => match lost.into_iter().find_map(|(_, item)| item) {
                    Some(item) => known = read_record(&item)?,
                    None => return Ok(None),
                },
            }
        }
        Err(storage(Retry::Safe, "the ledger's record of a job is being written by others; try again"))
    }

    /// Counts an event that changes no job.
    pub(super) async fn count(&self, stage: &Name, kind: Kind) {
        let mut tally = Tally::default();
        tally.count(stage, kind, 1);
        let Ok(table) = self.table().await else { return };
        if let Err(error) = table.write(tally.write().into_iter().collect()).await {
            tracing::debug!(%error, "an event could not be counted");
        }
        self.counts.changed();
    }
}
