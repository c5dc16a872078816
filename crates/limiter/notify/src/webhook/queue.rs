//! Events that wait to be sent: merged, bounded, and held back so that a storm is told as one. The last state of an alarm is
//! always sent, and after earlier ones.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::webhook::event::Event;

/// How many groups are remembered as sent. One that was forgotten is sent a little earlier.
const SENT_MAX: usize = 256;

/// The events of one webhook.
pub(crate) struct EventQueue {
    state: Mutex<State>,
    /// Something was sent or dropped.
    done: Condvar,
    /// An event arrived, or the queue is flushed or closed.
    arrived: Notify,
    dropped: AtomicU64,
    limits: QueueLimits,
}

/// How long events are held back, and how many wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLimits {
    pub(crate) merge_for: Duration,
    pub(crate) repeat_after: Duration,
    pub(crate) waiting_max: usize,
}

/// The outcome of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    Yes,
    /// The receiver refused it.
    Rejected,
    /// All tries failed.
    GivenUp,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// When each group was last sent, the oldest first.
    sent: VecDeque<(String, Instant)>,
    is_sending: bool,
    /// How many callers wait until the queue is empty: nothing is held back meanwhile.
    flushes: usize,
    is_closed: bool,
}

struct Waiting {
    event: Event,
    due: Instant,
}

impl EventQueue {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        let (state, done, arrived, dropped) = Default::default();
        Self { state, done, arrived, dropped, limits }
    }

    /// Adds an event to one like it that waits, or to the end. If there is no room, it is dropped; a state of an alarm takes
    /// the place of the oldest event that is none.
    pub(crate) fn push(&self, event: Event) {
        let mut state = self.state();
        if state.merge(&event) {
            return;
        }
        if state.waiting.len() >= self.limits.waiting_max {
            let other = state.waiting.iter().position(|waiting| !waiting.event.is_state());
            match other.filter(|_| event.is_state()).and_then(|at| state.waiting.remove(at)) {
                Some(other) => self.drop_event(&other.event),
                None => return self.drop_event(&event),
            }
        }
        self.add(&mut state, event);
    }

    fn add(&self, state: &mut State, event: Event) {
        let now = Instant::now();
        let sent = state.sent.iter().find(|(group, _)| *group == event.group).map(|(_, at)| *at);
        let repeat = sent.map_or(now, |at| at + self.limits.repeat_after);
        state.waiting.push_back(Waiting { event, due: repeat.max(now + self.limits.merge_for) });
        self.arrived.notify_one();
    }

    /// The next event when it is due; none once the queue is closed and empty. Call [`EventQueue::done`] after each.
    pub(crate) async fn next(&self) -> Option<Event> {
        loop {
            let due = {
                let mut state = self.state();
                let at_once = state.flushes > 0 || state.is_closed;
                let first = state.waiting.iter().enumerate().min_by_key(|(_, waiting)| waiting.due);
                match first.map(|(index, waiting)| (index, waiting.due)) {
                    Some((index, due)) if at_once || due <= Instant::now() => {
                        let event = state.waiting.remove(index)?.event;
                        state.is_sending = true;
                        return Some(event);
                    }
                    None if state.is_closed => return None,
                    first => first.map(|(_, due)| due),
                }
            };
            match due {
                Some(due) => drop(tokio::time::timeout_at(due, self.arrived.notified()).await),
                None => self.arrived.notified().await,
            }
        }
    }

    /// The event was delivered, or it was given up. A state that was given up waits once more, unless a newer one waits or the
    /// program ends.
    pub(crate) fn done(&self, event: Event, outcome: Delivered) {
        let mut state = self.state();
        state.is_sending = false;
        state.sent.retain(|(group, _)| *group != event.group);
        if state.sent.len() >= SENT_MAX {
            state.sent.pop_front();
        }
        state.sent.push_back((event.group.clone(), Instant::now()));
        let has_newer = state.waiting.iter().any(|waiting| waiting.event.group == event.group);
        let is_ending = state.is_closed || state.flushes > 0;
        match outcome {
            Delivered::Yes => {}
            Delivered::GivenUp if event.is_state() && !has_newer && !is_ending => self.add(&mut state, event),
            Delivered::GivenUp | Delivered::Rejected => self.drop_event(&event),
        }
        self.done.notify_all();
    }

    /// Waits until nothing is left, at most this long; nothing is held back meanwhile.
    pub(crate) fn flush(&self, within: Duration) -> bool {
        let mut state = self.state();
        if within.is_zero() {
            return !state.is_busy();
        }
        state.flushes += 1;
        self.arrived.notify_one();
        let waited = self.done.wait_timeout_while(state, within, |state| state.is_busy());
        let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        state.flushes -= 1;
        !timeout.timed_out()
    }

    /// Nothing more will come; what waits is sent at once, each with a single attempt.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.arrived.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn drop_event(&self, event: &Event) {
        self.dropped.fetch_add(event.count, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds an event to one like it that waits, if there is one. That one is then sent after all others of its group, because
    /// the last one counts: of `alarm over, alarm, alarm over`, the alarm is sent first.
    fn merge(&mut self, event: &Event) -> bool {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.event.is_like(event)) else {
            return false;
        };
        let Some(mut like) = self.waiting.remove(at) else { return false };
        like.event.merge(event);
        let others = self.waiting.iter().skip(at).filter(|waiting| waiting.event.group == event.group);
        match others.map(|waiting| waiting.due).max() {
            Some(due) => {
                like.due = like.due.max(due);
                self.waiting.push_back(like);
            }
            None => self.waiting.insert(at, like),
        }
        true
    }

    fn is_busy(&self) -> bool {
        self.is_sending || !self.waiting.is_empty()
    }
}
