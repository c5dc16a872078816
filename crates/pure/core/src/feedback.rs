//! What a vendor's answers say about an account, and what the account has learned from them.
//!
//! Three things a vendor says that the policy does not know: "not before then" is a hold on the whole account, "only so many
//! until then" a cap on one limit, and everything else changes the rate of an adaptive limit. A hold and a cap only take
//! away, so answers that come late, twice or in another order do no harm. A rate is written only if nobody else has written
//! it since it was read.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::algorithm::Meter;
use crate::bounds::{AMOUNT_MAX, CAP_MAX, CONTROLLER_BYTES_MAX, COUNT_MAX, RATE_MAX};
use crate::controller::HOLD_DAILY_MAX;
use crate::decision::Refusal;
use crate::{Account, Charge, Span, Timestamp};

/// Ends of a vendor's window that are closer together than this are the same: vendors round them to seconds.
const SAME_END: Span = Span::from_secs(1);

/// What a vendor's answers say about one account. The default says nothing and only reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// No grant for this long from now, at most [`HOLD_DAILY_MAX`]. Of two holds the later end stays.
    pub hold: Span,
    /// What is left of limits.
    pub left: SmallVec<[LimitLeft; 2]>,
    /// The rate from now on, if this is still the version that was read.
    pub rate: Option<RateChange>,
}

/// At most so many more units of a limit, for a length of time. Of one end the smaller number stays; a later end
/// replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitLeft {
    /// The limit, by its index in the policy.
    pub limit: usize,
    /// The units.
    pub units: u64,
    /// For how long.
    pub lasts: Span,
}

/// A new rate of an adaptive limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateChange {
    /// The version it was computed from. Another one in the account means a lost race: nothing is written.
    pub version: u64,
    /// Calls a second, in millionths.
    pub rate: u64,
    /// The most calls that can be saved up.
    pub burst: u64,
    /// Whether this is a cut after a refusal.
    pub cut: bool,
    /// At most so many more calls, for a length of time. Replaces what the last change said.
    pub left: Option<(u64, Span)>,
    /// The state of the controller, at most [`CONTROLLER_BYTES_MAX`].
    pub controller: String,
}

/// What an account has learned from a vendor's answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    /// The store's time.
    pub now: Timestamp,
    /// Until when nothing is granted, if that is later than now.
    pub held_until: Option<Timestamp>,
    /// The state of the policy's adaptive limit, if it has one.
    pub rate: Option<LearnedRate>,
    /// Whether the rate of this feedback was written.
    pub written: bool,
}

/// The state of an adaptive limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields of `Adaptive` of the same names")]
pub struct LearnedRate {
    pub rate: u64,
    pub burst: u64,
    /// Calls that could be made at once.
    pub available: u64,
    pub grants: u64,
    pub version: u64,
    pub cut: u64,
    pub cut_at: Timestamp,
    pub controller: String,
}

/// A cap on one limit of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cap {
    /// The [`Limit::identity`](crate::Limit::identity) of the limit.
    pub identity: u32,
    /// The units that may still be taken.
    pub left: u64,
    /// When it ends.
    pub until: Timestamp,
}

impl Cap {
    /// The time from `at` on at which `amount` fits.
    pub(crate) fn earliest(&self, amount: u64, at: Timestamp) -> Timestamp {
        if at < self.until && amount > self.left { self.until } else { at }
    }
}

/// Takes in what a vendor said. Returns what the account knows now, and whether it has changed.
pub(crate) fn learn(
    charges: &[Charge],
    accounts: &mut [Account],
    feedback: &Feedback,
    now: Timestamp,
) -> Result<(Learned, bool), Refusal> {
    let ([charge], [account]) = (charges, accounts) else { return Err(Refusal::ChargeCount(charges.len())) };
    let bytes = feedback.rate.as_ref().map_or(0, |change| change.controller.len());
    if bytes > CONTROLLER_BYTES_MAX {
        return Err(Refusal::ControllerTooLong(bytes));
    }
    let now = now.max(account.seen);
    let mut changed = hold(account, now.plus(feedback.hold.min(HOLD_DAILY_MAX)), now);
    for left in &feedback.left {
        changed |= cap(charge, account, *left, now);
    }
    let written = feedback.rate.as_ref().is_some_and(|change| change_rate(charge, account, change, now));
    if changed || written {
        account.advance_to(&charge.policy, now);
        account.drop_past();
        account.update_expiry(&charge.policy);
    }
    Ok((read(charge, account, now, written), changed || written))
}

fn hold(account: &mut Account, until: Timestamp, now: Timestamp) -> bool {
    let later = until > now.max(account.held_until());
    if later {
        account.extra_mut().held_until = until;
    }
    later
}

fn cap(charge: &Charge, account: &mut Account, left: LimitLeft, now: Timestamp) -> bool {
    let Some(limit) = charge.policy.limits().get(left.limit) else { return false };
    let new = Cap {
        identity: limit.identity(),
        left: left.units.min(COUNT_MAX),
        until: now.plus(left.lasts.min(CAP_MAX)),
    };
    let known = account.caps().iter().find(|cap| cap.identity == new.identity && cap.until > now);
    let new = match known {
        _ if new.until <= now => return false,
        None => new,
        Some(known) if new.until > known.until.plus(SAME_END) => new,
        Some(known) if known.until <= new.until.plus(SAME_END) && new.left < known.left => {
            Cap { left: new.left, ..*known }
        }
        Some(_) => return false,
    };
    set_cap(account, new.identity, Some(new));
    true
}

fn set_cap(account: &mut Account, identity: u32, cap: Option<Cap>) {
    let extra = account.extra_mut();
    extra.caps.retain(|known| known.identity != identity);
    extra.caps.extend(cap);
    account.drop_empty_extra();
}

/// Writes a new rate, if the account still has the version it was computed from. The time until now counts at the
/// old rate.
fn change_rate(charge: &Charge, account: &mut Account, change: &RateChange, now: Timestamp) -> bool {
    let version = |meter: &Meter| meter.state.adaptive().map(|adaptive| adaptive.version);
    let Some(index) = account.meters.iter().position(|meter| version(meter) == Some(change.version)) else {
        return false;
    };
    account.advance_to(&charge.policy, now);
    let Some(meter) = account.meters.get_mut(index) else { return false };
    let identity = meter.identity;
    let Some(adaptive) = meter.state.adaptive_mut() else { return false };
    adaptive.version = adaptive.version.saturating_add(1);
    (adaptive.rate, adaptive.burst) = (change.rate.clamp(1, RATE_MAX), change.burst.clamp(1, AMOUNT_MAX));
    adaptive.controller.clone_from(&change.controller);
    if change.cut {
        (adaptive.cut, adaptive.cut_at) = (adaptive.cut.saturating_add(1), now);
    }
    let cap = change.left.map(|(left, lasts)| Cap {
        identity,
        left: left.min(COUNT_MAX),
        until: now.plus(lasts.min(CAP_MAX)),
    });
    set_cap(account, identity, cap.filter(|cap| cap.until > now));
    true
}

fn read(charge: &Charge, account: &Account, now: Timestamp, written: bool) -> Learned {
    let at = now.max(account.as_of());
    let mut meters = charge.policy.limits().iter().zip(&*account.meters);
    let rate = meters.find_map(|(limit, meter)| {
        let mut meter = meter.clone();
        limit.advance(&mut meter, account.as_of(), at);
        let used = limit.used(&meter, at, at);
        let adaptive = meter.state.adaptive()?;
        Some(LearnedRate {
            rate: adaptive.rate_in_force(limit.starts_at().unwrap_or_default()),
            burst: adaptive.burst,
            available: adaptive.burst.saturating_sub(used),
            grants: adaptive.grants,
            version: adaptive.version,
            cut: adaptive.cut,
            cut_at: adaptive.cut_at,
            controller: adaptive.controller.clone(),
        })
    });
    let held_until = Some(account.held_until()).filter(|until| *until > now);
    Learned { now, held_until, rate, written }
}
