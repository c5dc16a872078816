//! What is known about the apis that this process calls: their rates, holds and refusals.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollway_core::{Name, Span, Timestamp};

use super::refusals::{ApiRefusal, LastRefusals};
use crate::Limiter;

/// Why a vendor refuses; the values of the label `kind`.
const REFUSAL_KINDS: [&str; 6] = ["rate", "concurrency", "daily_quota", "overload", "no_access", "lock"];

/// Whose refusal it was; the values of the label `whose`.
const OURS: &str = "ours";
pub(super) const VENDORS: &str = "vendor";

/// What kept a call from being sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotSent {
    /// A limit of ours denied it.
    Limit(Name),
    /// Too many calls of this process were before it.
    Queue,
    /// The vendor holds calls back.
    Hold,
}

/// What is known about one api. Written by the client, read by the metrics.
#[derive(Debug, Default)]
pub struct ApiFigures {
    /// In millionths of a call a second; 0 if unknown.
    rate: AtomicU64,
    ceiling: AtomicU64,
    available: AtomicU64,
    /// By the local clock, in microseconds.
    held_until: AtomicU64,
    refusals: [AtomicU64; REFUSAL_KINDS.len()],
    last_refusals: LastRefusals,
    /// Limits come from the config, so there are few.
    not_sent: Mutex<BTreeMap<NotSent, u64>>,
}

impl ApiFigures {
    /// The rate in force and the measured ceiling, in millionths of a call a second, and the calls that could be made at
    /// once.
    pub fn set_rate(&self, rate: Option<u64>, available: Option<u64>, ceiling: Option<u64>) {
        self.rate.store(rate.unwrap_or(0), Ordering::Relaxed);
        self.available.store(available.unwrap_or(0), Ordering::Relaxed);
        self.ceiling.store(ceiling.unwrap_or(0), Ordering::Relaxed);
    }

    /// The vendor holds calls back for this long from now, by the local clock.
    pub fn set_held_for(&self, held: Option<Span>, now: Timestamp) {
        let until = held.map_or(0, |held| now.plus(held).as_micros());
        self.held_until.store(until, Ordering::Relaxed);
    }

    /// The vendor refused a call: `rate`, `concurrency`, `daily_quota`, `overload`, `no_access` or `lock`.
    pub fn count_refusal(&self, kind: &str) {
        let known = REFUSAL_KINDS.iter().zip(&self.refusals).find(|(known, _)| **known == kind);
        if let Some((_, count)) = known {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A call ended before it was sent.
    pub fn count_not_sent(&self, why: NotSent) {
        *self.not_sent.lock().unwrap_or_else(PoisonError::into_inner).entry(why).or_default() += 1;
    }

    /// Calls that were not sent: whose doing it was, what kept them, how many.
    pub fn not_sent(&self) -> Vec<(&'static str, String, u64)> {
        let not_sent = self.not_sent.lock().unwrap_or_else(PoisonError::into_inner);
        let labels = |why: &NotSent| match why {
            NotSent::Limit(limit) => (OURS, limit.to_string()),
            NotSent::Queue => (OURS, "queue".to_owned()),
            NotSent::Hold => (VENDORS, "hold".to_owned()),
        };
        let labelled = not_sent.iter().map(|(why, count)| (labels(why), *count));
        labelled.map(|((whose, reason), count)| (whose, reason, count)).collect()
    }

    /// Keeps a refusal for a page that shows the last ones.
    pub fn note_refusal(&self, refusal: ApiRefusal) {
        self.last_refusals.note(refusal);
    }

    /// The last refusals of this process, the newest first.
    pub fn last_refusals(&self) -> Vec<ApiRefusal> {
        self.last_refusals.newest_first()
    }

    /// The rate in force, in millionths of a call a second; `None` if it is not known.
    pub fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    pub(super) fn available(&self) -> u64 {
        self.available.load(Ordering::Relaxed)
    }

    /// The vendor's limit as it was measured, in millionths of a call a second.
    pub fn ceiling(&self) -> Option<u64> {
        Some(self.ceiling.load(Ordering::Relaxed)).filter(|ceiling| *ceiling > 0)
    }

    /// How long the vendor still holds calls back, in microseconds.
    pub(super) fn held_for(&self, now: Timestamp) -> u64 {
        self.held_until.load(Ordering::Relaxed).saturating_sub(now.as_micros())
    }

    /// Until when the vendor holds calls back, by the local clock.
    pub fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = Timestamp::from_micros(self.held_until.load(Ordering::Relaxed));
        (until > now).then_some(until)
    }

    /// How often the vendor refused, by the kind of refusal.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REFUSAL_KINDS.into_iter().zip(self.refusals.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

/// The figures of all apis that were called. Apis come from the config, so there are few.
#[derive(Default)]
pub(crate) struct AllApiFigures(Mutex<BTreeMap<Name, Arc<ApiFigures>>>);

impl AllApiFigures {
    fn of(&self, api: &Name) -> Arc<ApiFigures> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(api.clone()).or_default())
    }

    pub(super) fn all(&self) -> Vec<(Name, Arc<ApiFigures>)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, figures)| (name.clone(), Arc::clone(figures))).collect()
    }
}

impl Limiter {
    /// What is known about an api, for the client that calls it to keep up to date.
    pub fn api_figures(&self, api: &Name) -> Arc<ApiFigures> {
        self.registry().state().api_figures.of(api)
    }
}
