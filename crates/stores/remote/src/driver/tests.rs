//! Calls to a store that was frozen for long, in the time of tests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tollway_core::{
    Action, Charge, Fault, Operation, Outcome, Outcomes, PermitId, Policy, Retry, StoreError, Subject, Terms,
};

use super::Driver;
use crate::denials::Denials;
use crate::lane::{QueuedOperation, Reply};
use crate::{Call, Link, Options, RETRY_FOR, Tag};

/// A store that applies calls which came while it was frozen only when it goes on. It grants each take and counts units.
#[derive(Default)]
struct Frozen {
    is_frozen: AtomicBool,
    used: Mutex<i64>,
    waiting: Mutex<Vec<Arc<Call>>>,
    kept: Mutex<HashMap<Tag, (u64, Outcomes)>>,
}

impl Frozen {
    fn go_on(&self) {
        self.is_frozen.store(false, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap());
        waiting.iter().for_each(|call| drop(self.apply(call)));
    }

    fn apply(&self, call: &Call) -> Outcomes {
        let mut kept = self.kept.lock().unwrap();
        if let Some((sequence, outcomes)) = kept.get(&call.tag)
            && *sequence == call.sequence
        {
            return outcomes.clone();
        }
        let outcomes: Outcomes = call.operations.iter().map(|operation| self.apply_one(operation)).collect();
        kept.insert(call.tag.clone(), (call.sequence, outcomes.clone()));
        outcomes
    }

    fn apply_one(&self, operation: &Operation) -> Outcome {
        let mut used = self.used.lock().unwrap();
        *used += match operation.action {
            Action::Take(_) => 1,
            Action::Return { .. } => -1,
            _ => 0,
        };
        let mut accounts: Vec<_> =
            operation.charges.iter().map(|charge| tollway_core::Account::new(&charge.policy)).collect();
        tollway_core::apply(operation, &mut accounts, tollway_core::Timestamp::from_secs(1_000)).outcome
    }
}

impl Link for Frozen {
    async fn send(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        let send = |call: &Arc<Call>| {
            if self.is_frozen.load(Ordering::SeqCst) {
                self.waiting.lock().unwrap().push(Arc::clone(call));
                let message = "no answer in time".to_owned();
                return Err(StoreError { fault: Fault::Network, retry: Retry::Unclear, message });
            }
            Ok(self.apply(call))
        };
        calls.iter().map(send).collect()
    }
}

async fn send(
    queue: &mpsc::Sender<(Tag, QueuedOperation)>,
    id: u64,
    operation: Operation,
) -> Result<Outcome, StoreError> {
    let (sender, answer) = oneshot::channel();
    let tag = Tag::of(&operation).unwrap();
    queue.send((tag, QueuedOperation { id, operation, reply: Reply::new(sender) })).await.unwrap();
    answer.await.unwrap()
}

/// G7: the caller was answered without the store, which is told so. The take that the store applies in the end is a second one.
#[tokio::test(start_paused = true)]
async fn take_that_a_frozen_store_applies_after_a_minute_is_returned() {
    let store = Arc::new(Frozen::default());
    store.is_frozen.store(true, Ordering::SeqCst);
    let (queue, incoming) = mpsc::channel(4);
    let options = Options { deadline: Duration::from_millis(500), denials: Duration::ZERO };
    let denials = Arc::new(Denials::new(options.denials));
    let driver = tokio::spawn(Driver::new(Arc::clone(&store), options, denials).run(incoming));
    let policy = Arc::new(Policy::new("p", ["9 / day"]).unwrap());
    let action = Action::Take(Terms::now(PermitId(1)));
    let take = Operation::one(Charge::new(Arc::clone(&policy), Subject::SHARED), action);
    assert_eq!(send(&queue, 0, take).await.unwrap_err().retry, Retry::Unclear);
    sleep(RETRY_FOR * 2).await;
    // It is not sent again and again meanwhile.
    assert!(store.waiting.lock().unwrap().len() < 50);
    store.go_on();
    assert_eq!(*store.used.lock().unwrap(), 1);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(*store.used.lock().unwrap(), 1, "the store has not answered anything yet");
    let other = Charge::new(policy, Subject::new("probe").unwrap());
    assert!(send(&queue, 1, Operation::one(other, Action::Peek)).await.is_ok());
    sleep(Duration::from_secs(3)).await;
    assert_eq!(*store.used.lock().unwrap(), 0);
    driver.abort();
}
