//! Messages that a trigger hands over, for a function of AWS Lambda. The engine then receives nothing itself, and what it would
//! delete it notes as finished: Lambda deletes it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tollway_aws::SystemClock;
use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::{EngineError, EngineUrl, JobId};

use super::ledger::Versioned;
use super::message::{Incoming, seconds_until};
use super::{Inner, SqsEngine, lock};
use crate::lambda::SqsRecord;

/// The pause before a message is tried again whose job could not be claimed because AWS failed.
const AGAIN_AFTER: Span = Span::from_secs(1);

/// How long a function may tidy up after an event.
const TIDIED_WITHIN: Duration = Duration::from_secs(5);

/// How long the answer waits until messages that go back are hidden.
const HIDDEN_WITHIN: Duration = Duration::from_millis(500);

/// A message that was handed over and is not finished.
struct Waiting {
    stage: Name,
    message: Incoming,
    /// When its job can be claimed; none: a worker has it, or it goes back.
    due_at: Option<Timestamp>,
    /// Another message of this event has the same job: this one is looked at again when that claim ends.
    behind: Option<JobId>,
}

/// All of them, by their receipt.
#[derive(Default)]
pub(super) struct Delivered {
    waiting: Mutex<HashMap<String, Waiting>>,
    /// How many calls are claiming jobs just now.
    claiming: AtomicUsize,
}

/// A call that claims jobs. Until it ends, the messages that it took are not settled.
pub(super) struct Claiming(Arc<Delivered>);

impl Claiming {
    pub(super) fn begin(delivered: &Arc<Delivered>) -> Self {
        delivered.claiming.fetch_add(1, Ordering::SeqCst);
        Self(delivered.clone())
    }
}

impl Drop for Claiming {
    fn drop(&mut self) {
        self.0.claiming.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Delivered {
    /// How many jobs of the stage can be claimed now, and when one can be later.
    pub(super) fn peek(&self, stage: &Name, now: Timestamp) -> (u64, Option<Timestamp>) {
        let waiting = lock(&self.waiting);
        let due = || waiting.values().filter(|one| one.stage == *stage).filter_map(|one| one.due_at);
        (due().filter(|at| *at <= now).count() as u64, due().filter(|at| *at > now).min())
    }

    /// Up to this many messages whose jobs can be claimed now.
    pub(super) fn take(&self, stage: &Name, count: usize, now: Timestamp) -> Vec<Incoming> {
        let mut waiting = lock(&self.waiting);
        let due = waiting
            .values_mut()
            .filter(|one| one.stage == *stage && one.due_at.is_some_and(|at| at <= now))
            .take(count);
        due.map(|one| {
            one.due_at = None;
            one.message.clone()
        })
        .collect()
    }

    /// The job of a message can be claimed again at this time.
    pub(super) fn again(&self, receipt: &str, at: Timestamp) {
        if let Some(one) = lock(&self.waiting).get_mut(receipt) {
            (one.due_at, one.behind) = (Some(at), None);
        }
    }

    /// The job of a message is claimed until this time under another message.
    pub(super) fn wait_behind(&self, receipt: &str, job: JobId, until: Timestamp) {
        if let Some(one) = lock(&self.waiting).get_mut(receipt) {
            (one.due_at, one.behind) = (Some(until), Some(job));
        }
    }

    /// The claim of a job has ended.
    pub(super) fn claim_ended(&self, job: JobId, now: Timestamp) {
        for one in lock(&self.waiting).values_mut().filter(|one| one.behind == Some(job)) {
            (one.due_at, one.behind) = (Some(now), None);
        }
    }

    /// A job is done, and all that follows from it is sent: other messages of it need not come again.
    pub(super) fn job_done(&self, job: JobId) {
        lock(&self.waiting).retain(|_, one| one.behind != Some(job));
    }

    /// Whether a message was handed over, and is not finished. The visibility of such a message changes only when it goes back.
    pub(super) fn has(&self, receipt: &str) -> bool {
        lock(&self.waiting).contains_key(receipt)
    }

    /// AWS failed while jobs of these messages were claimed: those that are not settled are tried again.
    pub(super) fn retry(&self, receipts: &[String], now: Timestamp) {
        let mut waiting = lock(&self.waiting);
        for receipt in receipts {
            if let Some(one) = waiting.get_mut(receipt).filter(|one| one.due_at.is_none()) {
                one.due_at = Some(now.plus(AGAIN_AFTER));
            }
        }
    }

    /// A message need not come again. False: it was not handed over.
    pub(super) fn finish(&self, receipt: &str) -> bool {
        lock(&self.waiting).remove(receipt).is_some()
    }
}

impl SqsEngine {
    /// An engine that works on messages which are handed to it, and receives none.
    pub fn for_deliveries(url: &EngineUrl) -> Result<Self, EngineError> {
        let engine = Self::going_by(Arc::new(SystemClock), url)?;
        let mut inner =
            Arc::into_inner(engine.inner).ok_or_else(|| EngineError::caller("the engine is in use"))?;
        inner.delivered = Some(Arc::default());
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The name of a stage's queue.
    pub(crate) fn queue_of(&self, stage: &Name) -> Option<String> {
        self.inner.queue_name(stage).ok()
    }

    /// Hands messages over.
    pub(crate) fn deliver(&self, stage: &Name, records: &[SqsRecord], now: Timestamp) {
        let Some(delivered) = &self.inner.delivered else { return };
        let mut waiting = lock(&delivered.waiting);
        for message in records.iter().map(Incoming::of_record) {
            let one = Waiting { stage: stage.clone(), message, due_at: Some(now), behind: None };
            waiting.insert(one.message.of.receipt.clone(), one);
        }
        self.inner.hint();
    }

    /// Whether no worker has a job, and none can be claimed before then.
    pub(crate) fn is_settled(&self, until: Timestamp) -> bool {
        let Some(delivered) = &self.inner.delivered else { return true };
        let due = lock(&delivered.waiting).values().any(|one| one.due_at.is_some_and(|at| at < until));
        // Claims of an earlier event may be left: calls that hung when its time was over.
        let running =
            |known: &Versioned| known.record.receipt().is_some_and(|receipt| delivered.has(receipt));
        let mut follow_ups = lock(&self.inner.follow_ups);
        while follow_ups.try_join_next().is_some() {}
        !due && follow_ups.is_empty()
            && delivered.claiming.load(Ordering::SeqCst) == 0
            && !lock(&self.inner.claims).values().any(running)
    }

    /// Looks for messages that SQS itself made dead letters of, and for held jobs that were forgotten, now and then.
    pub(crate) async fn tidy_between_events(&self, now: Timestamp) {
        let tidied = async {
            self.inner.clean_dead_queues(now).await?;
            self.inner.release_forgotten(now).await
        };
        match tokio::time::timeout(TIDIED_WITHIN, tidied).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the engine could not tidy up"),
            Err(_) => tracing::debug!("tidying up goes on with a later event"),
        }
    }

    /// The ids of messages that are not finished. They are forgotten, like claims that are still open: SQS delivers them again, when
    /// their jobs are due.
    pub(crate) async fn take_unfinished(&self, now: Timestamp) -> Vec<String> {
        let Some(delivered) = &self.inner.delivered else { return Vec::new() };
        lock(&self.inner.claims).clear();
        let unfinished: Vec<Waiting> = lock(&delivered.waiting).drain().map(|(_, one)| one).collect();
        let hide = async |one: &Waiting| {
            let later = one.due_at.filter(|at| *at > now);
            if let (Some(at), Ok(queues)) = (later, self.inner.queues(&one.stage).await) {
                // Otherwise it comes again when the visibility timeout of its queue is over.
                let _ = queues.queue.hide(&one.message.of.receipt, seconds_until(at, now)).await;
            }
        };
        let _ = tokio::time::timeout(HIDDEN_WITHIN, join_all(unfinished.iter().map(hide))).await;
        let mut ids: Vec<String> = unfinished.into_iter().map(|one| one.message.of.id).collect();
        ids.sort();
        ids
    }
}

impl Inner {
    /// A job that was handed over can be claimed again at this time.
    pub(super) fn deliver_again(&self, receipt: Option<&str>, at: Timestamp) {
        if let (Some(delivered), Some(receipt)) = (&self.delivered, receipt) {
            delivered.again(receipt, at);
        }
    }

    /// AWS failed while jobs of messages that were handed over were claimed.
    pub(super) fn retry_delivered(&self, receipts: &[String], now: Timestamp) {
        if let Some(delivered) = &self.delivered {
            delivered.retry(receipts, now);
        }
    }

    /// The claim of a job that was handed over has ended.
    pub(super) fn claim_ended(&self, job: JobId, now: Timestamp) {
        if let Some(delivered) = &self.delivered {
            delivered.claim_ended(job, now);
        }
    }
}
