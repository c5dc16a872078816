//! The queue in process, for takes that cannot be booked ahead: several policies, `sliding`, `concurrency`.
//!
//! The store cannot queue them, so this process does: the first take in the queue retries, the others wait for their turn
//! without calling the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Turn, Notify};
use tollway_core::{AccountKey, Charge};

use crate::Denied;
use crate::take::bound_charges::BoundCharges;

/// The queues that are not empty.
pub(crate) struct Queues {
    waiting: Arc<Mutex<QueueTable>>,
    /// The most takes in all of them; each is a future of about a kilobyte. Further takes do not wait.
    takes_max: usize,
}

/// By the account of the take's first charge.
#[derive(Default)]
struct QueueTable {
    /// Takes under one policy.
    single: HashMap<AccountKey, Arc<Queue>>,
    /// Takes under several policies: they may wait for any of their accounts.
    several: HashMap<AccountKey, Arc<Queue>>,
    /// The number of takes in all queues.
    entry: usize,
}

impl QueueTable {
    fn queues(&mut self, several: bool) -> &mut HashMap<AccountKey, Arc<Queue>> {
        if several { &mut self.several } else { &mut self.single }
    }
}

#[derive(Default)]
pub(crate) struct Queue {
    /// Held by the take whose turn it is; fair, in order of arrival.
    pub(crate) turn: Turn<()>,
    /// Notified when units or slots are returned.
    pub(crate) freed: Notify,
    /// The last denial of the first take in the queue.
    denial: Mutex<Option<Denied>>,
}

impl Queue {
    pub(crate) fn note_denial(&self, denied: &Denied) {
        *self.denial.lock().unwrap_or_else(PoisonError::into_inner) = Some(denied.clone());
    }

    pub(crate) fn last_denial(&self) -> Option<Denied> {
        self.denial.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A take in a queue. The last entry to be dropped removes the queue.
pub(crate) struct QueueEntry {
    waiting: Arc<Mutex<QueueTable>>,
    key: AccountKey,
    several: bool,
    pub(crate) queue: Arc<Queue>,
}

impl Queues {
    pub(crate) fn new(takes_max: usize) -> Self {
        Self { waiting: Arc::default(), takes_max }
    }

    /// Whether no take waits for a turn.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).entry == 0
    }

    /// Joins the queue of the take's first account. None if the queues are full.
    pub(crate) fn join(&self, charges: &BoundCharges) -> Option<QueueEntry> {
        let (key, several) = (charges.first().0.key(), charges.charges().len() > 1);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.entry >= self.takes_max {
            return None;
        }
        waiting.entry += 1;
        let queue = Arc::clone(waiting.queues(several).entry(key.clone()).or_default());
        Some(QueueEntry { waiting: Arc::clone(&self.waiting), key, several, queue })
    }

    /// Units or slots of these accounts were returned: wakes the first take of each queue.
    pub(crate) fn notify(&self, charges: &[Charge]) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.single.is_empty() {
            let queues = charges.iter().filter_map(|charge| waiting.single.get(&charge.key()));
            queues.for_each(|queue| queue.freed.notify_one());
        }
        waiting.several.values().for_each(|queue| queue.freed.notify_one());
    }
}

impl Queues {
    /// The limits themselves have changed.
    pub(crate) fn notify_all(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.single.values().chain(waiting.several.values()).for_each(|queue| queue.freed.notify_one());
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.entry = waiting.entry.saturating_sub(1);
        // Two references are left, the map's and this one: the queue is empty.
        if Arc::strong_count(&self.queue) <= 2 {
            waiting.queues(self.several).remove(&self.key);
        }
    }
}
