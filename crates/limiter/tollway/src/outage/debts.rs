//! Telling the store what was granted without it: before the breaker closes, after single failures, and at the end of a
//! limiter.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tollway_core::{Fault, Part, Retry, StoreError};

use crate::outage::breaker::PROBE_WAIT_MAX;
use crate::state::LimiterState;
use crate::take::debit::debit_owed;
use crate::{Limiter, Pending, TakeError};

/// How many accounts are debited at the same time.
const DEBITS_AT_ONCE: usize = 64;

/// How long the end of a limiter waits for the store.
const CLOSES_WITHIN: Duration = Duration::from_secs(2);

/// The pause before the end of a limiter tries again.
const CLOSE_RETRY: Duration = Duration::from_millis(50);

/// Debits everything that was granted while this part of the store was away, including grants made meanwhile, wherever its
/// accounts are now. False if the store cannot be reached or written. A debit that fails for one account stays owed and does not
/// hold up the others.
pub(crate) async fn settle(state: &Arc<LimiterState>, part: &Part) -> bool {
    let outage = state.outages.of(part);
    let _debiting = outage.debiting.lock().await;
    loop {
        let owed = state.fallback.owed(part);
        let mut progress = false;
        for some in owed.chunks(DEBITS_AT_ONCE) {
            let mut debits = JoinSet::new();
            for owed in some {
                let (state, owed) = (Arc::clone(state), owed.clone());
                debits.spawn(async move { debit_owed(&state, &owed).await });
            }
            for debited in debits.join_all().await {
                match debited {
                    Ok(()) => progress = true,
                    Err(error) if serves_no_caller(&error) => return false,
                    Err(error) => tracing::debug!(%error, "grants made without the store stay owed"),
                }
            }
        }
        if !progress {
            return true;
        }
    }
}

/// Whether an error affects every caller. A read-only store does, although it answers probes.
fn serves_no_caller(error: &StoreError) -> bool {
    match error.fault {
        Fault::Network | Fault::Throttled => true,
        Fault::Store => error.retry == Retry::Useless,
        Fault::Caller | Fault::Account | Fault::Full => false,
    }
}

/// Settles the debts of parts whose breaker is closed, unless a task is doing that already.
pub(crate) fn settle_in_background(state: &Arc<LimiterState>) {
    if !state.fallback.begin_settling() {
        return;
    }
    let weak = Arc::downgrade(state);
    state.timers.spawn_own(async move {
        // Failures come in bursts; the delay settles them together.
        tokio::time::sleep(PROBE_WAIT_MAX).await;
        if let Some(state) = weak.upgrade() {
            for part in state.fallback.parts_owed() {
                if !state.outages.is_away(&part) {
                    settle(&state, &part).await;
                }
            }
            state.fallback.end_settling();
        }
    });
}

/// Settles the debts of all parts, at the same time: one that does not answer holds up no other.
async fn settle_all(state: &Arc<LimiterState>) -> bool {
    let mut settling = JoinSet::new();
    for part in state.fallback.parts_owed() {
        let state = Arc::clone(state);
        settling.spawn(async move { settle(&state, &part).await });
    }
    settling.join_all().await.into_iter().all(|settled| settled)
}

/// Settles all debts within `CLOSES_WITHIN`. False if some remain.
async fn settle_at_the_end(state: &Arc<LimiterState>) -> bool {
    let fallback = &state.fallback;
    let settled = tokio::time::timeout(CLOSES_WITHIN, async {
        // A debt stays owed while other clients keep its account busy.
        while !settle_all(state).await || fallback.owes() {
            tokio::time::sleep(CLOSE_RETRY).await;
        }
    });
    let settled = settled.await.is_ok() && !fallback.owes();
    if !settled {
        tracing::warn!("the store could not be told of all grants that were made without it");
    }
    fallback.given_up.store(!settled, Ordering::Release);
    settled
}

/// Waits for the debts of a limiter whose last clone is dropped. On a thread of its own, because the caller's may belong to
/// an async runtime.
pub(crate) fn settle_on_drop(state: &Arc<LimiterState>) {
    if !state.fallback.owes() || state.fallback.given_up.load(Ordering::Acquire) {
        return;
    }
    let ending = Arc::clone(state);
    let thread = std::thread::Builder::new().name("tollway-settle".to_owned()).spawn(move || {
        if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() {
            runtime.block_on(settle_at_the_end(&ending));
        }
    });
    // Without a thread the debts are lost, like those of a killed process.
    let _ = thread.map(std::thread::JoinHandle::join);
}

/// Waits for the destinations of incidents, on a thread that may block.
async fn deliver_incidents(state: &Arc<LimiterState>) -> Result<(), TakeError> {
    if state.incidents.sinks().are_idle() {
        return Ok(());
    }
    let ending = Arc::clone(state);
    let flushing = async move { tokio::task::spawn_blocking(move || ending.incidents.sinks().flush()).await };
    state.timers.run_own(flushing).await?.map_err(|error| TakeError::Runtime(error.to_string()))
}

impl Limiter {
    /// Tells the store what was granted without it (`when_store_fails = "local"`), and waits for that, at most two
    /// seconds. Waits as long for each destination of incidents. Call it before an async program ends. Dropping the last
    /// clone does the same, but blocks its thread.
    ///
    /// Fails if the store could not be told of everything. The limiter stays usable.
    ///
    /// ```
    /// let limiter = tollway::Limiter::builder().policy("adobe", ["200 requests / minute"])?.build();
    /// limiter.close().now()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) -> Pending<()> {
        let state = Arc::clone(self.registry().state());
        Pending::new(Some(Arc::clone(&state)), |_| async move {
            deliver_incidents(&state).await?;
            let ending = Arc::clone(&state);
            // Settling needs timers, which the caller's executor may not have.
            let settling = async move { settle_at_the_end(&ending).await };
            if !state.fallback.owes() || state.timers.run_own(settling).await? {
                return Ok(());
            }
            let message = "the store could not be told of all grants that were made without it".to_owned();
            Err(TakeError::Store(StoreError { fault: Fault::Network, retry: Retry::Safe, message }))
        })
    }
}
