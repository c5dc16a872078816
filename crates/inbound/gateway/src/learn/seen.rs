//! What is kept of the calls of one api.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use tollway::{Span, Timestamp};
use tollway_dialects::{Observation, QuotaUnit, TokenUsage, VendorQuota};

/// The most quotas of one api: vendors tell up to eight.
const QUOTAS_MAX: usize = 16;

/// Counts in spans of this length by the clock.
const SPANS: [Span; 2] = [Span::from_secs(1), Span::from_secs(60)];

/// What was seen of an api.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    pub(super) calls: u64,
    pub(super) answered: u64,
    /// Answered by 5xx.
    pub(super) failed: u64,
    /// The dialect of the last answer that told a quota or a refusal.
    pub(super) dialect: Option<&'static str>,
    pub(super) refusals: BTreeMap<&'static str, Refused>,
    pub(super) quotas: BTreeMap<(String, &'static str), QuotaSeen>,
    in_flight: u64,
    pub(super) most_in_flight: u64,
    /// Accepted calls in the current second and minute, and the most in any.
    spans: [(u64, u64); 2],
    pub(super) most_accepted: [u64; 2],
    pub(super) tokens: TokensSeen,
    /// Answers whose bodies were not read, or not to their end.
    pub(super) unread: BTreeMap<Unread, u64>,
}

/// Why a body, or a part of it, was not read for what it says about limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unread {
    Compressed,
    Stream,
    TooLong,
}

/// The tokens that answers say they used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TokensSeen {
    /// Answers that said so.
    pub(super) answers: u64,
    pub(super) most_in_call: u64,
    /// In the current minute by the clock, and the most in any.
    minute: (u64, u64),
    pub(super) most_in_minute: u64,
}

/// Refusals of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refused {
    pub(super) count: u64,
    pub(super) longest_wait: Option<Duration>,
}

/// A quota that answers tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QuotaSeen {
    pub(super) told: u64,
    pub(super) limit: Option<u64>,
    /// Whether answers told different limits.
    pub(super) varies: bool,
    pub(super) window: Option<Duration>,
    pub(super) longest_reset: Option<Duration>,
    pub(super) least_left: Option<u64>,
}

impl Seen {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            since: now,
            until: now,
            calls: 0,
            answered: 0,
            failed: 0,
            dialect: None,
            refusals: BTreeMap::new(),
            quotas: BTreeMap::new(),
            in_flight: 0,
            most_in_flight: 0,
            spans: [(0, 0); 2],
            most_accepted: [0; 2],
            tokens: TokensSeen::default(),
            unread: BTreeMap::new(),
        }
    }

    pub(super) fn sent(&mut self, now: Timestamp) {
        self.until = now;
        self.calls = self.calls.saturating_add(1);
        self.in_flight = self.in_flight.saturating_add(1);
        self.most_in_flight = self.most_in_flight.max(self.in_flight);
    }

    pub(super) fn ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    pub(super) fn answered(
        &mut self,
        status: StatusCode,
        dialect: &'static str,
        observed: &Observation,
        now: Timestamp,
    ) {
        self.until = now;
        self.answered = self.answered.saturating_add(1);
        if status.is_server_error() {
            self.failed = self.failed.saturating_add(1);
        }
        if observed.refusal.is_some() || !observed.quotas.is_empty() {
            self.dialect = Some(dialect);
        }
        match observed.refusal {
            Some(kind) => {
                let refused = self.refusals.entry(kind.as_str()).or_default();
                refused.count = refused.count.saturating_add(1);
                refused.longest_wait = refused.longest_wait.max(observed.wait);
            }
            None if !status.is_server_error() => self.accepted(now),
            None => {}
        }
        observed.quotas.iter().for_each(|quota| self.quota(quota));
    }

    /// An answer has said how many tokens its call used.
    pub(super) fn used(&mut self, usage: TokenUsage, now: Timestamp) {
        let (tokens, [_, minute]) = (&mut self.tokens, SPANS);
        tokens.answers = tokens.answers.saturating_add(1);
        tokens.most_in_call = tokens.most_in_call.max(usage.total());
        add_in_span(&mut tokens.minute, &mut tokens.most_in_minute, minute, usage.total(), now);
    }

    /// A body is not read, or not to its end.
    pub(super) fn unread(&mut self, why: Unread) {
        let count = self.unread.entry(why).or_default();
        *count = count.saturating_add(1);
    }

    fn accepted(&mut self, now: Timestamp) {
        for ((current, most), span) in self.spans.iter_mut().zip(&mut self.most_accepted).zip(SPANS) {
            add_in_span(current, most, span, 1, now);
        }
    }

    fn quota(&mut self, quota: &VendorQuota) {
        let key = (quota.name.clone().unwrap_or_default(), quota.unit.as_str());
        if self.quotas.len() >= QUOTAS_MAX && !self.quotas.contains_key(&key) {
            return;
        }
        let seen = self.quotas.entry(key).or_default();
        seen.told = seen.told.saturating_add(1);
        seen.varies |= quota.limit.is_some() && seen.limit.is_some() && quota.limit != seen.limit;
        // The smallest one is kept by every answer.
        seen.limit = [seen.limit, quota.limit].into_iter().flatten().min();
        seen.window = quota.window.or(seen.window);
        seen.longest_reset = seen.longest_reset.max(quota.reset.map(|reset| reset.after()));
        seen.least_left = [seen.least_left, quota.remaining].into_iter().flatten().min();
    }

    /// Calls in flight that the vendor tells as its limit.
    pub(super) fn concurrency(&self) -> Option<u64> {
        let unit = QuotaUnit::ConcurrentRequests.as_str();
        self.quotas.iter().find(|((_, known), _)| *known == unit).and_then(|(_, seen)| seen.limit)
    }
}

/// Adds to the sum of the current span, which has a number by the clock, and keeps the largest sum of any.
fn add_in_span(current: &mut (u64, u64), most: &mut u64, span: Span, amount: u64, now: Timestamp) {
    let number = now.as_micros().checked_div(span.as_micros()).unwrap_or_default();
    if current.0 != number {
        *current = (number, 0);
    }
    current.1 = current.1.saturating_add(amount);
    *most = (*most).max(current.1);
}
