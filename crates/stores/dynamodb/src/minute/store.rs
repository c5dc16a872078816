//! The store: drives supported operations through [`Remote`] and logs their outcomes.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollway_aws::{ClockCheck, SystemClock};
use tollway_core::{
    Action, Answer, Charge, Clock, Operation, Outcome, Outcomes, Policy, Span, Store, StoreError,
    StoreFigures, StoreResult, Subject,
};
use tollway_remote::{Options, Remote};

use super::Layout;
use super::count_cache::CountCache;
use super::fit::{check, wrong};
use super::link::MinuteLink;
use super::log::TakeLog;
use super::write::Items;
use crate::counters::Counters;
use crate::options::DynamoOptions;

/// A store that counts minutes in a table of a system that already runs.
pub struct MinuteStore {
    remote: Remote,
    layout: Layout,
    counters: Arc<Counters>,
}

impl MinuteStore {
    /// A store over the table that these options name. It connects when it is first used.
    pub fn start(options: &DynamoOptions, layout: Layout) -> std::io::Result<Self> {
        let clock = Arc::new(SystemClock);
        let check = ClockCheck::new(Arc::clone(&clock) as Arc<dyn Clock>);
        Self::going_by(clock, check.clone(), Some(check), options, layout)
    }

    /// For tests: a store whose time is this clock's, whatever it says.
    pub fn with_clock(
        options: &DynamoOptions,
        layout: Layout,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        let check = ClockCheck::new(Arc::clone(&clock));
        Self::going_by(clock, check, None, options, layout)
    }

    fn going_by(
        clock: Arc<dyn Clock>,
        interceptor: ClockCheck,
        check: Option<ClockCheck>,
        options: &DynamoOptions,
        layout: Layout,
    ) -> std::io::Result<Self> {
        let counters: Arc<Counters> = Arc::default();
        let items = Items {
            table: options.table.clone(),
            connect: options.connect.clone(),
            connection: OnceCell::new(),
            check: interceptor,
            counters: Arc::clone(&counters),
        };
        let link = MinuteLink {
            layout,
            items,
            writer: format!("{:016x}", RandomState::new().hash_one(std::process::id())),
            clock,
            check,
            known: CountCache::default(),
            latest: AtomicU64::new(0),
            unresolved: Default::default(),
        };
        let deadline = options.deadline;
        let remote =
            Remote::start("tollway-dynamodb", Arc::new(link), Options { deadline, denials: Duration::ZERO })?;
        Ok(Self { remote, layout, counters })
    }

    /// What was done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn send(&self, operation: &Operation) -> Result<(Option<TakeLog>, Answer), StoreError> {
        if let Err(error) = check(self.layout, operation) {
            return Ok((None, refuse(&self.remote, error)?));
        }
        let mut sent = operation.clone();
        if self.layout == Layout::Minute {
            // All subjects share one counter, so that their operations go together.
            sent.charges.iter_mut().for_each(|charge| charge.subject = Subject::SHARED);
        }
        decide_now(&mut sent.action);
        Ok((TakeLog::of(operation), self.remote.apply_owned([sent].into_iter())))
    }
}

impl Store for MinuteStore {
    fn apply(&self, batch: &[Operation]) -> Answer {
        let sent: Vec<_> = batch.iter().map(|operation| self.send(operation)).collect();
        Answer::Later(Box::pin(answers(sent)))
    }

    fn figures(&self) -> StoreFigures {
        self.counters.figures()
    }
}

/// Awaits all of them: every operation of the batch was sent.
async fn answers(sent: Vec<Result<(Option<TakeLog>, Answer), StoreError>>) -> StoreResult {
    let mut outcomes = Outcomes::with_capacity(sent.len());
    let mut failed = None;
    for sent in sent {
        match answer(sent).await {
            Ok(outcome) => outcomes.extend(outcome),
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(outcomes), Err)
}

async fn answer(sent: Result<(Option<TakeLog>, Answer), StoreError>) -> Result<Option<Outcome>, StoreError> {
    let (asked, answer) = sent?;
    let mut outcome = answer.await?.into_iter().next();
    if let (Some(asked), Some(outcome)) = (asked, &mut outcome) {
        asked.conclude(outcome);
    }
    Ok(outcome)
}

/// Answers with `error` once the store has answered anything at all, else with why it did not: whoever probes for it may
/// ask for something that does not fit, and must not take the refusal for a sign of life.
fn refuse(store: &Remote, error: StoreError) -> Result<Answer, StoreError> {
    let name = "tollway.probe";
    let policy = Policy::new(name, ["1 / minute"]).map_err(|error| wrong(error.to_string()))?;
    let subject = Subject::new(name).map_err(|error| wrong(error.to_string()))?;
    let peek = Operation::one(Charge::new(Arc::new(policy), subject), Action::Peek);
    let sign_of_life = store.apply_owned([peek].into_iter());
    Ok(Answer::Later(Box::pin(async move {
        sign_of_life.await?;
        Err(error)
    })))
}

/// These tables have no queue: a take is granted now, or denied until the next minute. The log needs a take's readings.
fn decide_now(action: &mut Action) {
    match action {
        Action::Take(terms) => {
            terms.max_wait = Span::ZERO;
            terms.readings = true;
        }
        Action::Preview(terms) | Action::Begin(_, terms) => terms.max_wait = Span::ZERO,
        _ => {}
    }
}
