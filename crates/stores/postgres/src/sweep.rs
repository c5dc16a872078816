//! Deletes expired rows: every writer deletes a few rows after every few writes.
//!
//! Each sweep deletes twice as many rows as were written since the last, so the tables do not grow without bound. Nothing
//! runs while no take writes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tollway_core::{Retry, Span, StoreError, Timestamp};

use crate::error::before_commit;
use crate::session::Session;
use crate::statements::StoreStatement;

/// How many rows of each table are forgotten at once: a moment's work.
const ROWS_MAX: i64 = 512;

/// After how many written rows it is time again.
pub(crate) const SWEEP_EVERY: usize = 256;

/// How long accounts are kept after they count: a clock that is set back by less, or a standby's that lags, finds them all.
/// A clock that goes back further is held at the horizon, the time up to which accounts were deleted.
const LINES_KEPT: Span = Span::from_mins(10);

/// Says when it is time. One sweep runs at a time.
#[derive(Debug)]
pub(crate) struct ExpirySweeper {
    every: usize,
    written: AtomicUsize,
    busy: AtomicBool,
}

impl ExpirySweeper {
    pub(crate) fn new(every: usize) -> Self {
        Self { every, written: AtomicUsize::new(0), busy: AtomicBool::new(false) }
    }

    /// Counts written rows; true if the caller shall sweep, and then say that it has.
    pub(crate) fn is_due(&self, written: usize) -> bool {
        let before = self.written.fetch_add(written, Ordering::Relaxed);
        if before + written < self.every || self.busy.swap(true, Ordering::Relaxed) {
            return false;
        }
        self.written.store(0, Ordering::Relaxed);
        true
    }

    /// The sweep is over.
    pub(crate) fn done(&self) {
        self.busy.store(false, Ordering::Relaxed);
    }
}

/// Deletes accounts that expired long ago by the store's time, and recorded calls that expired by the server's time.
pub(crate) async fn sweep(
    session: &Session,
    now: Timestamp,
    server_now: Timestamp,
) -> Result<(), StoreError> {
    forget(session, StoreStatement::ForgetLines, now.minus(LINES_KEPT)).await?;
    forget(session, StoreStatement::ForgetCalls, server_now).await
}

async fn forget(session: &Session, rows: StoreStatement, until: Timestamp) -> Result<(), StoreError> {
    let until = i64::try_from(until.as_micros()).unwrap_or(i64::MAX);
    let forget = async {
        let forgotten = session.client().execute(session.statement(rows), &[&until, &ROWS_MAX]).await;
        forgotten.map(|_| ()).map_err(|error| before_commit(&error))
    };
    session.within(forget, Retry::Safe).await
}
