//! Controllers of adaptive limits: they find a vendor's limit from its answers and stay under it.
//!
//! A controller is pure. It gets a [`Report`] of what a process saw and returns a [`Pace`]: how fast the store may grant
//! calls from now on. It reads no clock and draws no random numbers.

mod aimd;
mod arithmetic;
mod auto;
#[cfg(test)]
mod failing_tests;
#[cfg(test)]
mod header_tests;
mod keep;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use aimd::{Aimd, AimdError, AimdSettings};
pub use auto::{Auto, START_RATE};
pub use keep::{Keep, KeepError};

use crate::{Span, Timestamp};

/// One call a second, in the unit of rates and bursts: millionths.
pub const ONE_CALL: u64 = 1_000_000;

/// The longest hold after a refusal, unless the vendor names a longer quota: a vendor may send nonsense.
pub const HOLD_MAX: Span = Span::from_hours(1);

/// The longest hold after the refusal of a named quota: a day, and the hour by which clocks change.
pub const HOLD_DAILY_MAX: Span = Span::from_hours(25);

/// What a process tells a controller: at most once a second, and at once after a refusal, after the last call
/// of a [`Cap`], and when a vendor's quota changes its limit.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The store's time.
    pub now: Timestamp,
    /// Calls the store has granted since the account was made.
    pub grants: u64,
    /// Calls that succeeded since this process last reported. An answer that is neither a success nor a refusal, such as a
    /// 404, says nothing about the rate.
    pub accepted: u64,
    /// Calls of this process that ended since it last reported, however they did: what is still in flight is not known
    /// otherwise.
    pub answered: u64,
    /// Those of them that failed: a 5xx, a timeout, no connection.
    pub failed: u64,
    /// How long a call may take.
    pub timeout: Span,
    /// The newest [`Pace::cut`] under which one of these was granted.
    pub accepted_cut: u64,
    /// A refusal because of a rate. Other kinds are not reported: they say nothing about the rate.
    pub refusal: Option<RateRefusal>,
    /// The quotas in the headers of the newest accepted answer.
    pub quotas: &'a [VendorQuota],
    /// The part of windows in headers that is not used.
    pub keep: Keep,
}

/// A vendor's refusal because of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRefusal {
    /// The [`Pace::cut`] under which the refused call was granted.
    pub cut: u64,
    /// How long the vendor asks to wait; `None` for a bare refusal.
    pub wait: Option<Span>,
    /// The quota the vendor names as exhausted: its period and its amount of calls, if it counts calls.
    pub named: Option<(Span, Option<u64>)>,
}

/// One quota as a vendor's headers show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VendorQuota {
    /// Calls a full quota has.
    pub limit: Option<u64>,
    /// Calls left.
    pub remaining: u64,
    /// The time until the quota is full again; `None` for a fill level that drips.
    pub reset: Option<Span>,
    /// How long ago the answer with this header came.
    pub age: Span,
    /// The store's count of grants just after the call that carried this header was granted.
    pub grant: u64,
}

/// What is left of a vendor's quota, as its newest answers showed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLeft {
    /// Calls a full quota has, if the vendor says so.
    pub limit: Option<u64>,
    /// Calls left, less those that were granted since.
    pub remaining: u64,
    /// When the quota is full again, if the vendor says so.
    pub resets_at: Option<Timestamp>,
}

/// How fast the store may grant calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Calls a second, in millionths.
    pub rate: u64,
    /// How many calls may be saved up, in millionths. A call needs [`ONE_CALL`].
    pub burst: u64,
    /// No grant for this long from now.
    pub hold: Span,
    /// Grows with every cut of the rate; a permit carries it.
    pub cut: u64,
    /// A bound on grants in addition to the rate.
    pub cap: Option<Cap>,
}

/// At most so many grants from now on, for a length of time. It replaces an earlier cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// Further grants.
    pub grants: u64,
    /// For how long.
    pub lasts: Span,
}

/// The controller of one adaptive limit, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Controller {
    /// Additive increase, multiplicative decrease, between two given rates.
    Aimd(Aimd),
    /// Measures the vendor's limit.
    Auto(Box<Auto>),
}

impl Controller {
    /// This controller with what a stored one has learned, if it is of the same kind. Settings that have changed apply.
    /// `cut` is the account's: it goes on when another kind of controller takes over.
    #[must_use]
    pub fn resumed(self, stored: Option<Self>, cut: u64) -> Self {
        match (self, stored) {
            (Self::Aimd(configured), Some(Self::Aimd(stored))) => Self::Aimd(stored.under(&configured)),
            (Self::Auto(_), Some(Self::Auto(stored))) => Self::Auto(stored),
            (Self::Aimd(configured), _) => Self::Aimd(configured.after_cuts(cut)),
            (Self::Auto(configured), _) => Self::Auto(Box::new(configured.after_cuts(cut))),
        }
    }

    /// The vendor's limit as it was measured, in millionths of a call a second; none if nothing was measured.
    pub fn ceiling(&self) -> Option<u64> {
        match self {
            Self::Aimd(_) => None,
            Self::Auto(auto) => auto.ceiling(),
        }
    }

    /// What the vendor's headers say is left, after so many grants. Quotas whose reset has passed say nothing.
    pub fn quotas_left(&self, now: Timestamp, grants: u64) -> Vec<QuotaLeft> {
        match self {
            Self::Aimd(_) => Vec::new(),
            Self::Auto(auto) => auto.quotas_left(now, grants),
        }
    }

    /// Whether most calls fail: it slows down and learns nothing until they succeed.
    pub fn is_failing(&self) -> bool {
        match self {
            Self::Aimd(_) => false,
            Self::Auto(auto) => auto.is_failing(),
        }
    }

    /// Whether it now tries a rate above the limit it has measured: a refusal is what it expects.
    pub fn is_probing(&self) -> bool {
        match self {
            Self::Aimd(_) => false,
            Self::Auto(auto) => auto.is_probing(),
        }
    }

    /// Takes in a report and returns the pace from now on.
    pub fn report(&mut self, report: &Report<'_>) -> Pace {
        match self {
            Self::Aimd(aimd) => aimd.report(report),
            Self::Auto(auto) => auto.report(report),
        }
    }

    /// The pace before the first report.
    pub fn pace(&self, now: Timestamp) -> Pace {
        match self {
            Self::Aimd(aimd) => aimd.pace(now),
            Self::Auto(auto) => auto.pace(now, 0, Keep::default()),
        }
    }
}
