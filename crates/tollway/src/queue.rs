//! The queue in process, for takes that cannot be booked ahead: several policies, `sliding`, `concurrency`.
//!
//! The store has no place in line for them, so whoever came first in this process asks first, and the others wait for
//! their turn without asking at all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Turn, Notify};
use tollway_core::LineKey;

use crate::bound::Ask;

/// The queues that somebody stands in, by the line of the take's first party.
#[derive(Default)]
pub(crate) struct Queues {
    waiting: Arc<Mutex<HashMap<LineKey, Arc<Queue>>>>,
}

#[derive(Default)]
pub(crate) struct Queue {
    /// Held by whoever's turn it is; fair, in order of arrival.
    pub(crate) turn: Turn<()>,
    /// Told when something came back.
    pub(crate) freed: Notify,
}

/// A place in a queue; the queue goes with the last one who leaves it.
pub(crate) struct Place {
    waiting: Arc<Mutex<HashMap<LineKey, Arc<Queue>>>>,
    key: LineKey,
    pub(crate) queue: Arc<Queue>,
}

impl Queues {
    pub(crate) fn join(&self, first: &Ask) -> Place {
        let key = line_key(first);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = Arc::clone(waiting.entry(key.clone()).or_default());
        Place { waiting: Arc::clone(&self.waiting), key, queue }
    }

    /// Something of these lines came back: whoever's turn it is should ask again.
    pub(crate) fn notify(&self, asks: &[Ask]) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_empty() {
            return;
        }
        for queue in asks.iter().filter_map(|ask| waiting.get(&line_key(ask))) {
            queue.freed.notify_one();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's and ours: nobody else stands here.
        if Arc::strong_count(&self.queue) <= 2 {
            waiting.remove(&self.key);
        }
    }
}

fn line_key(ask: &Ask) -> LineKey {
    LineKey { policy: ask.bound.policy.name().clone(), subject: ask.subject.clone() }
}
