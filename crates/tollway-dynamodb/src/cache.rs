//! The items as last seen, so that the steady state reads nothing. Bounded, and never trusted: see the crate's rules.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use crate::item::Item;

/// How large one generation of cached accounts may grow; there are two. Some ten thousand accounts of one limit.
const GENERATION_BYTES_MAX: usize = 8 << 20;

/// The approximate overhead of a cached account.
const ENTRY_BYTES: usize = 400;

/// The last known state of an item.
#[derive(Clone, Debug)]
pub(crate) struct CachedItem {
    /// The item; none if there was none.
    pub(crate) item: Option<Arc<Item>>,
    /// When the request was sent whose reply showed it: the item had this state then or later.
    pub(crate) as_of: Instant,
    /// When this process last lost a race for it.
    pub(crate) lost_at: Option<Instant>,
}

impl CachedItem {
    pub(crate) fn new(item: Option<Arc<Item>>, as_of: Instant) -> Self {
        Self { item, as_of, lost_at: None }
    }

    /// Zero where there is no item.
    pub(crate) fn version(&self) -> u64 {
        self.item.as_ref().map_or(0, |item| item.version)
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

    /// Remembers what was learned, unless something later is known.
    pub(crate) fn learn(&self, key: &str, learned: CachedItem) {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = accounts.young.get(key).or_else(|| accounts.old.get(key));
        let lost_at = known.and_then(|known| known.lost_at).max(learned.lost_at);
        // A smaller version is an older one, or of an item that was deleted and created again.
        if known.is_none_or(|known| learned.version() >= known.version() || learned.as_of > known.as_of) {
            accounts.insert(key, CachedItem { lost_at, ..learned });
        }
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
