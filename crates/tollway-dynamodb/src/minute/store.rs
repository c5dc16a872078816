//! The store: what fits is driven by [`Remote`], and what came of it is told in the log.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::OnceCell;
use tollway_aws::{ClockCheck, SystemClock};
use tollway_core::{
    Answer, Clock, Operation, Outcome, Outcomes, Party, Policy, Span, Store, StoreError, StoreFigures,
    StoreResult, Subject, Terms, Verb,
};
use tollway_remote::{Options, Remote};

use super::Layout;
use super::fit::{check, wrong};
use super::known::Known;
use super::link::MinuteLink;
use super::log::Asked;
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
            client: OnceCell::new(),
            check: interceptor,
            counters: Arc::clone(&counters),
        };
        let link = MinuteLink {
            layout,
            items,
            writer: format!("{:016x}", RandomState::new().hash_one(std::process::id())),
            clock,
            check,
            known: Known::default(),
            latest: AtomicU64::new(0),
            stories: Default::default(),
        };
        let deadline = options.deadline;
        let remote = Remote::start("tollway-dynamodb", Arc::new(link), Options { deadline })?;
        Ok(Self { remote, layout, counters })
    }

    /// What was done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn send(&self, operation: &Operation<'_>) -> Result<(Option<Asked>, Answer), StoreError> {
        if let Err(error) = check(self.layout, operation) {
            return Ok((None, refuse(&self.remote, error)?));
        }
        let subject = match self.layout {
            // One budget: whoever asks, it is the same counter, and all go together.
            Layout::Minute => Some(&Subject::SHARED),
            Layout::ApiMinute => None,
        };
        let mut parties: Vec<Party<'_>> = operation.parties.to_vec();
        parties.iter_mut().for_each(|party| party.subject = subject.unwrap_or(party.subject));
        let sent = Operation { parties: &parties, verb: without_places(operation.verb) };
        Ok((Asked::of(operation), self.remote.apply(&[sent])))
    }
}

impl Store for MinuteStore {
    fn apply(&self, batch: &[Operation<'_>]) -> Answer {
        let sent: Vec<_> = batch.iter().map(|operation| self.send(operation)).collect();
        Answer::Later(Box::pin(answers(sent)))
    }

    fn figures(&self) -> StoreFigures {
        self.counters.figures()
    }
}

/// All are seen through: what one caller asked together was sent all the same.
async fn answers(sent: Vec<Result<(Option<Asked>, Answer), StoreError>>) -> StoreResult {
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

async fn answer(sent: Result<(Option<Asked>, Answer), StoreError>) -> Result<Option<Outcome>, StoreError> {
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
    let party = Party { policy: &policy, subject: &subject, cost: policy.default_cost() };
    let sign_of_life = store.apply(&[Operation { parties: &[party], verb: Verb::Peek }]);
    Ok(Answer::Later(Box::pin(async move {
        sign_of_life.await?;
        Err(error)
    })))
}

/// There are no places in line here: granted now, or denied until the next minute. What the log says is read along.
fn without_places(verb: Verb<'_>) -> Verb<'_> {
    match verb {
        Verb::Take(terms) => Verb::Take(Terms { max_wait: Span::ZERO, readings: true, ..terms }),
        Verb::Preview(terms) => Verb::Preview(Terms { max_wait: Span::ZERO, ..terms }),
        Verb::Begin(booking, terms) => Verb::Begin(booking, Terms { max_wait: Span::ZERO, ..terms }),
        other => other,
    }
}
