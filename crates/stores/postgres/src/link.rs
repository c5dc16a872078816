//! The link: calls in, transactions out.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tollway_core::{Clock, Fault, Outcomes, Retry, StoreError, Timestamp};
use tollway_remote::{Call, Link};

use crate::options::PostgresOptions;
use crate::pool::{Pool, pool};
use crate::sweep::{ExpirySweeper, SWEEP_EVERY, sweep};
use crate::transaction::{Committed, Transaction};

/// How many calls share a transaction: they share its round trips and its commit, and wait for each other's locks.
const CALLS_PER_TRANSACTION_MAX: usize = 32;

/// How many accounts a transaction holds, unless a single call names more: the server has room for a few thousand locks.
const ACCOUNTS_PER_TRANSACTION_MAX: usize = 256;

/// Sends calls to Postgres.
pub struct PostgresLink {
    pool: Arc<Pool>,
    /// The id of this process among all that share the tables.
    writer: Vec<u8>,
    clock: Option<Arc<dyn Clock>>,
    sweeper: ExpirySweeper,
}

impl PostgresLink {
    /// A link that connects when it is first used, and reads the server's clock.
    pub fn new(options: PostgresOptions) -> Self {
        Self {
            pool: pool(options),
            writer: draw_writer(),
            clock: None,
            sweeper: ExpirySweeper::new(SWEEP_EVERY),
        }
    }

    /// For tests: takes this clock for the store's time, and forgets what has expired after every write.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), sweeper: ExpirySweeper::new(1), ..self }
    }

    /// Applies some calls in one transaction.
    async fn apply(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        match self.transact(&calls).await {
            Ok(committed) => {
                Self::sweep_if_due(&self, &committed);
                committed.answers
            }
            Err(error) => calls.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn transact(&self, calls: &[Arc<Call>]) -> Result<Committed, StoreError> {
        let lease = self.pool.lease().await?;
        let schema = self.pool.options().schema.as_str();
        let (session, writer, clock) = (lease.session(), self.writer.as_slice(), self.clock.as_deref());
        let result = Transaction { session, schema, writer, calls, clock }.run().await;
        match &result {
            Ok(_) => lease.return_to_pool(),
            Err(error) => lease.return_to_pool_after(error).await,
        }
        result
    }

    /// Sweeps in the background.
    fn sweep_if_due(self: &Arc<Self>, committed: &Committed) {
        let Committed { written, now, server_now, .. } = *committed;
        if written > 0 && self.sweeper.is_due(written) {
            let link = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(error) = link.sweep(now, server_now).await {
                    tracing::debug!(%error, "expired accounts were not deleted; a later sweep will");
                }
                link.sweeper.done();
            });
        }
    }

    async fn sweep(&self, now: Timestamp, server_now: Timestamp) -> Result<(), StoreError> {
        let lease = self.pool.lease().await?;
        let swept = sweep(lease.session(), now, server_now).await;
        match &swept {
            Ok(()) => lease.return_to_pool(),
            Err(error) => lease.return_to_pool_after(error).await,
        }
        swept
    }
}

impl Link for PostgresLink {
    async fn send(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        let mut running = Vec::new();
        let mut answers = Vec::with_capacity(calls.len());
        for together in divide(calls) {
            // A task of its own: it must not be cancelled when the caller leaves.
            running.push((together.len(), tokio::spawn(Arc::clone(&self).apply(together))));
        }
        for (count, task) in running {
            match task.await {
                Ok(answered) => answers.extend(answered),
                Err(error) => answers.extend((0..count).map(|_| Err(ended(&error)))),
            }
        }
        answers
    }
}

/// Divides calls among transactions, in order.
fn divide(calls: Vec<Arc<Call>>) -> Vec<Vec<Arc<Call>>> {
    let mut transactions: Vec<Vec<Arc<Call>>> = Vec::new();
    let mut held = 0;
    for call in calls {
        let lines: usize = call.operations.iter().map(|operation| operation.charges.len()).sum();
        held += lines;
        match transactions.last_mut() {
            Some(last) if last.len() < CALLS_PER_TRANSACTION_MAX && held <= ACCOUNTS_PER_TRANSACTION_MAX => {
                last.push(call);
            }
            _ => {
                held = lines;
                transactions.push(vec![call]);
            }
        }
    }
    transactions
}

/// The runtime ends, or there is a bug: what was sent is not known.
fn ended(error: &tokio::task::JoinError) -> StoreError {
    let message = format!("the call to Postgres did not end: {error}");
    StoreError { fault: Fault::Store, retry: Retry::Unclear, message }
}

pub(crate) fn draw_writer() -> Vec<u8> {
    let half = || RandomState::new().hash_one(std::process::id()).to_le_bytes();
    [half(), half()].concat()
}
