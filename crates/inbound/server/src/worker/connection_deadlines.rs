//! The deadlines of a connection: what the server waits for, and until when.
//!
//! There are no timers: the worker checks all connections a few times a second and cuts off overdue ones, so that deadlines
//! cost a request only a few memory writes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use crate::bounds::ClientTimeouts;

/// The time since the worker started, as of its last check.
#[derive(Default)]
pub(crate) struct CoarseClock(Cell<Duration>);

impl CoarseClock {
    pub(crate) fn get(&self) -> Duration {
        self.0.get()
    }

    pub(crate) fn set(&self, now: Duration) {
        self.0.set(now);
    }
}

/// No deadline.
const NEVER: Duration = Duration::MAX;

/// The deadlines of one connection.
pub(crate) struct ConnectionDeadlines {
    clock: Rc<CoarseClock>,
    timeouts: ClientTimeouts,
    /// When the client must have sent a request.
    due: Cell<Duration>,
    /// When it must have read some of its responses.
    write_due: Cell<Duration>,
    /// Requests in flight.
    requests: Cell<usize>,
    /// Whether no bytes have arrived since the last request.
    idle: Cell<bool>,
    /// Whether it is HTTP/2, where bytes need not belong to a request.
    streams: Cell<bool>,
    over: Cell<bool>,
    /// Since when no request is in flight.
    since: Cell<Duration>,
    task: RefCell<Option<Waker>>,
}

/// A request in flight; no read deadline applies until it is dropped.
pub(crate) struct Busy(Rc<ConnectionDeadlines>);

impl ConnectionDeadlines {
    pub(crate) fn new(clock: Rc<CoarseClock>, timeouts: ClientTimeouts) -> Self {
        let due = Cell::new(clock.0.get().saturating_add(timeouts.head));
        let since = Cell::new(clock.0.get());
        Self {
            clock,
            timeouts,
            due,
            write_due: Cell::new(NEVER),
            requests: Cell::new(0),
            idle: Cell::new(false),
            streams: Cell::new(false),
            over: Cell::new(false),
            since,
            task: RefCell::new(None),
        }
    }

    /// Bytes have arrived. On an idle HTTP/1 connection they begin a request, which must be complete in time.
    pub(crate) fn received(&self) {
        if self.idle.get() && !self.streams.get() {
            self.idle.set(false);
            self.due.set(self.within(self.timeouts.head));
        }
    }

    /// A request is in flight until the guard is dropped.
    pub(crate) fn begin(self: &Rc<Self>, streams: bool) -> Busy {
        self.streams.set(streams);
        self.requests.set(self.requests.get().saturating_add(1));
        self.due.set(NEVER);
        Busy(Rc::clone(self))
    }

    fn end(&self) {
        let requests = self.requests.get().saturating_sub(1);
        self.requests.set(requests);
        if requests == 0 {
            self.set_idle();
        }
    }

    /// The connection is idle from now on.
    pub(crate) fn set_idle(&self) {
        self.idle.set(true);
        self.since.set(self.clock.0.get());
        self.due.set(self.within(self.timeouts.idle));
    }

    /// The client does not read.
    pub(crate) fn write_blocked(&self) {
        if self.write_due.get() == NEVER {
            self.write_due.set(self.within(self.timeouts.write));
        }
    }

    /// The client reads again.
    pub(crate) fn wrote(&self) {
        self.write_due.set(NEVER);
    }

    /// How long the whole body of a request may take.
    pub(crate) fn body_time(&self) -> Duration {
        self.timeouts.body
    }

    fn within(&self, timeout: Duration) -> Duration {
        self.clock.0.get().saturating_add(timeout)
    }

    /// Whether the connection is cut off.
    pub(crate) fn is_over(&self) -> bool {
        self.over.get()
    }

    /// Cuts the connection off if it is overdue. True if this call did, and the client was slow rather than idle.
    pub(crate) fn look(&self) -> bool {
        let now = self.clock.0.get();
        let (late, does_not_read) = (now > self.due.get(), now > self.write_due.get());
        if !late && !does_not_read {
            return false;
        }
        let was_over = self.over.replace(true);
        self.wake();
        !was_over && (does_not_read || !self.idle.get())
    }

    /// Since when no request is in flight; `None` if one is.
    pub(crate) fn without_request_since(&self) -> Option<Duration> {
        (self.requests.get() == 0).then(|| self.since.get())
    }

    /// Cuts the connection off.
    pub(crate) fn cut_off(&self) {
        self.over.set(true);
        self.wake();
    }

    /// Remembers the task that serves the connection.
    pub(crate) fn served_by(&self, task: &Waker) {
        let mut known = self.task.borrow_mut();
        if !known.as_ref().is_some_and(|known| known.will_wake(task)) {
            *known = Some(task.clone());
        }
    }

    /// Wakes the task.
    pub(crate) fn wake(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn deadlines() -> (Rc<CoarseClock>, Rc<ConnectionDeadlines>) {
        let clock = Rc::new(CoarseClock::default());
        let timeouts = ClientTimeouts {
            head: 10 * SECOND,
            idle: 75 * SECOND,
            body: 10 * SECOND,
            write: 5 * SECOND,
            ..ClientTimeouts::default()
        };
        (Rc::clone(&clock), Rc::new(ConnectionDeadlines::new(clock, timeouts)))
    }

    /// When it is cut off if nothing more happens, in seconds.
    fn cut_off_at(clock: &CoarseClock, deadlines: &ConnectionDeadlines) -> u64 {
        let from = clock.0.get().as_secs();
        let found = (from..from + 1_000).find(|second| {
            clock.set(Duration::from_secs(*second) + SECOND / 2);
            deadlines.look();
            deadlines.is_over()
        });
        found.expect("it is cut off")
    }

    #[test]
    fn connection_without_a_request_is_cut_off_after_the_head_timeout() {
        let (clock, deadlines) = deadlines();
        deadlines.received();
        assert_eq!(cut_off_at(&clock, &deadlines), 10);
        let (clock, slow) = self::deadlines();
        clock.set(11 * SECOND);
        assert_eq!([slow.look(), slow.look()], [true, false], "it counts once");
    }

    #[test]
    fn idle_timeout_applies_between_requests_and_head_timeout_within_one() {
        let (clock, idle) = deadlines();
        drop(idle.begin(false));
        clock.set(80 * SECOND);
        assert!(!idle.look() && idle.is_over(), "it was not slow");
        let (clock, idle) = self::deadlines();
        drop(idle.begin(false));
        assert_eq!(cut_off_at(&clock, &idle), 75);

        let (clock, begun) = deadlines();
        drop(begun.begin(false));
        clock.set(30 * SECOND);
        begun.received();
        clock.set(35 * SECOND);
        begun.received();
        assert_eq!(cut_off_at(&clock, &begun), 40);
    }

    /// A connection of a pool may be silent from the beginning, but not halfway through a request.
    #[test]
    fn silent_connection_gets_the_head_timeout_once_it_sends() {
        let (clock, silent) = deadlines();
        silent.set_idle();
        assert_eq!(cut_off_at(&clock, &silent), 75);

        let (clock, begun) = deadlines();
        begun.set_idle();
        clock.set(60 * SECOND);
        begun.received();
        assert_eq!(cut_off_at(&clock, &begun), 70);
    }

    #[test]
    fn http2_bytes_without_a_request_do_not_extend_the_idle_timeout() {
        let (clock, deadlines) = deadlines();
        drop(deadlines.begin(true));
        clock.set(60 * SECOND);
        deadlines.received();
        assert_eq!(cut_off_at(&clock, &deadlines), 75);
    }

    #[test]
    fn no_read_deadline_while_requests_are_in_flight() {
        let (clock, deadlines) = deadlines();
        let (one, other) = (deadlines.begin(true), deadlines.begin(true));
        clock.set(500 * SECOND);
        deadlines.look();
        drop(one);
        clock.set(900 * SECOND);
        deadlines.look();
        assert!(!deadlines.is_over());
        drop(other);
        assert_eq!(cut_off_at(&clock, &deadlines), 975);
    }

    #[test]
    fn client_that_stops_reading_is_cut_off_despite_a_request_in_flight() {
        let (clock, deadlines) = deadlines();
        let _busy = deadlines.begin(false);
        deadlines.write_blocked();
        clock.set(4 * SECOND);
        deadlines.write_blocked();
        assert_eq!(cut_off_at(&clock, &deadlines), 5);

        let (clock, reading) = self::deadlines();
        let _busy = reading.begin(false);
        reading.write_blocked();
        reading.wrote();
        clock.set(500 * SECOND);
        reading.look();
        assert!(!reading.is_over());
    }
}
