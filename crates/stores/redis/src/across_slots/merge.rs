//! One outcome of the outcomes of all parts.

use std::cmp::Reverse;

use smallvec::SmallVec;
use tollway_core::{Booking, ChargeStatus, Decision, Denial, Outcome, Outcomes, Settled, Span, TakeOutcome};

use super::look::Looks;
use super::part::Part;

/// How far the clocks of two nodes may be apart. A permit that is known by its id has the time of one node; of another, it may
/// have been granted in the window before.
const CLOCKS_APART: Span = Span::from_secs(1);

/// Of operations whose parts do not depend on each other. `None` if the outcomes are of different operations.
pub(super) fn outcomes(parts: &[Part], outcomes: Outcomes) -> Option<Outcome> {
    let mut each = outcomes.into_iter();
    match each.next()? {
        Outcome::Settled(first) => {
            let next = |known, outcome| match outcome {
                Outcome::Settled(settled) => Some(settled_both(known, settled)),
                _ => None,
            };
            each.try_fold(first, next).map(Outcome::Settled)
        }
        Outcome::Done(first) => {
            let next =
                |known, outcome| if let Outcome::Done(held) = outcome { Some(known | held) } else { None };
            each.try_fold(first, next).map(Outcome::Done)
        }
        Outcome::Renewed(first) => {
            let next =
                |known, outcome| if let Outcome::Renewed(held) = outcome { Some(known & held) } else { None };
            each.try_fold(first, next).map(Outcome::Renewed)
        }
        Outcome::Peeked(first) => {
            let mut statuses = vec![first.into_vec()];
            for outcome in each {
                let Outcome::Peeked(status) = outcome else { return None };
                statuses.push(status.into_vec());
            }
            Some(Outcome::Peeked(in_whole_order(parts, statuses)))
        }
        Outcome::Reset => each.all(|outcome| outcome == Outcome::Reset).then_some(Outcome::Reset),
        refused @ Outcome::Refused(_) => Some(refused),
        Outcome::Decided(_) | Outcome::Begun(_) | Outcome::Learned(_) => None,
    }
}

fn settled_both(one: Settled, other: Settled) -> Settled {
    match (one, other) {
        (one, other) if one == other => one,
        // Each part forgets it in its own time, when a correction changes nothing there.
        (Settled::Repeated, _) | (_, Settled::Repeated) => Settled::Repeated,
        _ => Settled::Partly,
    }
}

/// The grant of all parts. Its times are the earliest of all nodes, so that no node corrects a window that came after its
/// grant; what only shadows the take does not hurry it.
pub(super) fn granted(parts: &[Part], granted: Vec<Decision>) -> Option<Decision> {
    let earliest = |known: Booking, booking: &Booking| Booking {
        permit: known.permit,
        granted_at: known.granted_at.min(booking.granted_at),
        at: known.at.min(booking.at),
        good_until: known.good_until.min(booking.good_until),
    };
    let needed = parts.iter().filter(|part| part.may_deny()).count().max(1);
    let mut bookings = granted.iter().take(needed).filter_map(Decision::booking);
    let first = *bookings.next()?;
    let now = granted.iter().map(|decision| decision.now).max()?;
    let mut decision = Decision::new(now, TakeOutcome::Granted(bookings.fold(first, earliest)));
    for (part, of_part) in parts.iter().zip(&granted) {
        decision.over |= of_part.over;
        decision.would_deny |= part.would_deny(of_part);
        decision.accounts_made = decision.accounts_made.saturating_add(of_part.accounts_made);
    }
    let statuses: Vec<_> = granted.into_iter().map(|decision| decision.charges.into_vec()).collect();
    decision.charges = in_whole_order(parts, statuses);
    Some(decision)
}

/// The denial that the looks found: the latest time of all, because the take fits when all parts have room.
pub(super) fn denied(parts: &[Part], looks: Looks, readings: bool) -> Option<Decision> {
    let denials = parts.iter().zip(&looks.0).filter_map(|(part, look)| denial_in(part, &look.decision));
    let place = |denial: &Denial| (denial.retry_at, Reverse(denial.charge));
    let denial = denials.max_by_key(place)?;
    let mut decision = Decision::new(looks.now(), TakeOutcome::Denied(denial));
    if readings {
        decision.charges = in_whole_order(parts, looks.into_statuses());
    }
    Some(decision)
}

/// The denial of one part, after the looks had found room.
pub(super) fn denied_by(parts: &[Part], index: usize, by: Decision, looks: Looks) -> Option<Decision> {
    let denial = denial_in(parts.get(index)?, &by)?;
    let mut decision = Decision::new(by.now, TakeOutcome::Denied(denial));
    if !by.charges.is_empty() {
        let mut statuses = looks.into_statuses();
        *statuses.get_mut(index)? = by.charges.into_vec();
        decision.charges = in_whole_order(parts, statuses);
    }
    Some(decision)
}

fn denial_in(part: &Part, decision: &Decision) -> Option<Denial> {
    let denial = decision.denial()?;
    Some(Denial { charge: part.whole_index(denial.charge), ..*denial })
}

/// The first answer to a take whose id is known, as the part that keeps the id has it.
pub(super) fn repeated(parts: &[Part], known: &Decision, looks: Looks, readings: bool) -> Option<Decision> {
    let booking = known.booking()?;
    let booking = Booking {
        granted_at: booking.granted_at.minus(CLOCKS_APART),
        at: booking.at.minus(CLOCKS_APART),
        ..*booking
    };
    let mut decision = Decision::new(known.now, TakeOutcome::Granted(booking));
    decision.repeated = true;
    if readings {
        decision.charges = in_whole_order(parts, looks.into_statuses());
    }
    Some(decision)
}

/// Readings of each part's charges, in the order of the operation's.
fn in_whole_order(parts: &[Part], statuses: Vec<Vec<ChargeStatus>>) -> SmallVec<[ChargeStatus; 1]> {
    let mut indexed: Vec<(usize, ChargeStatus)> = Vec::new();
    for (part, of_part) in parts.iter().zip(statuses) {
        indexed
            .extend(of_part.into_iter().enumerate().map(|(index, status)| (part.whole_index(index), status)));
    }
    indexed.sort_by_key(|(index, _)| *index);
    indexed.into_iter().map(|(_, status)| status).collect()
}
