//! A process's connection to the store. It keeps to the contract of `tollway-remote`, whose driver needs a thread of its own
//! for each process: one call in flight for an account, callers answered within the deadline, lost messages sent again, a call
//! counted once, a granted take without a caller returned, a denial repeated from memory for a second.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tollway::{Setting, Span, Store, StoreError};
use tollway_core::{
    Action, Answer, Decision, Fault, FollowedSettings, Operation, Outcome, Outcomes, Retry, SettingChange,
    Settings, SettingsAnswer,
};
use tollway_testkit::Random;

use crate::central_store::CentralStore;
use crate::network::{Network, Region};

/// As the stores' default.
const DEADLINE: Duration = Duration::from_millis(500);
const RESENT_AFTER: Duration = Duration::from_millis(50);
const RESENT_FOR: Duration = Duration::from_secs(30);
const DENIAL_KEPT: Span = Span::from_secs(1);
const OPERATIONS_PER_CALL_MAX: usize = 64;
const QUEUE_MAX: usize = 8_192;

/// What all processes share.
pub(crate) struct Shared {
    pub(crate) central: CentralStore,
    pub(crate) network: Network,
}

/// The connection of one process.
pub(crate) struct Link {
    shared: Arc<Shared>,
    process: usize,
    region: Region,
    queue: Sender<Request>,
    worker: AbortHandle,
    denied: Arc<Mutex<Option<KeptDenial>>>,
}

/// An operation on its way.
struct Request {
    operation: Operation,
    /// None: no caller waits for it.
    reply: Option<oneshot::Sender<Outcome>>,
    since: Instant,
}

/// A denial, and what was denied.
struct KeptDenial {
    amounts: Vec<u64>,
    decision: Decision,
    until: Instant,
}

impl Link {
    pub(crate) fn new(shared: &Arc<Shared>, process: usize, region: Region, random: Random) -> Self {
        let (queue, requests) = channel(QUEUE_MAX);
        let denied = Arc::default();
        let worker = Worker { shared: Arc::clone(shared), region, random, denied: Arc::clone(&denied) };
        let worker = tokio::spawn(worker.run(requests)).abort_handle();
        Self { shared: Arc::clone(shared), process, region, queue, worker, denied }
    }

    /// The process was killed: nothing is sent or answered any more.
    pub(crate) fn kill(&self) {
        self.worker.abort();
    }

    fn repeated_denial(&self, operation: &Operation) -> Option<Outcome> {
        let amounts = amounts_of_plain_take(operation)?;
        let denied = self.denied.lock().unwrap();
        let kept = denied.as_ref().filter(|kept| Instant::now() < kept.until)?;
        let as_much = amounts.iter().zip(&kept.amounts).all(|(amount, denied)| amount >= denied);
        as_much.then(|| Outcome::Decided(kept.decision.clone()))
    }
}

impl Store for Link {
    fn apply(&self, batch: &[Operation]) -> Answer {
        if let [operation] = batch
            && let Some(denied) = self.repeated_denial(operation)
        {
            return Answer::now(Ok([denied].into_iter().collect()));
        }
        let since = Instant::now();
        let mut answers = Vec::new();
        for operation in batch {
            if gives_back(&operation.action) {
                *self.denied.lock().unwrap() = None;
            }
            let (reply, answer) = oneshot::channel();
            let request = Request { operation: operation.clone(), reply: Some(reply), since };
            // A full queue or a killed process drops it, and the caller hears of it.
            let _ = self.queue.try_send(request);
            answers.push(answer);
        }
        Answer::Later(Box::pin(async move {
            let mut outcomes = Outcomes::new();
            for answer in answers {
                match timeout_at(since + DEADLINE, answer).await {
                    Ok(Ok(outcome)) => outcomes.push(outcome),
                    _ => return Err(unreachable_store()),
                }
            }
            Ok(outcomes)
        }))
    }

    fn settings(&self) -> Option<&dyn Settings> {
        Some(self)
    }
}

impl Settings for Link {
    fn settings(&self) -> SettingsAnswer<Vec<Setting>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn follow(&self, registers: bool) -> SettingsAnswer<FollowedSettings> {
        let (shared, process, region) = (Arc::clone(&self.shared), self.process, self.region);
        Box::pin(async move {
            if shared.network.is_cut_off(region) {
                sleep(DEADLINE).await;
                return Err(unreachable_store());
            }
            let limiters = shared.central.follow(process, registers);
            Ok(FollowedSettings { settings: Vec::new(), limiters })
        })
    }

    fn change(&self, _: SettingChange) -> SettingsAnswer<()> {
        Box::pin(async { Err(unreachable_store()) })
    }
}

/// The task that sends what is queued, one call at a time.
struct Worker {
    shared: Arc<Shared>,
    region: Region,
    random: Random,
    denied: Arc<Mutex<Option<KeptDenial>>>,
}

impl Worker {
    async fn run(mut self, mut queue: Receiver<Request>) {
        let mut requests = Vec::new();
        while queue.recv_many(&mut requests, OPERATIONS_PER_CALL_MAX).await > 0 {
            // Those that arrive at the same moment go with it.
            tokio::task::yield_now().await;
            while requests.len() < OPERATIONS_PER_CALL_MAX
                && let Ok(request) = queue.try_recv()
            {
                requests.push(request);
            }
            while !requests.is_empty() {
                requests = self.call(requests).await;
            }
        }
    }

    /// Sends a call until it is answered. Returns what must be sent next: returns of grants that no caller waits for.
    async fn call(&mut self, mut requests: Vec<Request>) -> Vec<Request> {
        let sent_at = loop {
            requests.retain(Request::is_wanted);
            if requests.is_empty() {
                return requests;
            }
            let sent_at = Instant::now();
            if self.carry().await {
                break sent_at;
            }
            sleep(RESENT_AFTER).await;
        };
        let operations: Vec<Operation> = requests.iter().map(|request| request.operation.clone()).collect();
        let outcomes = self.shared.central.apply(&operations);
        // The store keeps the answer to a call that is sent again.
        while !self.carry().await {
            sleep(RESENT_AFTER).await;
        }
        let answered = requests.into_iter().zip(outcomes);
        answered.filter_map(|(request, outcome)| self.answer(request, outcome, sent_at)).collect()
    }

    async fn carry(&mut self) -> bool {
        self.shared.network.carry(self.region, &mut self.random).await
    }

    /// Answers the caller. If there is none any more, what it was granted is returned.
    fn answer(&self, request: Request, outcome: Outcome, sent_at: Instant) -> Option<Request> {
        self.keep_denial(&request.operation, &outcome, sent_at);
        let Request { operation, reply, .. } = request;
        let unheard = match reply {
            Some(reply) => reply.send(outcome).err()?,
            None => outcome,
        };
        let Outcome::Decided(decision) = unheard else { return None };
        let action = Action::Return { booking: *decision.booking()?, remember: false };
        let operation = Operation { action, ..operation };
        Some(Request { operation, reply: None, since: Instant::now() })
    }

    fn keep_denial(&self, operation: &Operation, outcome: &Outcome, sent_at: Instant) {
        let (Some(amounts), Outcome::Decided(decision)) = (amounts_of_plain_take(operation), outcome) else {
            return;
        };
        if let Some(denial) = decision.denial() {
            let kept_for = denial.retry_at.since(decision.now).min(DENIAL_KEPT);
            let until = sent_at + Duration::from(kept_for);
            *self.denied.lock().unwrap() = Some(KeptDenial { amounts, decision: decision.clone(), until });
        }
    }
}

impl Request {
    /// A take or a read is dropped with its caller; other operations are sent all the same.
    fn is_wanted(&self) -> bool {
        match self.operation.action {
            Action::Take(_) | Action::Peek => self.reply.as_ref().is_some_and(|reply| !reply.is_closed()),
            _ => self.since.elapsed() < RESENT_FOR,
        }
    }
}

/// The amounts of a take that is decided now, for one account and without an id.
fn amounts_of_plain_take(operation: &Operation) -> Option<Vec<u64>> {
    match (&operation.action, operation.charges.as_slice()) {
        (Action::Take(terms), [charge]) if terms.call.is_none() && terms.max_wait == Span::ZERO => {
            Some(charge.amounts().map(|(_, amount)| amount).collect())
        }
        _ => None,
    }
}

fn gives_back(action: &Action) -> bool {
    matches!(action, Action::Settle { .. } | Action::Return { .. } | Action::Reset)
}

fn unreachable_store() -> StoreError {
    let message = "no answer from the simulated store".to_owned();
    StoreError { fault: Fault::Network, retry: Retry::Unclear, message }
}
