//! Calls of this process that wait for a place: the most urgent first, then in order of arrival.
//!
//! A place in the store's queue cannot be exchanged for another one. So a process books only its next calls, at most a
//! second ahead, and keeps the others here, where an urgent call overtakes them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// The most calls of one api that wait in a process; each is a future of a few kilobytes.
const WAITING_MAX: usize = 65_536;

/// Calls that book at the same time while nothing has to wait: the store is far away, and its answers overlap.
const BOOKING_MAX: usize = 8;

/// How far ahead a process books.
pub(crate) const BOOKED_AHEAD: Duration = Duration::from_secs(1);

/// Which calls of a process go first when several wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Work that can wait: it may wait as long as there are others.
    Low,
    /// Most calls.
    #[default]
    Normal,
    /// A person waits for the answer.
    High,
}

/// The queue of one api in this process.
#[derive(Debug)]
pub(crate) struct Gate(Mutex<Queue>);

#[derive(Debug)]
struct Queue {
    waiting: BTreeMap<(Reverse<Priority>, u64), oneshot::Sender<Turn>>,
    arrivals: u64,
    /// Turns that are held, and how many there may be.
    held: usize,
    allowed: usize,
}

/// The right to book. Dropping it passes it on.
#[derive(Debug)]
pub(crate) struct Turn(Option<Arc<Gate>>);

/// The queue is full.
#[derive(Debug)]
pub(crate) struct GateFull;

/// A place in the queue; dropping it leaves the queue.
struct Waiting<'g> {
    gate: &'g Gate,
    key: (Reverse<Priority>, u64),
}

impl Default for Gate {
    fn default() -> Self {
        Self(Mutex::new(Queue { waiting: BTreeMap::new(), arrivals: 0, held: 0, allowed: 1 }))
    }
}

impl Gate {
    /// Waits for the right to book.
    pub(crate) async fn turn(self: &Arc<Self>, priority: Priority) -> Result<Turn, GateFull> {
        let (waiting, turn) = {
            let mut queue = self.lock();
            if queue.held < queue.allowed && queue.waiting.is_empty() {
                queue.held += 1;
                return Ok(Turn(Some(Arc::clone(self))));
            }
            if queue.waiting.len() >= WAITING_MAX {
                return Err(GateFull);
            }
            let key = (Reverse(priority), queue.arrivals);
            queue.arrivals += 1;
            let (sender, turn) = oneshot::channel();
            queue.waiting.insert(key, sender);
            (Waiting { gate: self, key }, turn)
        };
        let turn = turn.await.map_err(|_| GateFull);
        drop(waiting);
        turn
    }

    /// How many calls wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// How many calls wait or book before a new one of this priority.
    pub(crate) fn ahead_of(&self, priority: Priority) -> usize {
        let queue = self.lock();
        // Turns that are held together need not wait.
        let booking = if queue.allowed == 1 { queue.held } else { 0 };
        booking.saturating_add(queue.waiting.range(..=(Reverse(priority), u64::MAX)).count())
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(self: &Arc<Self>, queue: &mut Queue) {
        while queue.held < queue.allowed
            && let Some((_, sender)) = queue.waiting.pop_first()
        {
            match sender.send(Turn(Some(Arc::clone(self)))) {
                Ok(()) => queue.held += 1,
                // Its caller has left. Dropping the turn as it is would lock the queue again.
                Err(mut turn) => turn.0 = None,
            }
        }
    }
}

impl Turn {
    /// What came of it: calls that need not wait may book side by side, others one after the other.
    pub(crate) fn booked(&self, delay: Duration) {
        if let Some(gate) = &self.0 {
            let mut queue = gate.lock();
            queue.allowed = if delay.is_zero() { BOOKING_MAX } else { 1 };
            gate.wake(&mut queue);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(gate) = self.0.take() {
            let mut queue = gate.lock();
            queue.held = queue.held.saturating_sub(1);
            gate.wake(&mut queue);
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.gate.lock().waiting.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn started(gate: &Arc<Gate>, priority: Priority, log: &Arc<Mutex<Vec<Priority>>>) {
        let (gate, log, before) = (Arc::clone(gate), Arc::clone(log), gate.waiting());
        let seen = Arc::clone(&gate);
        tokio::spawn(async move {
            let turn = gate.turn(priority).await.unwrap();
            turn.booked(Duration::from_secs(1));
            log.lock().unwrap().push(priority);
        });
        while seen.waiting() == before {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn urgent_calls_overtake_and_equal_ones_keep_their_order() {
        let (gate, log) = (Arc::new(Gate::default()), Arc::default());
        let first = gate.turn(Priority::Low).await.unwrap();
        for priority in [Priority::Low, Priority::Normal, Priority::High, Priority::Normal] {
            started(&gate, priority, &log).await;
        }
        drop(first);
        while log.lock().unwrap().len() < 4 {
            tokio::task::yield_now().await;
        }
        let expected = [Priority::High, Priority::Normal, Priority::Normal, Priority::Low];
        assert_eq!(*log.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn a_call_that_leaves_passes_its_turn_on() {
        let gate = Arc::new(Gate::default());
        let first = gate.turn(Priority::Normal).await.unwrap();
        let mut left = Box::pin(gate.turn(Priority::High));
        assert!(futures_poll(&mut left).await);
        let stays = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.turn(Priority::Low).await.is_ok() }
        });
        while gate.waiting() < 2 {
            tokio::task::yield_now().await;
        }
        drop(left);
        drop(first);
        assert!(stays.await.unwrap());
        assert_eq!(gate.waiting(), 0);
    }

    /// Polls once; true if it is pending.
    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
        })
        .await
    }

    #[tokio::test]
    async fn calls_that_need_not_wait_book_side_by_side() {
        let gate = Arc::new(Gate::default());
        let first = gate.turn(Priority::Normal).await.unwrap();
        first.booked(Duration::ZERO);
        let second = gate.turn(Priority::Normal).await.unwrap();
        second.booked(Duration::from_millis(1));
        drop((first, second));
        let only = gate.turn(Priority::Normal).await.unwrap();
        assert!(futures_poll(&mut Box::pin(gate.turn(Priority::High))).await);
        drop(only);
    }
}
