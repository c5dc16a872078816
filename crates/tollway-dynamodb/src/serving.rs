//! One chunk: found, decided and written, again and again until nobody came between.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use tollway_core::{Fault, Outcomes, Retry, StoreError, Timestamp};
use tollway_remote::Call;

use crate::cache::Known;
use crate::chunk::{Chunk, Decided, Found};
use crate::counters::Effort;
use crate::item::{Attributes, Item};
use crate::journey::Journey;
use crate::link::DynamoLink;
use crate::table::{Change, Written};
use crate::turn::CONTENDED_FOR;

impl DynamoLink {
    /// What comes of the chunk, when it is certain.
    pub(crate) async fn serve(
        &self,
        call: &Call,
        chunk: &Chunk<'_>,
        journey: &mut Journey,
    ) -> Result<Outcomes, StoreError> {
        let begun = Instant::now();
        let mut effort = Effort::new(&self.table.counters);
        let mut found = self.remembered(chunk);
        let mut contended = self.is_contended(chunk, &found);
        if journey.is_unclear() {
            effort.retried();
            found.remove(&chunk.tag);
        }
        while begun.elapsed() <= self.patience {
            self.read_missing(chunk, &mut found).await?;
            let Some(tag) = found.get(&chunk.tag) else { break };
            if let Some(outcomes) = journey.applied(tag, &self.writer)? {
                return Ok(outcomes);
            }
            // An attempt that may still come must find another version, whatever is decided now.
            let must_write = journey.may_come(tag);
            self.check_clock(&chunk.tag).await?;
            let now = self.clock.now();
            let decided = chunk.decide(&found, now);
            if decided.changed.is_empty() && !must_write {
                if drop_older(&mut found, self.must_be_known_since(&decided, begun)) {
                    continue;
                }
                return Ok(decided.outcomes);
            }
            if std::mem::take(&mut contended) && self.wait_for_turn(chunk, &mut found).await {
                continue;
            }
            let sent = Instant::now();
            match self.write(call, chunk, &decided, &found, journey, now).await? {
                Written::Yes => return Ok(decided.outcomes),
                Written::Lost(items) => {
                    effort.lost();
                    self.lost(chunk, &mut found, items, sent).await?;
                }
                Written::Conflict => tokio::time::sleep(self.turns.jitter()).await,
            }
            effort.retried();
        }
        Err(others_were_faster())
    }

    /// Outcomes that change nothing stand on what was known since then; see the crate's rules.
    fn must_be_known_since(&self, decided: &Decided, begun: Instant) -> Instant {
        let remembered = Instant::now().checked_sub(self.denials).filter(|_| decided.only_denials);
        remembered.map_or(begun, |remembered| remembered.min(begun))
    }

    fn remembered(&self, chunk: &Chunk<'_>) -> Found {
        chunk.keys.iter().filter_map(|key| Some((key.clone(), self.cache.get(key)?))).collect()
    }

    /// Reads the lines of which nothing is known.
    async fn read_missing(&self, chunk: &Chunk<'_>, found: &mut Found) -> Result<(), StoreError> {
        let missing = chunk.keys.iter().filter(|key| !found.contains_key(*key));
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

    /// Takes over what a reply said of an item.
    fn learn(
        &self,
        key: &str,
        attributes: Option<&Attributes>,
        as_of: Instant,
        lost_at: Option<Instant>,
    ) -> Result<Known, StoreError> {
        let item = attributes.map(Item::read).transpose()?.map(Arc::new);
        let known = Known { lost_at, ..Known::new(item, as_of) };
        self.cache.learn(key, known.clone());
        Ok(known)
    }

    /// Writes what was decided. The attempt is noted before it is sent, and forgotten if it certainly failed.
    async fn write(
        &self,
        call: &Call,
        chunk: &Chunk<'_>,
        decided: &Decided,
        found: &Found,
        journey: &mut Journey,
        now: Timestamp,
    ) -> Result<Written, StoreError> {
        let version = found.get(&chunk.tag).map_or(0, Known::version);
        let attempt = journey.attempt(version, now, decided.outcomes.clone());
        let mut items = Vec::new();
        let mut changes = Vec::new();
        for key in &chunk.keys {
            let mut item = item_afterwards(key, chunk, decided, found, now);
            if let Some(item) = item.as_mut().filter(|_| *key == chunk.tag) {
                item.writers.note(&self.writer, call.sequence, attempt, now);
            }
            let attributes = item.as_mut().map(|item| item.write(key, now)).transpose();
            let attributes = attributes.inspect_err(|_| journey.refused())?;
            let on_version = found.get(key).map_or(0, Known::version);
            changes.push(Change { key: key.clone(), on_version, attributes });
            items.extend(item.map(|item| (key, Arc::new(item))));
        }
        let sent = Instant::now();
        let written = self.table.write(changes).await;
        match &written {
            Ok(Written::Yes) => {
                self.turns.note_write(sent.elapsed());
                items.into_iter().for_each(|(key, item)| self.cache.learn(key, Known::new(Some(item), sent)));
            }
            Err(error) if error.retry == Retry::Unclear => {}
            _ => journey.refused(),
        }
        written
    }

    /// Takes over what won, and waits for this writer's turn.
    async fn lost(
        &self,
        chunk: &Chunk<'_>,
        found: &mut Found,
        items: Vec<(String, Option<Attributes>)>,
        sent: Instant,
    ) -> Result<(), StoreError> {
        for (key, attributes) in items {
            let known = self.learn(&key, attributes.as_ref(), sent, Some(Instant::now()))?;
            found.insert(key, known);
        }
        self.wait_for_turn(chunk, found).await;
        Ok(())
    }

    /// Where this process lost a race a moment ago, what it remembers is probably no longer so.
    fn is_contended(&self, chunk: &Chunk<'_>, found: &Found) -> bool {
        let lost_at = found.get(&chunk.tag).and_then(|known| known.lost_at);
        lost_at.is_some_and(|at| at.elapsed() < CONTENDED_FOR)
    }

    /// Waits for this writer's turn; says whether it had to. What was found of the line is old then, and dropped.
    async fn wait_for_turn(&self, chunk: &Chunk<'_>, found: &mut Found) -> bool {
        let writers = found.get(&chunk.tag).and_then(|known| known.item.as_ref()).map(|item| &item.writers);
        let wait = writers.map_or(Duration::ZERO, |writers| self.turns.wait(writers, &self.writer));
        if wait.is_zero() {
            return false;
        }
        tokio::time::sleep(wait).await;
        found.remove(&chunk.tag);
        true
    }

    /// A clock that is off decides nothing. Perhaps it was set right since: every reply tells.
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

/// What becomes of a line; none if it stays as it is. That of the tag never does: its version moves on.
fn item_afterwards(
    key: &str,
    chunk: &Chunk<'_>,
    decided: &Decided,
    found: &Found,
    now: Timestamp,
) -> Option<Item> {
    let known = found.get(key).and_then(|known| known.item.as_deref());
    let as_it_is = || (key == chunk.tag).then(|| known.map(|item| item.line.clone()).unwrap_or_default());
    Some(Item {
        line: decided.changed.get(key).cloned().or_else(as_it_is)?,
        version: known.map_or(now.as_micros().max(1), |item| item.version + 1),
        writers: known.map(|item| item.writers.clone()).unwrap_or_default(),
        bytes: 0,
    })
}

/// Drops what is known from before this; says whether anything was.
fn drop_older(found: &mut Found, than: Instant) -> bool {
    let before = found.len();
    found.retain(|_, known| known.as_of >= than);
    found.len() < before
}

fn others_were_faster() -> StoreError {
    let message = "DynamoDB: others were faster each time; lease units (`lease = \"on\"`) where so many share a subject";
    StoreError { fault: Fault::Store, retry: Retry::Safe, message: message.to_owned() }
}
