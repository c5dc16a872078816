//! The optimistic write: decide on remembered states, write on condition that they still hold, and on a conflict decide again
//! on the state that won.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use tollway_core::{Fault, Outcomes, Retry, StoreError, Timestamp};
use tollway_remote::Call;

use crate::cache::CachedItem;
use crate::call_part::{CachedItems, CallPart, PartDecision};
use crate::counters::Effort;
use crate::item::{Attributes, Item};
use crate::link::DynamoLink;
use crate::table::{Change, Written};
use crate::write_attempts::WriteAttempts;

impl DynamoLink {
    /// Applies a part; answers once its outcome is certain.
    pub(crate) async fn apply_part(
        &self,
        call: &Call,
        part: &CallPart<'_>,
        attempts: &mut WriteAttempts,
    ) -> Result<Outcomes, StoreError> {
        let begun = Instant::now();
        let mut effort = Effort::new(&self.table.counters);
        let mut found = self.cached(part);
        let mut first_write = true;
        let mut contended = false;
        if attempts.is_unresolved() {
            effort.retried();
            found.remove(&part.tag);
        }
        while begun.elapsed() <= self.race_time {
            self.read_missing(part, &mut found).await?;
            let Some(tag) = found.get(&part.tag) else { break };
            if let Some(outcomes) = attempts.applied(tag, &self.writer)? {
                return Ok(outcomes);
            }
            // An attempt still in flight must find another version, whatever is decided now.
            let must_write = attempts.may_still_apply(tag);
            self.check_clock(&part.tag).await?;
            let now = self.clock.now();
            let decided = part.decide(&found, now);
            if decided.changed.is_empty() && !must_write {
                // An answer that writes nothing has no condition that proves the state.
                if drop_older(&mut found, begun) {
                    continue;
                }
                return Ok(decided.outcomes);
            }
            if std::mem::take(&mut first_write) && self.drop_probably_stale(part, &mut found).await {
                continue;
            }
            let sent = Instant::now();
            match self.write(call, part, &decided, &found, attempts, now).await? {
                Written::Yes => return Ok(decided.outcomes),
                Written::Lost(items) => {
                    contended = true;
                    effort.lost();
                    self.learn_winners(part, &mut found, items, begun, sent).await?;
                }
                Written::Conflict => {
                    contended = true;
                    tokio::time::sleep(self.contention.jitter()).await;
                }
            }
            effort.retried();
        }
        Err(if contended { others_were_faster() } else { too_slow() })
    }

    fn cached(&self, part: &CallPart<'_>) -> CachedItems {
        part.keys.iter().filter_map(|key| Some((key.clone(), self.cache.get(key)?))).collect()
    }

    /// Reads the items that are not cached.
    async fn read_missing(&self, part: &CallPart<'_>, found: &mut CachedItems) -> Result<(), StoreError> {
        let missing = part.keys.iter().filter(|key| !found.contains_key(*key));
        let reads = missing.map(|key| async move {
            let as_of = Instant::now();
            let attributes = self.table.read(key).await?;
            Ok((key, self.learn(key, attributes.as_ref(), as_of, None)?))
        });
        for read in join_all(reads).await {
            let (key, known) = read?;
            found.insert(key.clone(), known);
        }
        Ok(())
    }

    /// Caches the state of an item that a reply showed.
    fn learn(
        &self,
        key: &str,
        attributes: Option<&Attributes>,
        as_of: Instant,
        lost_at: Option<Instant>,
    ) -> Result<CachedItem, StoreError> {
        let item = attributes.map(Item::read).transpose()?.map(Arc::new);
        let mut known = CachedItem::new(item, as_of);
        known.lost_at = lost_at;
        Ok(self.cache.learn(key, known))
    }

    /// Writes the decision. The attempt is recorded before it is sent, and dropped if it certainly failed.
    async fn write(
        &self,
        call: &Call,
        part: &CallPart<'_>,
        decided: &PartDecision,
        found: &CachedItems,
        attempts: &mut WriteAttempts,
        now: Timestamp,
    ) -> Result<Written, StoreError> {
        let version = found.get(&part.tag).map_or(0, CachedItem::version);
        let attempt = attempts.begin(version, now, decided.outcomes.clone());
        let mut items = Vec::new();
        let mut changes = Vec::new();
        for key in &part.keys {
            let mut item = item_afterwards(key, part, decided, found, now);
            if let Some(item) = item.as_mut().filter(|_| *key == part.tag) {
                item.writers.note(&self.writer, call.sequence, attempt, now);
            }
            let attributes = item.as_mut().map(|item| item.write(key, now)).transpose();
            let attributes = attributes.inspect_err(|_| attempts.not_applied())?;
            let on_version = found.get(key).map_or(0, CachedItem::version);
            changes.push(Change { key: key.clone(), on_version, attributes });
            items.extend(item.map(|item| (key, Arc::new(item))));
        }
        let sent = Instant::now();
        let written = self.table.write(changes).await;
        match &written {
            Ok(Written::Yes) => {
                self.contention.note_write(sent.elapsed());
                items
                    .into_iter()
                    .for_each(|(key, item)| self.cache.wrote(key, CachedItem::new(Some(item), sent)));
            }
            Err(error) if error.retry == Retry::Unclear => {}
            _ => attempts.not_applied(),
        }
        written
    }

    /// After a failed condition: takes over the states that won. Waits for this writer's turn if other processes write right
    /// now: they overtook a state that this call had learned, or keep writing. Otherwise the cached state was only out of date.
    async fn learn_winners(
        &self,
        part: &CallPart<'_>,
        found: &mut CachedItems,
        items: Vec<(String, Option<Attributes>)>,
        begun: Instant,
        sent: Instant,
    ) -> Result<(), StoreError> {
        let mut contended = false;
        for (key, attributes) in items {
            let raced = found.get(&key).is_some_and(|known| known.as_of >= begun);
            let known = self.learn(&key, attributes.as_ref(), sent, raced.then(Instant::now))?;
            contended |= known.is_contended(self.contention.write());
            found.insert(key, known);
        }
        if contended {
            self.wait_for_turn(part, found).await;
        }
        Ok(())
    }

    /// Before the first write of a call: drops the states on which it would probably fail, so that they are read. Returns
    /// whether there were any.
    async fn drop_probably_stale(&self, part: &CallPart<'_>, found: &mut CachedItems) -> bool {
        let contended = found.get(&part.tag).is_some_and(|tag| tag.is_contended(self.contention.write()));
        if contended && self.wait_for_turn(part, found).await {
            return true;
        }
        let before = found.len();
        found.retain(|_, known| !known.is_probably_stale());
        found.len() < before
    }

    /// Waits for this writer's turn; returns whether it had to. The state is old then, and dropped.
    async fn wait_for_turn(&self, part: &CallPart<'_>, found: &mut CachedItems) -> bool {
        let writers = found.get(&part.tag).and_then(|known| known.item.as_ref()).map(|item| &item.writers);
        let wait =
            writers.map_or(Duration::ZERO, |writers| self.contention.turn_after(writers, &self.writer));
        if wait.is_zero() {
            return false;
        }
        tokio::time::sleep(wait).await;
        found.remove(&part.tag);
        true
    }

    /// A clock that is off decides nothing. Every reply shows the time, so a read tells whether it was set right since.
    async fn check_clock(&self, key: &str) -> Result<(), StoreError> {
        let Some(check) = self.check.as_ref().filter(|check| check.off().is_some()) else { return Ok(()) };
        self.table.read(key).await?;
        match check.off() {
            None => Ok(()),
            Some(off) => {
                Err(StoreError { fault: Fault::Store, retry: Retry::Safe, message: off.to_string() })
            }
        }
    }
}

/// The item after the write; none if it stays as it is. The version of the tag's item always moves on.
fn item_afterwards(
    key: &str,
    part: &CallPart<'_>,
    decided: &PartDecision,
    found: &CachedItems,
    now: Timestamp,
) -> Option<Item> {
    let known = found.get(key).and_then(|known| known.item.as_deref());
    let as_it_is = || (key == part.tag).then(|| known.map(|item| item.account.clone()).unwrap_or_default());
    Some(Item {
        account: decided.changed.get(key).cloned().or_else(as_it_is)?,
        version: known.map_or(now.as_micros().max(1), |item| item.version + 1),
        writers: known.map(|item| item.writers.clone()).unwrap_or_default(),
        bytes: 0,
    })
}

/// Drops states older than this; returns whether there were any.
fn drop_older(found: &mut CachedItems, than: Instant) -> bool {
    let before = found.len();
    found.retain(|_, known| known.as_of >= than);
    found.len() < before
}

/// Contention: the table works, and other processes use the account.
fn others_were_faster() -> StoreError {
    let message = "DynamoDB: others were faster each time; lease units (`lease = \"on\"`) where so many share a subject";
    StoreError { fault: Fault::Account, retry: Retry::Safe, message: message.to_owned() }
}

fn too_slow() -> StoreError {
    let message = "DynamoDB answers too slowly to decide in time".to_owned();
    StoreError { fault: Fault::Network, retry: Retry::Safe, message }
}
