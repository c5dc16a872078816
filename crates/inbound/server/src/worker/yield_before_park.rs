//! A worker that serves HTTP/2 yields its core before it waits for events.
//!
//! An HTTP/2 client takes long to build a request. If the worker yields first, clients on its core run, and their requests are
//! read together: by the bench's group `server`, calls of many connections cost a third less. HTTP/1 and the Redis protocol
//! gain nothing from it.

use std::cell::Cell;

thread_local! {
    static SERVED_HTTP2: Cell<bool> = const { Cell::new(false) };
}

/// Notes the protocol of this thread's last answer.
pub(crate) fn answered(http2: bool) {
    SERVED_HTTP2.set(http2);
}

/// Runs before the thread parks.
pub(super) fn before_park() {
    if SERVED_HTTP2.get() {
        std::thread::yield_now();
    }
}
