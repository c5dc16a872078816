//! The link: calls in, conditional writes out.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tollway_aws::{ClockCheck, SystemClock};
use tollway_core::{Clock, Fault, Outcomes, Retry, StoreError};
use tollway_remote::{Call, Link};

use crate::cache::Cache;
use crate::call_part::CallPart;
use crate::contention::Contention;
use crate::counters::Counters;
use crate::locks::Locks;
use crate::options::DynamoOptions;
use crate::table::Table;
use crate::unresolved_calls::UnresolvedCalls;
use crate::write_attempts::WriteAttempts;

/// Sends calls to DynamoDB.
pub struct DynamoLink {
    pub(crate) table: Table,
    /// The id of this process among all that share the table.
    pub(crate) writer: String,
    pub(crate) clock: Arc<dyn Clock>,
    /// None if the clock is a test's.
    pub(crate) check: Option<ClockCheck>,
    pub(crate) cache: Cache,
    unresolved: UnresolvedCalls<WriteAttempts>,
    locks: Locks,
    pub(crate) contention: Contention,
    /// How long a call may go on losing races before it fails. The driver sends it again while a caller waits.
    pub(crate) race_time: Duration,
}

impl DynamoLink {
    /// A link that connects when it is first used, and goes by the process's clock.
    pub fn new(options: DynamoOptions) -> Self {
        Self::going_by(Arc::new(SystemClock), options)
    }

    /// For tests: goes by this clock, which is checked as the process's would be.
    pub fn going_by(clock: Arc<dyn Clock>, options: DynamoOptions) -> Self {
        let check = ClockCheck::new(Arc::clone(&clock));
        let race_time = options.race_time();
        Self {
            table: Table::new(options, check.clone(), Arc::default()),
            writer: draw_writer(),
            clock,
            check: Some(check),
            cache: Cache::default(),
            unresolved: UnresolvedCalls::default(),
            locks: Locks::default(),
            contention: Contention::default(),
            race_time,
        }
    }

    /// For tests: the clock may say anything.
    #[must_use]
    pub fn without_clock_check(self) -> Self {
        Self { check: None, ..self }
    }

    /// What was done so far.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.table.counters)
    }

    async fn apply(self: Arc<Self>, call: Arc<Call>) -> Result<Outcomes, StoreError> {
        let mut attempts = self.unresolved.resume(&call)?;
        match self.apply_parts(&call, &mut attempts).await {
            Ok(()) => Ok(attempts.outcomes),
            Err(mut error) => {
                let may_be_applied = attempts.may_be_applied();
                // What was applied must not be applied again.
                if error.retry == Retry::Safe && may_be_applied {
                    error.retry = Retry::Unclear;
                }
                if error.retry != Retry::Useless && may_be_applied {
                    self.unresolved.keep(&call, attempts);
                }
                Err(error)
            }
        }
    }

    async fn apply_parts(&self, call: &Call, attempts: &mut WriteAttempts) -> Result<(), StoreError> {
        while attempts.outcomes.len() < call.operations.len() {
            let part = CallPart::next(call, attempts.outcomes.len());
            let _hold = self.locks.hold(&part.keys).await;
            let outcomes = self.apply_part(call, &part, attempts).await?;
            attempts.part_done(outcomes);
        }
        Ok(())
    }
}

impl Link for DynamoLink {
    /// Each call is a request of its own: none need wait for another's.
    const CALLS_TOGETHER_MAX: usize = 1;

    /// Each takes a connection.
    const GROUPS_OUT_MAX: usize = 64;

    async fn send(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        // Tasks of their own: a call goes on when its caller stops waiting.
        let running: Vec<_> =
            calls.into_iter().map(|call| tokio::spawn(Arc::clone(&self).apply(call))).collect();
        let ended =
            |answer: Result<_, tokio::task::JoinError>| answer.unwrap_or_else(|error| Err(torn(&error)));
        join_all(running).await.into_iter().map(ended).collect()
    }
}

/// The runtime ends, or there is a bug: what was sent is not known.
fn torn(error: &tokio::task::JoinError) -> StoreError {
    let message = format!("the call to DynamoDB did not end: {error}");
    StoreError { fault: Fault::Store, retry: Retry::Unclear, message }
}

/// Eleven characters of 64 bits: short, because items name many writers.
fn draw_writer() -> String {
    const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
    let drawn = RandomState::new().hash_one(std::process::id());
    let digit = |place: u32| DIGITS.get((drawn >> (place * 6)) as usize % 64).copied().unwrap_or(b'0');
    (0..11).map(|place| char::from(digit(place))).collect()
}
