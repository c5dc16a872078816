//! The vendor: quotas, what it tells its clients, and other clients on the same key.

use tollway_core::controller::VendorQuota;
use tollway_core::{Span, Timestamp};

use crate::headers::HeaderStyle;
use crate::quota::Meter;
use crate::ruling::CONCURRENCY_WAIT;
use crate::{Quota, QuotaState, Random, Ruling, Shape, Unit};

const MINUTE: Span = Span::from_mins(1);

/// The most calls of other clients that one call catches up with; after a longer pause the rest is left out.
const OTHERS_AT_ONCE_MAX: usize = 1_000_000;

/// What a vendor says about its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// A refusal is a status and nothing else.
    Bare,
    /// A refusal names a wait in whole seconds.
    Waits,
    /// Every answer shows all quotas of calls, and a refusal names a wait.
    Headers,
    /// A refusal names the exhausted quota. Its wait is never longer than a minute, even for a quota of a day.
    Bodies,
}

/// The terms of a vendor.
#[derive(Clone, Debug)]
pub struct Terms {
    /// A call needs room in all of them.
    pub quotas: Vec<Quota>,
    /// What the vendor says about them.
    pub voice: Voice,
    /// How [`Voice::Headers`] shows quotas.
    pub headers: HeaderStyle,
    /// The shortest and the longest time a call takes. The vendor decides at half of it.
    pub latency: (Span, Span),
    /// A refused call counts against the quotas too.
    pub refusals_count: bool,
    /// Calls a second, in millionths, of other clients on the same key; they come at random times.
    pub others: u64,
    /// Calls that fail with a 5xx, of a thousand. They count.
    pub errors: u64,
    /// The most calls that may run at the same time.
    pub concurrent: Option<u64>,
}

impl Terms {
    /// A vendor with these quotas that tells waits and answers within 0.15 to 0.35 s.
    pub fn new(quotas: Vec<Quota>) -> Self {
        let latency = (Span::from_millis(150), Span::from_millis(350));
        Self {
            quotas,
            voice: Voice::Waits,
            headers: HeaderStyle::default(),
            latency,
            refusals_count: false,
            others: 0,
            errors: 0,
            concurrent: None,
        }
    }
}

/// What a call costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCost {
    /// Tokens, for quotas that count them.
    pub tokens: u64,
}

impl CallCost {
    fn units(self, unit: Unit) -> u64 {
        match unit {
            Unit::Calls => 1,
            Unit::Tokens => self.tokens,
        }
    }
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A 2xx.
    Accepted,
    /// A 429.
    Refused,
    /// A 5xx.
    Failed,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Accepted, refused or failed.
    pub outcome: Outcome,
    /// The wait a refusal asks for.
    pub wait: Option<Span>,
    /// The period and the amount of calls of the quota that a refusal names.
    pub named: Option<(Span, Option<u64>)>,
    /// The quotas in the headers. The vendor does not know grants: they are 0.
    pub quotas: Vec<VendorQuota>,
}

/// A vendor and the state of its quotas.
#[derive(Clone, Debug)]
pub struct Vendor {
    terms: Terms,
    meters: Vec<Meter>,
    random: Random,
    next_other: Timestamp,
    /// Calls that were let in and have not finished.
    running: u64,
}

impl Vendor {
    /// A vendor whose quotas are full, from the epoch on.
    pub fn new(terms: Terms, seed: u64) -> Self {
        Self::starting_at(Timestamp::EPOCH, terms, seed)
    }

    /// A vendor whose quotas are full. Other clients on its key begin at `start`.
    pub fn starting_at(start: Timestamp, terms: Terms, seed: u64) -> Self {
        let meters = terms.quotas.iter().cloned().map(Meter::new).collect();
        let mut vendor = Self { terms, meters, random: Random::new(seed), next_other: start, running: 0 };
        vendor.schedule_other();
        vendor
    }

    /// The terms.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Replaces the quotas. One that has a predecessor of the same unit at its place goes on with what that one had used.
    pub fn set_quotas(&mut self, quotas: Vec<Quota>) {
        self.meters.truncate(quotas.len());
        for (place, quota) in quotas.iter().enumerate() {
            match self.meters.get_mut(place) {
                Some(meter) if meter.unit() == quota.unit => meter.set_quota(quota.clone()),
                Some(meter) => *meter = Meter::new(quota.clone()),
                None => self.meters.push(Meter::new(quota.clone())),
            }
        }
        self.terms.quotas = quotas;
    }

    /// Decides a call and says what the vendor's [`Voice`] says. Times must not go back.
    pub fn decide(&mut self, now: Timestamp, call: CallCost) -> Answer {
        let outcome = self.admit(now, call);
        if outcome != Outcome::Refused {
            return Answer { outcome, wait: None, named: None, quotas: self.headers(now) };
        }
        let answer = self.refuse(now, call);
        self.count_refusal(now, call);
        answer
    }

    /// Decides a call and shows every quota. Times must not go back.
    pub fn rule(&mut self, now: Timestamp, call: CallCost) -> Ruling {
        let outcome = self.admit(now, call);
        let is_refused = outcome == Outcome::Refused;
        let states = self.meters.iter_mut().map(|meter| {
            let (left, units) = (meter.left(now), call.units(meter.unit()));
            let wait = (is_refused && left < units).then(|| meter.wait(now, units));
            QuotaState {
                unit: meter.unit(),
                shape: meter.shape(now),
                left,
                full_in: meter.full_in(now),
                wait,
            }
        });
        let quotas = states.collect();
        let concurrent = self.terms.concurrent.map(|calls| (calls, calls.saturating_sub(self.running)));
        if is_refused {
            self.count_refusal(now, call);
        }
        Ruling { at: now, outcome, quotas, concurrent }
    }

    /// A call that was not refused has been answered.
    pub fn finish_call(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Lets a call in and counts it, or refuses it.
    fn admit(&mut self, now: Timestamp, call: CallCost) -> Outcome {
        self.admit_others(now);
        let at_once = self.terms.concurrent.unwrap_or(u64::MAX);
        if !self.fits(now, call) || self.running >= at_once {
            return Outcome::Refused;
        }
        self.spend(now, call);
        self.running += 1;
        let failed = self.terms.errors > 0 && self.random.per_thousand(self.terms.errors);
        if failed { Outcome::Failed } else { Outcome::Accepted }
    }

    fn admit_others(&mut self, now: Timestamp) {
        for _ in 0..OTHERS_AT_ONCE_MAX {
            if self.next_other > now {
                return;
            }
            let at = self.next_other;
            if self.fits(at, CallCost::default()) {
                self.spend(at, CallCost::default());
            }
            self.schedule_other();
        }
        self.next_other = now;
        self.schedule_other();
    }

    fn count_refusal(&mut self, now: Timestamp, call: CallCost) {
        if self.terms.refusals_count {
            self.spend(now, call);
        }
    }

    /// True if every quota has room.
    pub(crate) fn fits(&mut self, now: Timestamp, call: CallCost) -> bool {
        self.meters.iter_mut().all(|meter| meter.left(now) >= call.units(meter.unit()))
    }

    pub(crate) fn spend(&mut self, now: Timestamp, call: CallCost) {
        for meter in &mut self.meters {
            meter.left(now);
            meter.spend(now, call.units(meter.unit()));
        }
    }

    fn refuse(&mut self, now: Timestamp, call: CallCost) -> Answer {
        let mut longest: Option<(Span, Shape, Unit)> = None;
        for meter in &mut self.meters {
            let units = call.units(meter.unit());
            if meter.left(now) >= units {
                continue;
            }
            let wait = meter.wait(now, units);
            if longest.is_none_or(|(longest, ..)| wait > longest) {
                longest = Some((wait, meter.shape(now), meter.unit()));
            }
        }
        let told = longest.map(|(wait, ..)| whole_seconds(wait));
        let (wait, named) = match (self.terms.voice, longest) {
            (Voice::Bare, _) => (None, None),
            (_, None) => (Some(CONCURRENCY_WAIT), None),
            (Voice::Waits | Voice::Headers, Some(_)) => (told, None),
            // Gemini sends a delay of less than a minute for a quota of a day too.
            (Voice::Bodies, Some((_, shape, unit))) => {
                (told.map(|wait| if wait > MINUTE { Span::from_secs(36) } else { wait }), name(shape, unit))
            }
        };
        Answer { outcome: Outcome::Refused, wait, named, quotas: Vec::new() }
    }

    fn headers(&mut self, now: Timestamp) -> Vec<VendorQuota> {
        if self.terms.voice != Voice::Headers {
            return Vec::new();
        }
        let style = self.terms.headers;
        let node = self.random.below(style.nodes());
        let calls = self.meters.iter_mut().filter(|meter| meter.unit() == Unit::Calls);
        calls.map(|meter| style.header_quota(meter, now, node)).collect()
    }

    fn schedule_other(&mut self) {
        self.next_other = match self.terms.others {
            0 => Timestamp::MAX,
            rate => {
                let seconds = -(1.0 - self.random.fraction()).ln() * 1e6 / rate as f64;
                self.next_other.plus(Span::from_micros((seconds * 1e6) as u64 + 1))
            }
        };
    }
}

/// As `Retry-After` has it: rounded up.
pub(crate) fn whole_seconds(span: Span) -> Span {
    Span::from_secs(span.as_micros().div_ceil(1_000_000).max(1))
}

fn name(shape: Shape, unit: Unit) -> Option<(Span, Option<u64>)> {
    match shape {
        Shape::Window { amount, length, .. } | Shape::Sliding { amount, length } => {
            Some((length, (unit == Unit::Calls).then_some(amount)))
        }
        Shape::Bucket { .. } => None,
    }
}
