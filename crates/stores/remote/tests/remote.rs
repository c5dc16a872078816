//! A network that loses requests and responses, over a correct store: the suite must not notice (I5, G9).
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollway_core::{
    Action, Answer, Charge, Charges, Clock, Fault, Operation, Outcomes, Part, PermitId, Policy, Retry, Span,
    Store, StoreError, Subject, Terms, Timestamp,
};
use tollway_remote::{Call, Link, Options, Remote, Tag};
use tollway_testkit::{ManualClock, ManualRig, PlainStore, Random, conformance, wait_for};

/// The faults of each call, in percent.
#[derive(Clone, Copy, Default)]
struct Weather {
    not_sent: u64,
    answer_lost: u64,
}

/// The last response of each tag, as a store across a network keeps it.
type Kept = HashMap<Tag, (u64, Outcomes)>;

struct Network {
    store: PlainStore,
    kept: Mutex<Kept>,
    random: Mutex<Random>,
    weather: Weather,
    down: AtomicBool,
    calls: AtomicU64,
    operations: AtomicU64,
}

impl Network {
    fn new(clock: Arc<dyn Clock>, weather: Weather) -> Arc<Self> {
        Arc::new(Self {
            store: PlainStore::new(clock),
            kept: Mutex::default(),
            random: Mutex::new(Random::new(7)),
            weather,
            down: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            operations: AtomicU64::new(0),
        })
    }

    fn happens(&self, percent: u64) -> bool {
        self.random.lock().unwrap().percent(percent)
    }

    fn call(&self, call: &Call) -> Result<Outcomes, StoreError> {
        if self.down.load(Ordering::SeqCst) || self.happens(self.weather.not_sent) {
            return Err(failed(Retry::Safe));
        }
        let outcomes = self.apply_once(call);
        if self.happens(self.weather.answer_lost) { Err(failed(Retry::Unclear)) } else { Ok(outcomes) }
    }

    fn apply_once(&self, call: &Call) -> Outcomes {
        let mut kept = self.kept.lock().unwrap();
        if let Some((sequence, outcomes)) = kept.get(&call.tag)
            && *sequence == call.sequence
        {
            assert!(call.again, "the first time a call is sent, its sequence is new");
            return outcomes.clone();
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.operations.fetch_add(call.operations.len() as u64, Ordering::SeqCst);
        let apply = |operation: &Operation| match self.store.apply(std::slice::from_ref(operation)) {
            Answer::Now(Some(result)) => result.unwrap().remove(0),
            _ => panic!("a plain store answers at once"),
        };
        let outcomes: Outcomes = call.operations.iter().map(apply).collect();
        kept.insert(call.tag.clone(), (call.sequence, outcomes.clone()));
        outcomes
    }
}

impl Link for Network {
    async fn send(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        tokio::task::yield_now().await;
        calls.iter().map(|call| self.call(call)).collect()
    }
}

fn failed(retry: Retry) -> StoreError {
    StoreError { fault: Fault::Network, retry, message: "bad weather".to_owned() }
}

const PATIENT: Options = Options { deadline: Duration::from_secs(60), denials: Duration::ZERO };

fn rig(weather: Weather) -> ManualRig {
    ManualRig::new(|clock| Remote::start("network", Network::new(clock, weather), PATIENT).unwrap())
}

fn policy(limit: &str) -> Arc<Policy> {
    Arc::new(Policy::new("p", [limit]).unwrap())
}

fn take(policy: &Arc<Policy>, permit: u128) -> Operation {
    with_action(policy, Action::Take(Terms::now(PermitId(permit))))
}

fn with_action(policy: &Arc<Policy>, action: Action) -> Operation {
    Operation::one(Charge::new(Arc::clone(policy), Subject::SHARED), action)
}

#[test]
fn conformance_without_faults() {
    let effort = conformance::Effort { sequences: 200, rounds: 2, ..Default::default() };
    conformance::run_with(&rig(Weather::default()), effort).unwrap();
}

/// G9: no unit is lost or spent twice, however often requests and responses are lost.
#[test]
fn conformance_with_faults() {
    let weather = Weather { not_sent: 10, answer_lost: 10 };
    conformance::scenarios(&rig(weather)).unwrap();
    conformance::sequences(&rig(weather), 1, 20).unwrap();
}

#[test]
fn calls_made_while_one_is_in_flight_are_sent_together() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_000)));
    let network = Network::new(clock, Weather::default());
    let remote = Remote::start("network", Arc::clone(&network), PATIENT).unwrap();
    let policy = policy("100 / minute");
    let answers: Vec<Answer> = (0..500).map(|permit| remote.apply(&[take(&policy, permit)])).collect();
    let granted = |answer: Answer| match &wait_for(answer).unwrap()[0] {
        tollway_core::Outcome::Decided(decision) => decision.is_granted(),
        other => panic!("{other:?}"),
    };
    assert_eq!(answers.into_iter().filter_map(|answer| granted(answer).then_some(())).count(), 100);
    assert_eq!(network.operations.load(Ordering::SeqCst), 500);
    let calls = network.calls.load(Ordering::SeqCst);
    assert!(calls < 250, "{calls} calls for 500 operations of one tag");
}

#[test]
fn a_caller_is_answered_by_the_deadline_and_nothing_is_sent_later() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_000)));
    let network = Network::new(clock, Weather::default());
    let options = Options { deadline: Duration::from_millis(50), denials: Duration::ZERO };
    let remote = Remote::start("network", Arc::clone(&network), options).unwrap();
    let policy = policy("1 / minute");
    network.down.store(true, Ordering::SeqCst);
    let error = wait_for(remote.apply(&[take(&policy, 1)])).unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Network, Retry::Safe));
    network.down.store(false, Ordering::SeqCst);
    drop(remote);
    let remote = Remote::start("network", Arc::clone(&network), PATIENT).unwrap();
    // The unit is still there: the first take was never applied, not even late.
    let answer = wait_for(remote.apply(&[take(&policy, 2)])).unwrap();
    assert!(format!("{answer:?}").contains("Granted"), "{answer:?}");
    assert_eq!(network.operations.load(Ordering::SeqCst), 1);
}

/// A take granted after its caller gave up is returned.
#[test]
fn a_permit_granted_after_the_deadline_is_returned() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_000)));
    let network = Network::new(clock, Weather::default());
    let remote = Remote::start("network", Arc::clone(&network), PATIENT).unwrap();
    let policy = policy("1 / minute");
    drop(remote.apply(&[take(&policy, 1)]));
    let granted = |permit| {
        let answer = wait_for(remote.apply(&[take(&policy, permit)])).unwrap();
        format!("{answer:?}").contains("Granted")
    };
    // It is returned in the background; repeated takes cost nothing while they are denied.
    assert!((2..10_000).any(granted));
}

/// A call that returns units is sent even if no caller waits for it, and even if the store is closed at once.
#[test]
fn a_return_is_resent_until_it_succeeds() {
    let network = Network::new(
        Arc::new(ManualClock::at(Timestamp::from_secs(1_000))),
        Weather { not_sent: 50, answer_lost: 0 },
    );
    let policy = policy("1 / minute");
    let remote = Remote::start("network", Arc::clone(&network), PATIENT).unwrap();
    let reset = || with_action(&policy, Action::Reset);
    for round in 0..20 {
        let taken = wait_for(remote.apply(&[take(&policy, round)])).unwrap();
        assert!(format!("{taken:?}").contains("Granted"), "round {round}: {taken:?}");
        drop(remote.apply(&[reset()]));
    }
    wait_for(remote.apply(&[take(&policy, 99)])).unwrap();
    drop(remote.apply(&[reset()]));
    drop(remote);
    let remote = Remote::start("network", network, PATIENT).unwrap();
    let taken = wait_for(remote.apply(&[take(&policy, 100)])).unwrap();
    assert!(format!("{taken:?}").contains("Granted"), "{taken:?}");
}

#[test]
fn empty_batch_and_operation_without_charges() {
    let remote = Remote::start(
        "network",
        Network::new(Arc::new(ManualClock::at(Timestamp::from_secs(1_000))), Weather::default()),
        PATIENT,
    );
    let remote = remote.unwrap();
    assert!(wait_for(remote.apply(&[])).unwrap().is_empty());
    let empty = Operation { charges: Charges::new(), action: Action::Peek };
    let answer = wait_for(remote.apply(&[empty])).unwrap();
    assert!(
        matches!(answer[..], [tollway_core::Outcome::Refused(tollway_core::Refusal::ChargeCount(0))]),
        "{answer:?}"
    );
}

/// A call in flight that waits until the gate opens.
struct Gated(Arc<Network>, Arc<AtomicBool>);
impl Link for Gated {
    async fn send(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        while self.1.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        calls.iter().map(|call| self.0.call(call)).collect()
    }
}

/// A store of two parts, by subject, of which one does not answer.
struct HalfSilent(Arc<Network>);
impl Link for HalfSilent {
    const CALLS_TOGETHER_MAX: usize = 2;

    fn part_of(&self, operation: &Operation) -> Part {
        Part::named(Arc::from(&operation.charges[0].subject.as_str()[..1]))
    }

    async fn send(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        let subjects = || calls.iter().map(|call| call.tag.account().subject.as_str());
        if subjects().any(|subject| subject.starts_with('a')) {
            assert!(subjects().all(|subject| subject.starts_with('a')), "calls of two parts in one group");
            std::future::pending::<()>().await;
        }
        calls.iter().map(|call| self.0.call(call)).collect()
    }
}

/// G7: calls to a part that does not answer hold up none of another part, however many there are.
#[test]
fn a_silent_part_holds_up_no_other() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(6_000)));
    let network = Network::new(clock, Weather::default());
    let options = Options { deadline: Duration::from_millis(1_000), denials: Duration::ZERO };
    let remote = Remote::start("network", Arc::new(HalfSilent(network)), options).unwrap();
    let policy = policy("1 / minute");
    let send = |subject: String, permit| {
        let charge = Charge::new(Arc::clone(&policy), Subject::new(&subject).unwrap());
        remote.apply(&[Operation::one(charge, Action::Take(Terms::now(PermitId(permit))))])
    };
    let silent: Vec<Answer> = (0..100).map(|number| send(format!("a{number}"), number)).collect();
    for number in 0..100 {
        wait_for(send(format!("b{number}"), 100 + number)).unwrap();
    }
    for answer in silent {
        assert_eq!(wait_for(answer).unwrap_err().fault, Fault::Network);
    }
}

#[test]
fn begin_repeated_while_the_first_is_in_flight_counts_once() {
    use tollway_core::{Begun, Outcome};
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(6_000)));
    let network = Network::new(clock.clone(), Weather::default());
    let gate = Arc::new(AtomicBool::new(false));
    let link = Arc::new(Gated(Arc::clone(&network), Arc::clone(&gate)));
    let options = Options { deadline: Duration::from_millis(60), denials: Duration::ZERO };
    let remote = Remote::start("network", link, options).unwrap();
    let policy = policy("1 / minute");
    let send = |operation: &Operation| remote.apply(std::slice::from_ref(operation));
    let first = wait_for(send(&take(&policy, 1))).unwrap().remove(0);
    let Outcome::Decided(decision) = first else { panic!() };
    let booking = *decision.booking().unwrap();
    clock.advance(Span::from_secs(60));
    let begin = |permit| with_action(&policy, Action::Begin(booking, Terms::now(PermitId(permit))));
    gate.store(true, Ordering::SeqCst);
    // The caller's deadline passes while the call is in flight; the caller retries.
    let late = wait_for(send(&begin(2))).unwrap_err();
    assert_eq!(late.retry, Retry::Unclear);
    let second = send(&begin(3));
    std::thread::sleep(Duration::from_millis(20));
    gate.store(false, Ordering::SeqCst);
    let second = wait_for(second).unwrap().remove(0);
    assert!(matches!(&second, Outcome::Begun(Begun::Again(decision)) if decision.is_granted()), "{second:?}");
    // The call goes out now and spends the one unit of this minute.
    std::thread::sleep(Duration::from_millis(50));
    let third = wait_for(send(&take(&policy, 4))).unwrap().remove(0);
    assert!(
        matches!(&third, Outcome::Decided(decision) if !decision.is_granted()),
        "two grants in a minute that allows one: {third:?}"
    );
}

#[test]
fn a_return_queued_behind_a_failing_call_is_sent() {
    use tollway_core::Outcome;
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(6_000)));
    let network = Network::new(clock.clone(), Weather::default());
    let gate = Arc::new(AtomicBool::new(false));
    let link = Arc::new(Gated(Arc::clone(&network), Arc::clone(&gate)));
    let options = Options { deadline: Duration::from_millis(60), denials: Duration::ZERO };
    let remote = Remote::start("network", link, options).unwrap();
    let policy = policy("1 / minute");
    let send = |operation: &Operation| remote.apply(std::slice::from_ref(operation));
    let first = wait_for(send(&take(&policy, 1))).unwrap().remove(0);
    let Outcome::Decided(decision) = first else { panic!() };
    let booking = *decision.booking().unwrap();
    gate.store(true, Ordering::SeqCst);
    let peek = send(&with_action(&policy, Action::Peek));
    std::thread::sleep(Duration::from_millis(20));
    let back = with_action(&policy, Action::Return { booking, remember: false });
    // The caller gets a timeout, and the return is still sent.
    assert!(wait_for(send(&back)).is_err());
    drop(peek);
    gate.store(false, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(300));
    let second = wait_for(send(&take(&policy, 2))).unwrap().remove(0);
    assert!(
        matches!(&second, Outcome::Decided(decision) if decision.is_granted()),
        "the returned unit is lost: {second:?}"
    );
}

#[test]
fn a_call_reported_as_failed_but_applied_later_is_returned() {
    use tollway_core::Outcome;
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(6_000)));
    let network = Network::new(clock.clone(), Weather::default());
    let options = Options { deadline: Duration::from_millis(60), denials: Duration::ZERO };
    let remote = Remote::start("network", Arc::clone(&network), options).unwrap();
    let policy = policy("2 / minute");
    let send = |operation: &Operation| remote.apply(std::slice::from_ref(operation));
    let first = wait_for(send(&take(&policy, 1))).unwrap().remove(0);
    let Outcome::Decided(decision) = first else { panic!() };
    let booking = *decision.booking().unwrap();
    let second = wait_for(send(&take(&policy, 2))).unwrap().remove(0);
    assert!(matches!(&second, Outcome::Decided(decision) if decision.is_granted()));
    network.down.store(true, Ordering::SeqCst);
    let back = with_action(&policy, Action::Return { booking, remember: false });
    let error = wait_for(send(&back)).unwrap_err();
    network.down.store(false, Ordering::SeqCst);
    if error.retry == Retry::Safe {
        // Fails with "not applied, safe to retry".
        std::thread::sleep(Duration::from_millis(300));
        wait_for(send(&back)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    let more = (10..20)
        .filter(|permit| {
            let taken = wait_for(send(&take(&policy, *permit))).unwrap().remove(0);
            matches!(&taken, Outcome::Decided(decision) if decision.is_granted())
        })
        .count();
    assert_eq!(more, 1, "beside permit 2, of 2 / minute");
}

/// A link whose first call stops the whole process for longer than the deadline, as far as the driver can tell.
struct Stopping(Arc<Network>, AtomicBool);
impl Link for Stopping {
    async fn send(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        if !self.1.swap(true, Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(2_500));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        calls.iter().map(|call| self.0.call(call)).collect()
    }
}

/// A stop of the caller's own process says nothing about the store: takes are not timed out when it resumes.
#[test]
fn a_process_that_was_stopped_waits_for_the_store_again() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(6_000)));
    let link = Arc::new(Stopping(Network::new(clock, Weather::default()), AtomicBool::new(false)));
    let remote =
        Remote::start("network", link, Options { deadline: Duration::from_secs(2), denials: Duration::ZERO })
            .unwrap();
    let policy = policy("1 / minute");
    let taken = wait_for(remote.apply(&[take(&policy, 1)])).unwrap();
    assert!(format!("{taken:?}").contains("Granted"), "{taken:?}");
}

struct Resolving;
impl Link for Resolving {
    async fn send(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        // Like name resolution: on a thread that cannot be cancelled.
        let resolved = tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_secs(8)));
        let _ = tokio::time::timeout(Duration::from_millis(30), resolved).await;
        calls.iter().map(|_| Err(failed(Retry::Safe))).collect()
    }
}

#[test]
fn dropping_the_store_does_not_wait_for_name_resolution() {
    let remote = Remote::start(
        "network",
        Arc::new(Resolving),
        Options { deadline: Duration::from_millis(60), denials: Duration::ZERO },
    )
    .unwrap();
    let policy = policy("2 / minute");
    wait_for(remote.apply(&[take(&policy, 1)])).unwrap_err();
    let begun = std::time::Instant::now();
    drop(remote);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}
