//! Caches the limits in force for each consumer, so that most calls read no records.
//!
//! An entry is valid for its hour and for the generation of the records at its read. Every change, by any process,
//! increments the generation, so a hit only compares two numbers.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::FutureExt;
use futures_util::future::Shared;
use tokio::sync::watch;
use tollway_core::Timestamp;

use crate::active::Active;
use crate::amounts::Amounts;
use crate::consumer_id::ConsumerId;
use crate::hour::Hour;
use crate::records::{Generation, Records, RecordsError, RecordsFault};

/// The most consumers in the cache. An entry takes a few hundred bytes, plus 16 for each record.
pub const CACHED_CONSUMERS_MAX: usize = 65_536;

/// Separately locked shards, to reduce contention. A power of two.
const SHARDS: usize = 64;

const PER_SHARD_MAX: usize = CACHED_CONSUMERS_MAX / SHARDS;

/// The limits in force for each consumer; reads the records only on a miss.
pub struct ActiveCache(Arc<Inner>);

struct Inner {
    records: Arc<dyn Records>,
    changes: watch::Receiver<Generation>,
    defaults: Amounts,
    shards: Vec<Mutex<Shard>>,
    hasher: foldhash::fast::RandomState,
    /// Whether the last read failed. A lasting failure is logged once, not on every call.
    failing: AtomicBool,
    /// The last hour with too many lookups. Overload comes and goes with every call, so it is logged once an hour.
    overloaded: Mutex<Option<Hour>>,
}

type Shard = HashMap<ConsumerId, Entry, foldhash::fast::RandomState>;

#[derive(Default)]
struct Entry {
    /// The last read and its generation; no generation if it was read under other defaults.
    known: Option<(Option<u64>, Arc<Active>)>,
    /// A read in flight: other callers for the same consumer wait for it.
    reading: Option<(u64, Hour, Read)>,
}

type ReadResult = Result<Arc<Active>, RecordsError>;

/// All waiting callers poll it, so the read continues when one of them is cancelled.
type Read = Shared<Pin<Box<dyn Future<Output = ReadResult> + Send>>>;

impl ActiveCache {
    /// A cache over these records. The defaults apply to a consumer without a record for the hour.
    pub fn new(records: Arc<dyn Records>, defaults: Amounts) -> Self {
        let changes = records.changes();
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (hasher, failing) = (foldhash::fast::RandomState::default(), AtomicBool::new(false));
        let overloaded = Mutex::default();
        Self(Arc::new(Inner { records, changes, defaults, shards, hasher, failing, overloaded }))
    }

    /// The same cache under other defaults. Changed defaults make every entry stale, but stale entries still serve while the
    /// records cannot be read.
    #[must_use]
    pub fn under(&self, defaults: Amounts) -> Self {
        if defaults == self.0.defaults {
            return Self(Arc::clone(&self.0));
        }
        let under = Self::new(Arc::clone(&self.0.records), defaults);
        for shard in &self.0.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (consumer, (_, active)) in
                shard.iter().filter_map(|(consumer, entry)| Some((consumer, entry.known.as_ref()?)))
            {
                let entry = Entry { known: Some((None, Arc::clone(active))), reading: None };
                let mut shard = under.0.shard(consumer);
                make_room(&mut shard, active.hour);
                shard.insert(consumer.clone(), entry);
            }
        }
        under
    }

    /// The limits in force for a consumer now. A hit is ready at the first poll and allocates nothing.
    ///
    /// If the records cannot be read, this returns the last known limits: `current` is false, and `hour` is the hour of that
    /// read.
    pub async fn active(&self, consumer: &ConsumerId, now: Timestamp) -> ReadResult {
        let hour = Hour::of(now);
        let generation = *self.0.changes.borrow();
        let read = match self.0.look_up(consumer, hour, generation) {
            Found::Known(active) => return Ok(active),
            Found::Reading(read) => read,
        };
        match read.await {
            Ok(active) => Ok(active),
            Err(error) => self.0.last_known(consumer, hour, error),
        }
    }
}

enum Found {
    Known(Arc<Active>),
    Reading(Read),
}

impl Inner {
    fn look_up(self: &Arc<Self>, consumer: &ConsumerId, hour: Hour, generation: Generation) -> Found {
        // Without change notifications a read in flight may already be stale, so every caller reads again.
        if !generation.followed {
            return Found::Reading(self.read(consumer, hour, generation.number));
        }
        let mut shard = self.shard(consumer);
        if let Some(entry) = shard.get(consumer.as_str()) {
            if let Some((number, active)) = &entry.known
                && (*number, active.hour) == (Some(generation.number), hour)
            {
                return Found::Known(Arc::clone(active));
            }
            if let Some((number, of, read)) = &entry.reading
                && (*number, *of) == (generation.number, hour)
            {
                return Found::Reading(read.clone());
            }
        } else {
            make_room(&mut shard, hour);
        }
        let read = self.read(consumer, hour, generation.number);
        shard.entry(consumer.clone()).or_default().reading = Some((generation.number, hour, read.clone()));
        Found::Reading(read)
    }

    /// Reads the records. The cache owns the read while it is in flight, so the read must not own the cache.
    fn read(self: &Arc<Self>, consumer: &ConsumerId, hour: Hour, number: u64) -> Read {
        let cache: Weak<Self> = Arc::downgrade(self);
        let (consumer, defaults) = (consumer.clone(), self.defaults);
        let answer = self.records.consumer(&consumer);
        let read = async move {
            let found = answer.await;
            let read =
                found.map(|found| Arc::new(Active::of(&found.records, hour, &defaults, found.blocked)));
            if let Some(cache) = cache.upgrade() {
                cache.keep(&consumer, number, hour, &read);
            }
            read
        };
        let read: Pin<Box<dyn Future<Output = ReadResult> + Send>> = Box::pin(read);
        read.shared()
    }

    fn keep(&self, consumer: &ConsumerId, number: u64, hour: Hour, read: &ReadResult) {
        self.tell_of(read.as_ref().err(), hour);
        let mut shard = self.shard(consumer);
        if !shard.contains_key(consumer.as_str()) {
            if read.is_err() {
                return;
            }
            make_room(&mut shard, hour);
        }
        let entry = shard.entry(consumer.clone()).or_default();
        entry.reading.take_if(|(of, at, _)| (*of, *at) == (number, hour));
        if let Ok(active) = read {
            let is_newer =
                |(of, known): &(Option<u64>, Arc<Active>)| (*of, known.hour) > (Some(number), hour);
            if !entry.known.as_ref().is_some_and(is_newer) {
                entry.known = Some((Some(number), Arc::clone(active)));
            }
        } else if entry.known.is_none() && entry.reading.is_none() {
            shard.remove(consumer.as_str());
        }
    }

    /// Logs the first failure, and the first success after it.
    fn tell_of(&self, error: Option<&RecordsError>, hour: Hour) {
        match error {
            Some(error) if error.fault == RecordsFault::Busy => {
                let mut overloaded = self.overloaded.lock().unwrap_or_else(PoisonError::into_inner);
                if overloaded.replace(hour) != Some(hour) {
                    tracing::warn!(%error, "more consumers are requested than can be looked up; this may be an attack");
                }
            }
            Some(error) if !self.failing.swap(true, Ordering::Relaxed) => {
                tracing::warn!(%error, "records cannot be read: using the last known limits of each consumer");
            }
            None if self.failing.swap(false, Ordering::Relaxed) => {
                tracing::info!("records can be read again")
            }
            _ => {}
        }
    }

    fn last_known(&self, consumer: &ConsumerId, hour: Hour, error: RecordsError) -> ReadResult {
        match self.shard(consumer).get(consumer.as_str()).and_then(|entry| entry.known.as_ref()) {
            Some((_, active)) if active.hour <= hour => {
                tracing::debug!(%consumer, %error, hour = %active.hour, "using the last known limits");
                Ok(Arc::new(Active { current: false, ..Active::clone(active) }))
            }
            _ => Err(error),
        }
    }

    fn shard(&self, consumer: &ConsumerId) -> MutexGuard<'_, Shard> {
        use std::hash::BuildHasher;
        // The low bits choose the shard; the map hashes with a seed of its own.
        let index = usize::try_from(self.hasher.hash_one(consumer.as_str()) % SHARDS as u64).unwrap_or(0);
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Evicts consumers without records, then entries of past hours, then any entry. So a client that invents names cannot evict
/// real consumers while there is room.
fn make_room(shard: &mut Shard, hour: Hour) {
    let is_of_this_hour = |active: &Active| active.hour >= hour;
    let is_somebody = |active: &Active| active.blocked || !active.considered.is_empty();
    let worth: [&dyn Fn(&Active) -> bool; 3] =
        [&|active| is_of_this_hour(active) || is_somebody(active), &is_somebody, &is_of_this_hour];
    for is_worth_it in worth {
        if shard.len() < PER_SHARD_MAX {
            return;
        }
        shard.retain(|_, entry| {
            entry.reading.is_some() || entry.known.as_ref().is_some_and(|(_, active)| is_worth_it(active))
        });
    }
    while shard.len() >= PER_SHARD_MAX {
        let Some(any) = shard.keys().next().cloned() else { return };
        shard.remove(any.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "2026-06-01-11";
    const NOW: &str = "2026-06-01-12";

    /// A full shard of (count, hour, has a record) groups.
    fn full(kinds: &[(usize, &str, bool)]) -> Shard {
        let kinds = kinds.iter().flat_map(|kind| std::iter::repeat_n(kind, kind.0));
        let entry = |(number, (_, hour, somebody)): (usize, &(usize, &str, bool))| {
            let active = Active::of(&[], hour.parse().unwrap(), &Amounts::NONE, *somebody);
            let entry = Entry { known: Some((Some(1), Arc::new(active))), reading: None };
            (ConsumerId::new(&format!("c{number}")).unwrap(), entry)
        };
        let shard: Shard = kinds.enumerate().map(entry).collect();
        assert_eq!(shard.len(), PER_SHARD_MAX);
        shard
    }

    /// C3: invented names evict no consumer that has records, in this hour or the one before.
    #[test]
    fn a_full_cache_evicts_consumers_without_records_then_old_hours_then_any() {
        const MANY: usize = PER_SHARD_MAX - 30;
        for (kinds, left) in [
            (&[(10, NOW, true), (10, OLD, true), (10, NOW, false), (MANY, OLD, false)][..], 30),
            (&[(10, NOW, true), (20, OLD, true), (MANY, NOW, false)], 30),
            (&[(10, NOW, true), (20, OLD, true), (MANY, OLD, true)], 10),
            (&[(30, NOW, true), (MANY, NOW, true)], PER_SHARD_MAX - 1),
        ] {
            let mut shard = full(kinds);
            for _ in 0..2 {
                make_room(&mut shard, NOW.parse().unwrap());
                assert_eq!(shard.len(), left, "{kinds:?}");
            }
        }
    }
}
