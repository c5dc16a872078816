//! Workers that call a vendor through a controller, in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tollway_core::controller::{Keep, Pace, RateRefusal, Report, VendorQuota};
use tollway_core::{Span, Timestamp};

use crate::store::Account;
use crate::{Answer, CallCost, Figures, Outcome, Random, Terms, Vendor};

/// How long a call may take, as the client tells its controller: no vendor here is slower.
const TIMEOUT: Span = Span::from_secs(60);

/// How workers behave besides their controller.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// A process reports accepted calls at most once in this time.
    pub report_every: Span,
    /// After a refusal, a call sleeps up to 1, 2, 4 ... 20 s before it takes again, as AWS's SDKs do.
    pub sleeps_after_refusals: bool,
    /// The fewest and the most tokens of a call.
    pub tokens: (u64, u64),
}

impl Client {
    pub(crate) fn call(&self, random: &mut Random) -> CallCost {
        CallCost { tokens: random.between(self.tokens.0, self.tokens.1) }
    }
}

impl Default for Client {
    fn default() -> Self {
        Self { report_every: Span::from_secs(1), sleeps_after_refusals: false, tokens: (0, 0) }
    }
}

/// A run. Demand is saturated: a worker calls as soon as it may.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The same seed gives the same run.
    pub seed: u64,
    /// From the epoch on.
    pub length: Span,
    /// Processes. Each reports for itself.
    pub workers: usize,
    /// All workers share one controller, or each has its own.
    pub shared: bool,
    /// Calls in flight of all workers together.
    pub in_flight: usize,
    /// How workers behave.
    pub client: Client,
}

/// Runs workers against a vendor. `controllers` makes a controller and its first pace.
pub fn run<C, F>(terms: &Terms, run: &Run, mut controllers: C) -> Figures
where
    C: FnMut() -> (Pace, F),
    F: FnMut(&Report<'_>) -> Pace,
{
    let mut simulation = Simulation::new(terms, run, &mut controllers);
    let end = Timestamp::EPOCH.plus(run.length);
    while let Some(at) = simulation.next_time() {
        if at >= end {
            break;
        }
        simulation.step(at);
    }
    simulation.figures.finish(end);
    simulation.figures
}

/// What happens at a time, in the order of the number, so that equal times keep their order.
type Event = Reverse<(Timestamp, u64, Happening)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Decide(usize),
    Answered(usize),
    Ready(usize),
    Flush(usize),
}

/// One of the calls that may be in flight.
#[derive(Clone, Debug)]
struct Slot {
    worker: usize,
    cut: u64,
    grant: u64,
    capped: bool,
    latency: Span,
    tries: u32,
    answer: Option<Answer>,
}

/// One process: what it has not reported yet.
#[derive(Clone, Debug, Default)]
struct Worker {
    account: usize,
    accepted: u64,
    answered: u64,
    failed: u64,
    accepted_cut: u64,
    quotas: Vec<VendorQuota>,
    quotas_at: Timestamp,
    limits: Vec<Option<u64>>,
    reported: Timestamp,
    flush_planned: bool,
}

struct Simulation<F> {
    run: Run,
    vendor: Vendor,
    random: Random,
    now: Timestamp,
    events: BinaryHeap<Event>,
    numbers: u64,
    slots: Vec<Slot>,
    workers: Vec<Worker>,
    accounts: Vec<(Account, F, VecDeque<usize>)>,
    figures: Figures,
}

impl<F: FnMut(&Report<'_>) -> Pace> Simulation<F> {
    fn new(terms: &Terms, run: &Run, controllers: &mut impl FnMut() -> (Pace, F)) -> Self {
        let accounts = if run.shared { 1 } else { run.workers };
        let accounts = (0..accounts).map(|_| {
            let (pace, controller) = controllers();
            (Account::new(pace), controller, VecDeque::new())
        });
        let mut accounts: Vec<_> = accounts.collect();
        let last = accounts.len() - 1;
        let worker = |number: usize| Worker { account: number.min(last), ..Worker::default() };
        let workers: Vec<Worker> = (0..run.workers).map(worker).collect();
        let slot = |number| {
            let worker = number % run.workers;
            Slot { worker, cut: 0, grant: 0, capped: false, latency: Span::ZERO, tries: 0, answer: None }
        };
        let slots: Vec<Slot> = (0..run.in_flight).map(slot).collect();
        for (number, slot) in slots.iter().enumerate() {
            accounts[workers[slot.worker].account].2.push_back(number);
        }
        Self {
            run: *run,
            vendor: Vendor::new(terms.clone(), run.seed.wrapping_mul(31).wrapping_add(7)),
            random: Random::new(run.seed),
            now: Timestamp::EPOCH,
            events: BinaryHeap::new(),
            numbers: 0,
            slots,
            workers,
            accounts,
            figures: Figures::new(run.length),
        }
    }

    /// The time of the next event or grant.
    fn next_time(&self) -> Option<Timestamp> {
        let grants = self.accounts.iter().filter(|(.., waiting)| !waiting.is_empty());
        let grant = grants.filter_map(|(account, ..)| account.next_grant(self.now)).min();
        let event = self.events.peek().map(|Reverse((at, ..))| *at);
        [grant, event].into_iter().flatten().min()
    }

    fn step(&mut self, at: Timestamp) {
        self.now = at;
        if self.events.peek().is_some_and(|Reverse((event, ..))| *event <= at) {
            if let Some(Reverse((.., happening))) = self.events.pop() {
                self.handle(happening);
            }
            return;
        }
        for (account, _, waiting) in &mut self.accounts {
            if waiting.is_empty() || account.next_grant(at) != Some(at) {
                continue;
            }
            let capped = account.grant(at);
            let (cut, grant) = (account.cut, account.grants);
            if let Some(number) = waiting.pop_front() {
                let (low, high) = self.vendor.terms().latency;
                let latency = Span::from_micros(self.random.between(low.as_micros(), high.as_micros()));
                let slot = &mut self.slots[number];
                *slot = Slot { cut, grant, capped, latency, answer: None, ..slot.clone() };
                self.schedule(Span::from_micros(latency.as_micros() / 2), Happening::Decide(number));
            }
            return;
        }
    }

    fn schedule(&mut self, after: Span, happening: Happening) {
        self.numbers += 1;
        self.events.push(Reverse((self.now.plus(after), self.numbers, happening)));
    }

    fn handle(&mut self, happening: Happening) {
        match happening {
            Happening::Decide(slot) => {
                let call = self.run.client.call(&mut self.random);
                let answer = self.vendor.decide(self.now, call);
                if answer.outcome != Outcome::Failed {
                    self.figures.count(self.now, answer.outcome == Outcome::Accepted);
                }
                let latency = self.slots[slot].latency.as_micros();
                self.slots[slot].answer = Some(answer);
                self.schedule(Span::from_micros(latency - latency / 2), Happening::Answered(slot));
            }
            Happening::Answered(slot) => self.answered(slot),
            Happening::Ready(slot) => self.wait_for_grant(slot),
            Happening::Flush(worker) => {
                self.workers[worker].flush_planned = false;
                self.report(worker, None);
            }
        }
    }

    fn wait_for_grant(&mut self, slot: usize) {
        let account = self.workers[self.slots[slot].worker].account;
        self.accounts[account].2.push_back(slot);
    }

    fn answered(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        let (worker, cut, grant) = (slot.worker, slot.cut, slot.grant);
        let Some(answer) = slot.answer.take() else { return };
        self.workers[worker].answered += 1;
        if answer.outcome != Outcome::Refused {
            self.vendor.finish_call();
        }
        if answer.outcome == Outcome::Refused {
            slot.tries += 1;
            let sleep = (1_u64 << slot.tries.min(5) >> 1).min(20) * self.random.between(0, 1_000_000);
            let sleep = if self.run.client.sleeps_after_refusals { sleep } else { 0 };
            self.report(worker, Some(RateRefusal { cut, wait: answer.wait, named: answer.named }));
            self.schedule(Span::from_micros(sleep), Happening::Ready(number));
            return;
        }
        slot.tries = 0;
        let capped = slot.capped;
        let reporter = &mut self.workers[worker];
        reporter.accepted += u64::from(answer.outcome == Outcome::Accepted);
        reporter.failed += u64::from(answer.outcome == Outcome::Failed);
        reporter.accepted_cut = reporter.accepted_cut.max(cut);
        let limits: Vec<_> = answer.quotas.iter().map(|quota| quota.limit).collect();
        let changed = limits != reporter.limits;
        reporter.limits = limits;
        reporter.quotas = answer.quotas;
        reporter.quotas_at = self.now;
        for quota in &mut reporter.quotas {
            quota.grant = grant;
        }
        let age = self.now.since(reporter.reported);
        if capped || changed || age >= self.run.client.report_every {
            self.report(worker, None);
        } else if !reporter.flush_planned {
            reporter.flush_planned = true;
            let rest = self.run.client.report_every.as_micros() - age.as_micros();
            self.schedule(Span::from_micros(rest), Happening::Flush(worker));
        }
        self.wait_for_grant(number);
    }

    fn report(&mut self, worker: usize, refusal: Option<RateRefusal>) {
        let worker = &mut self.workers[worker];
        let (account, controller, _) = &mut self.accounts[worker.account];
        let mut quotas = std::mem::take(&mut worker.quotas);
        for quota in &mut quotas {
            quota.age = self.now.since(worker.quotas_at);
        }
        let accepted = std::mem::take(&mut worker.accepted);
        worker.reported = self.now;
        let accepted_cut = worker.accepted_cut;
        let grants = account.grants;
        let answered = std::mem::take(&mut worker.answered);
        let report = Report {
            now: self.now,
            grants,
            accepted,
            answered,
            failed: std::mem::take(&mut worker.failed),
            timeout: TIMEOUT,
            accepted_cut,
            refusal,
            quotas: &quotas,
            keep: Keep::default(),
        };
        account.follow(self.now, controller(&report));
    }
}
