//! Accounts as this process last read them, for a primary that may have forgotten the last writes: see `script/recall.lua`.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollway_core::AccountKey;

use crate::pack::Packed;
use crate::primary::Primary;

/// How many accounts are kept: those that were used last.
const COPIES_MAX: usize = 20_000;

/// An account as a primary wrote it.
#[derive(Clone, Debug)]
struct Copy {
    primary: Primary,
    bytes: Vec<u8>,
}

/// The accounts that this process used last.
#[derive(Debug, Default)]
pub(crate) struct Copies(Mutex<Generations>);

/// Two maps, so that accounts that are not used any more are dropped together: the older map goes when the newer is full.
#[derive(Debug, Default)]
struct Generations {
    newer: HashMap<AccountKey, Copy>,
    older: HashMap<AccountKey, Copy>,
    last: Option<Primary>,
    has_changed: bool,
}

/// What a command says to its primary about the time before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recalled {
    pub(crate) primary: Primary,
    /// Accounts by their index, and what an earlier primary wrote of them.
    pub(crate) accounts: Vec<(usize, Vec<u8>)>,
}

impl Copies {
    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to say about these accounts; nothing as long as the primary is the first.
    pub(crate) fn recall(&self, primary: Primary, accounts: &[AccountKey]) -> Option<Recalled> {
        let mut copies = self.lock();
        copies.has_changed |= copies.last.is_some_and(|last| last != primary);
        copies.last = Some(primary);
        copies.has_changed.then(|| {
            let read_before = |(index, key)| {
                let copy = copies.get(key).filter(|copy| copy.primary != primary)?;
                Some((index, copy.bytes.clone()))
            };
            Recalled { primary, accounts: accounts.iter().enumerate().filter_map(read_before).collect() }
        })
    }

    /// Learns what a primary wrote: `{place, value, ...}`, where the place of the first account is 2.
    pub(crate) fn learn(&self, primary: Primary, accounts: &[AccountKey], written: &[u8]) {
        let Some(written) = Packed::read(written) else { return };
        let mut copies = self.lock();
        for pair in written.list().unwrap_or_default().chunks_exact(2) {
            let [place, value] = pair else { continue };
            let index = place.number().and_then(|place| usize::try_from(place.checked_sub(2)?).ok());
            if let (Some(key), Some(bytes)) = (index.and_then(|index| accounts.get(index)), value.text()) {
                copies.put(key, Copy { primary, bytes: bytes.to_vec() });
            }
        }
    }
}

impl Generations {
    fn get(&self, key: &AccountKey) -> Option<&Copy> {
        self.newer.get(key).or_else(|| self.older.get(key))
    }

    fn put(&mut self, key: &AccountKey, copy: Copy) {
        if let Some(known) = self.newer.get_mut(key) {
            *known = copy;
            return;
        }
        if self.newer.len() >= COPIES_MAX / 2 {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key.clone(), copy);
    }
}
