//! The queue in process, for takes that cannot be booked ahead: several policies, `sliding`, `concurrency`.
//!
//! The store has no place in line for them, so whoever came first in this process asks first, and the others wait for
//! their turn without asking at all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Turn, Notify};
use tollway_core::{AccountKey, Charge};

use crate::Denied;
use crate::bound_charges::BoundCharges;

/// How many may stand in the queues of a limiter. Each is a future that somebody holds, of a kilobyte or so; one more is
/// answered at once, as if it would not wait.
const STANDING_MAX: usize = 65_536;

/// The queues that somebody stands in.
#[derive(Default)]
pub(crate) struct Queues {
    waiting: Arc<Mutex<Waiting>>,
}

/// By the account of the take's first charge.
#[derive(Default)]
struct Waiting {
    /// Takes under one policy.
    alone: HashMap<AccountKey, Arc<Queue>>,
    /// Takes under several: they may wait for any of their lines.
    together: HashMap<AccountKey, Arc<Queue>>,
    /// How many stand in all of them.
    standing: usize,
}

impl Waiting {
    fn queues(&mut self, several: bool) -> &mut HashMap<AccountKey, Arc<Queue>> {
        if several { &mut self.together } else { &mut self.alone }
    }
}

#[derive(Default)]
pub(crate) struct Queue {
    /// Held by whoever's turn it is; fair, in order of arrival.
    pub(crate) turn: Turn<()>,
    /// Told when something came back.
    pub(crate) freed: Notify,
    /// What the first one was last told.
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

/// Somebody who stands in a queue; the queue goes with the last one who leaves it.
pub(crate) struct InQueue {
    waiting: Arc<Mutex<Waiting>>,
    key: AccountKey,
    several: bool,
    pub(crate) queue: Arc<Queue>,
}

impl Queues {
    /// Nothing if there are too many already.
    pub(crate) fn join(&self, charges: &BoundCharges) -> Option<InQueue> {
        let (key, several) = (charges.first().0.key(), charges.charges().len() > 1);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.standing >= STANDING_MAX {
            return None;
        }
        waiting.standing += 1;
        let queue = Arc::clone(waiting.queues(several).entry(key.clone()).or_default());
        Some(InQueue { waiting: Arc::clone(&self.waiting), key, several, queue })
    }

    /// Something of these lines came back: whoever's turn it is should ask again.
    pub(crate) fn notify(&self, charges: &[Charge]) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.alone.is_empty() {
            let queues = charges.iter().filter_map(|charge| waiting.alone.get(&charge.key()));
            queues.for_each(|queue| queue.freed.notify_one());
        }
        waiting.together.values().for_each(|queue| queue.freed.notify_one());
    }
}

impl Queues {
    /// The limits themselves have changed.
    pub(crate) fn notify_all(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.alone.values().chain(waiting.together.values()).for_each(|queue| queue.freed.notify_one());
    }
}

impl Drop for InQueue {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.standing = waiting.standing.saturating_sub(1);
        // The map's and ours: nobody else stands here.
        if Arc::strong_count(&self.queue) <= 2 {
            waiting.queues(self.several).remove(&self.key);
        }
    }
}
