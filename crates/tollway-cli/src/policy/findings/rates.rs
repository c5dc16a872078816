//! How fast a limit can be used in the long run, in millionths of a unit a second.

use tollway::config::Millionths;
use tollway::core::{Algorithm, Calendar, REQUESTS};
use tollway::{Limit, Policy, Span};

/// What a limit grants in the long run; none of one that counts nothing over time.
pub(super) fn sustained(limit: &Limit) -> Option<Millionths> {
    let period = match limit.algorithm() {
        Algorithm::Window(calendar) => usual_length(calendar),
        Algorithm::FromFirstCall(period)
        | Algorithm::Sliding(period)
        | Algorithm::Bucket { period, .. }
        | Algorithm::Paced(period) => *period,
        Algorithm::Concurrency { .. } => return None,
    };
    Some(per_second(limit.amount(), period))
}

/// So much in that time, a second.
pub(super) fn per_second(amount: u64, period: Span) -> Millionths {
    let total = u128::from(amount) * 1_000_000 * u128::from(Millionths::ONE);
    Millionths::new(u64::try_from(total / u128::from(period.as_micros().max(1))).unwrap_or(u64::MAX))
}

/// The requests that a policy grants in the long run: its tightest limit's.
pub(super) fn requests_of(policy: &Policy) -> Option<Millionths> {
    let counts_requests = |limit: &&Limit| limit.unit().as_str() == REQUESTS;
    policy.limits().iter().filter(counts_requests).filter_map(sustained).min()
}

/// How long a window usually is.
fn usual_length(calendar: &Calendar) -> Span {
    match calendar {
        Calendar::Every(period) => *period,
        Calendar::Day(_) => Span::from_days(1),
        Calendar::Week(_) => Span::from_days(7),
        Calendar::Month(_) => Span::from_days(30),
    }
}
