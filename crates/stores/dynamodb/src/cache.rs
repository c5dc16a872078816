//! The items as last seen, so that the steady state reads nothing. Bounded, and never trusted: see the crate's rules.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::item::Item;

/// How large one generation of cached accounts may grow; there are two. Some ten thousand accounts of one limit.
const GENERATION_BYTES_MAX: usize = 8 << 20;

/// The approximate overhead of a cached account.
const ENTRY_BYTES: usize = 400;

/// A read costs about a fifth of a failed write, so it pays once another process has written with a chance of one in five:
/// at the latest after a quarter of the time in which other processes write once.
const READ_PAYS_AFTER: u32 = 4;

/// An item is contended if other processes write it once within this many writes' duration.
const CONTENDED_WRITES: u32 = 4;

/// For how long a lost race or a state shows that its item is contended.
const CONTENDED_FOR: Duration = Duration::from_millis(200);

/// The last known state of an item.
#[derive(Clone, Debug)]
pub(crate) struct CachedItem {
    /// The item; none if there was none.
    pub(crate) item: Option<Arc<Item>>,
    /// When the request was sent whose reply showed it: the item had this state then or later.
    pub(crate) as_of: Instant,
    /// When this process last lost a race for it.
    pub(crate) lost_at: Option<Instant>,
    /// The time in which other processes write it once, as the versions show; none if none was seen to write.
    others_write_every: Option<Duration>,
}

impl CachedItem {
    pub(crate) fn new(item: Option<Arc<Item>>, as_of: Instant) -> Self {
        Self { item, as_of, lost_at: None, others_write_every: None }
    }

    /// Zero where there is no item.
    pub(crate) fn version(&self) -> u64 {
        self.item.as_ref().map_or(0, |item| item.version)
    }

    /// Whether another process has probably written since, so that a write would fail.
    pub(crate) fn is_probably_stale(&self) -> bool {
        self.others_write_every.is_some_and(|every| self.as_of.elapsed() * READ_PAYS_AFTER > every)
    }

    /// Whether other processes keep writing it, one soon after the other; a write lasts this long.
    pub(crate) fn is_contended(&self, write: Duration) -> bool {
        let dense = self.others_write_every.is_some_and(|every| every <= write * CONTENDED_WRITES);
        let seen_at = if dense { self.lost_at.max(Some(self.as_of)) } else { self.lost_at };
        seen_at.is_some_and(|at| at.elapsed() < CONTENDED_FOR)
    }

    /// The interval of other processes' writes, updated by a later state to which this process contributed `own` writes.
    /// Versions count the writes.
    fn others_write_every(&self, later: &Self, own: u64) -> Option<Duration> {
        let elapsed = later.as_of.saturating_duration_since(self.as_of);
        let writes = later.version().saturating_sub(self.version()).saturating_sub(own);
        // An item that is new or created again starts at another version: its difference says nothing.
        let comparable = self.item.is_some() && u128::from(writes) <= elapsed.as_micros();
        match u32::try_from(writes) {
            Ok(0) => self.others_write_every.map(|every| every.saturating_add(elapsed)),
            Ok(writes) if comparable => Some(elapsed / writes),
            _ => None,
        }
    }

    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.item.as_ref().map_or(0, |item| item.bytes)
    }
}

/// Accounts by their keys. Two generations: when the young one is full, the old one is dropped.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<String, CachedItem>,
    old: HashMap<String, CachedItem>,
    young_bytes: usize,
}

impl Cache {
    pub(crate) fn get(&self, key: &str) -> Option<CachedItem> {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = accounts.young.get(key) {
            return Some(known.clone());
        }
        let known = accounts.old.remove(key)?;
        accounts.insert(key, known.clone());
        Some(known)
    }

    /// Remembers what a reply showed, unless something later is known. Returns it with what it shows of other processes.
    pub(crate) fn learn(&self, key: &str, learned: CachedItem) -> CachedItem {
        self.keep(key, learned, 0)
    }

    /// Remembers what this process wrote.
    pub(crate) fn wrote(&self, key: &str, written: CachedItem) {
        self.keep(key, written, 1);
    }

    fn keep(&self, key: &str, mut learned: CachedItem, own_writes: u64) -> CachedItem {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = accounts.young.get(key).or_else(|| accounts.old.get(key));
        learned.lost_at = known.and_then(|known| known.lost_at).max(learned.lost_at);
        learned.others_write_every = known.and_then(|known| known.others_write_every(&learned, own_writes));
        // A smaller version is an older one, or of an item that was deleted and created again.
        if known.is_none_or(|known| learned.version() >= known.version() || learned.as_of > known.as_of) {
            accounts.insert(key, learned.clone());
        }
        learned
    }
}

impl Generations {
    fn insert(&mut self, key: &str, known: CachedItem) {
        if self.young_bytes >= GENERATION_BYTES_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.old.remove(key);
        self.young_bytes += known.bytes();
        if let Some(replaced) = self.young.insert(key.to_owned(), known) {
            self.young_bytes = self.young_bytes.saturating_sub(replaced.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollway_core::Account;

    use super::*;
    use crate::writers::Writers;

    fn known(version: u64, as_of: Instant, bytes: usize) -> CachedItem {
        let item = Item { account: Account::default(), version, writers: Writers::default(), bytes };
        CachedItem::new(Some(Arc::new(item)), as_of)
    }

    #[test]
    fn older_state_does_not_replace_newer() {
        let (cache, now) = (Cache::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        cache.learn("k", known(7, later, 0));
        cache.learn("k", known(6, now, 0));
        assert_eq!(cache.get("k").unwrap().version(), 7);
        cache.learn("k", known(8, now, 0));
        assert_eq!(cache.get("k").unwrap().version(), 8);
        cache.learn("k", CachedItem::new(None, later + Duration::from_secs(1)));
        assert_eq!(cache.get("k").unwrap().version(), 0, "deleted since");
    }

    #[test]
    fn state_is_probably_stale_once_others_have_probably_written() {
        let long_ago = |seconds: u64| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        let is_stale = |cache: &Cache| cache.get("k").unwrap().is_probably_stale();
        let cache = Cache::default();
        cache.learn("k", known(1, long_ago(100), 0));
        assert!(!is_stale(&cache), "no other process was seen to write");
        cache.wrote("k", known(2, long_ago(90), 0));
        assert!(!is_stale(&cache));
        cache.learn("k", known(5, long_ago(60), 0));
        assert!(is_stale(&cache), "another process writes every ten seconds");
        cache.wrote("k", known(6, long_ago(2), 0));
        assert!(!is_stale(&cache), "none has written for a minute");
    }

    #[test]
    fn item_is_contended_while_others_write_in_close_succession() {
        let (cache, write) = (Cache::default(), Duration::from_millis(5));
        let ago = |millis: u64| Instant::now().checked_sub(Duration::from_millis(millis)).unwrap();
        cache.learn("k", known(1, ago(5_000), 0));
        let sparse = cache.learn("k", known(9, ago(1_000), 0));
        assert!(!sparse.is_contended(write), "every 500 ms");
        let dense = cache.learn("k", known(109, ago(0), 0));
        assert!(dense.is_contended(write) && !dense.is_contended(write / 5), "every 10 ms");
        cache.learn("j", known(1, ago(2_000), 0));
        let old = cache.learn("j", known(101, ago(1_000), 0));
        assert!(!old.is_contended(write), "a second ago");
    }

    #[test]
    fn recreated_item_does_not_count_as_written_often() {
        let (cache, now) = (Cache::default(), Instant::now());
        let before = now.checked_sub(Duration::from_secs(1)).unwrap();
        cache.learn("k", known(7, before, 0));
        cache.learn("k", known(1_767_268_800_000_000, now, 0));
        assert_eq!(cache.get("k").unwrap().others_write_every, None);
        cache.learn("j", CachedItem::new(None, before));
        cache.wrote("j", known(1_767_268_800_000_000, now, 0));
        assert_eq!(cache.get("j").unwrap().others_write_every, None);
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_recently_used_entries() {
        let (cache, now) = (Cache::default(), Instant::now());
        let bytes = GENERATION_BYTES_MAX / 8;
        for number in 0..100 {
            cache.learn(&number.to_string(), known(1, now, bytes));
            assert!(cache.get("0").is_some(), "it is used again and again");
        }
        let accounts = cache.0.lock().unwrap();
        assert!(accounts.young.len() + accounts.old.len() <= 18);
    }
}
