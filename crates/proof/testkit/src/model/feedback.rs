//! What a vendor's answers say, in the model.

use tollway_core::bounds::{AMOUNT_MAX, CAP_MAX, CONTROLLER_BYTES_MAX, COUNT_MAX, RATE_MAX};
use tollway_core::controller::HOLD_DAILY_MAX;
use tollway_core::{
    Charge, Feedback, Learned, LearnedRate, LimitLeft, Outcome, RateChange, Refusal, Span, Timestamp,
};

use super::account::Account;

/// Ends of a window that are closer together than this are the same.
const SAME_END: Span = Span::from_secs(1);

/// What the account knows afterwards, and whether it has changed.
pub(super) fn learn(
    charges: &[Charge],
    accounts: &mut [Account],
    said: &Feedback,
    now: Timestamp,
) -> Result<(Outcome, bool), Refusal> {
    let ([charge], [account]) = (charges, accounts) else { return Err(Refusal::ChargeCount(charges.len())) };
    let bytes = said.rate.as_ref().map_or(0, |change| change.controller.len());
    if bytes > CONTROLLER_BYTES_MAX {
        return Err(Refusal::ControllerTooLong(bytes));
    }
    let until = now.plus(said.hold.min(HOLD_DAILY_MAX));
    let mut changed = until > now.max(account.held_until);
    if changed {
        account.held_until = until;
    }
    for left in &said.left {
        changed |= cap(charge, account, left, now);
    }
    let written = said.rate.as_ref().is_some_and(|change| change_rate(charge, account, change, now));
    if changed || written {
        account.undo = None;
        // Of a changed rate, the time until now was recorded at the old one.
        if !written {
            account.record_change(&charge.policy, now);
        }
        account.remember_learned(&charge.policy);
    }
    Ok((Outcome::Learned(read(charge, account, now, written)), changed || written))
}

fn cap(charge: &Charge, account: &mut Account, left: &LimitLeft, now: Timestamp) -> bool {
    let identity = charge.policy.limits()[left.limit].identity();
    let (units, until) = (left.units.min(COUNT_MAX), now.plus(left.lasts.min(CAP_MAX)));
    let known = account.caps.get(&identity).copied().filter(|(_, until)| *until > now);
    let new = match known {
        None => Some((units, until)).filter(|(_, until)| *until > now),
        // A later window of the vendor.
        Some((_, end)) if until > end.plus(SAME_END) => Some((units, until)),
        // The same window: the smaller number is the newer one.
        Some((known, end)) if until.plus(SAME_END) >= end && until > now && units < known => {
            Some((units, end))
        }
        Some(_) => None,
    };
    account.caps.extend(new.map(|cap| (identity, cap)));
    new.is_some()
}

fn change_rate(charge: &Charge, account: &mut Account, change: &RateChange, now: Timestamp) -> bool {
    let Some(limit) = charge.policy.limits().iter().find(|limit| limit.is_adaptive()) else { return false };
    if account.log(limit).learned.version != change.version {
        return false;
    }
    let shown_at = now.max(account.as_of());
    let grants = account.log(limit).grants(limit, shown_at);
    account.record_change(&charge.policy, now);
    let learned = &mut account.log_mut(limit).learned;
    learned.grants = grants;
    learned.version += 1;
    learned.rate = change.rate.clamp(1, RATE_MAX);
    learned.burst = change.burst.clamp(1, AMOUNT_MAX);
    learned.controller.clone_from(&change.controller);
    if change.cut {
        (learned.cut, learned.cut_at) = (learned.cut + 1, now);
    }
    let cap = change.left.filter(|(_, lasts)| *lasts > Span::ZERO);
    account.caps.remove(&limit.identity());
    account.caps.extend(
        cap.map(|(left, lasts)| (limit.identity(), (left.min(COUNT_MAX), now.plus(lasts.min(CAP_MAX))))),
    );
    true
}

fn read(charge: &Charge, account: &Account, now: Timestamp, written: bool) -> Learned {
    let at = now.max(account.as_of());
    let limit = charge.policy.limits().iter().find(|limit| limit.is_adaptive());
    let rate = limit.map(|limit| {
        let log = account.log(limit);
        let burst = log.capacity(limit);
        LearnedRate {
            rate: log.rate(limit).0,
            burst,
            available: burst.saturating_sub(log.used(limit, at)),
            grants: log.grants(limit, at),
            version: log.learned.version,
            cut: log.learned.cut,
            cut_at: log.learned.cut_at,
            controller: log.learned.controller.clone(),
        }
    });
    Learned { now, held_until: Some(account.held_until).filter(|until| *until > now), rate, written }
}
