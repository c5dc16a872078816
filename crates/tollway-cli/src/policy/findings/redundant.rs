//! Limits that can never bind, because another limit of the same unit never lets so much through.
//!
//! A limit is only called redundant where that is certain: what the other lets through is rounded up, and where nothing
//! certain can be said, nothing is.

use tollway::core::{Algorithm, Calendar};
use tollway::{Limit, Policy, Span};

use super::Finding;
use super::Level::Warning;
use crate::words::{count, counted};

pub(super) fn look_at(policy: &Policy, place: &str) -> Vec<Finding> {
    let limits = policy.limits();
    let mut found = Vec::new();
    let mut redundant: Vec<&Limit> = Vec::new();
    for loose in limits {
        // Of two that say the same, one stays.
        let others = limits.iter().filter(|tight| *tight != loose && tight.unit() == loose.unit());
        let mut others = others.filter(|tight| !redundant.contains(tight));
        if let Some((tight, message)) = others.find_map(|tight| Some((tight, never_binds(loose, tight)?))) {
            let advice = format!("leave it out, or lower it until it says more than {}", tight.name());
            found.push(Finding::new(Warning, "redundant_limit", place, message, advice));
            redundant.push(loose);
        }
    }
    found
}

/// Why the loose limit can never bind; nothing if it can, or nobody knows.
fn never_binds(loose: &Limit, tight: &Limit) -> Option<String> {
    let (name, other, unit) = (loose.name(), tight.name(), loose.unit().as_str());
    if let Some(window) = window(loose) {
        let through = u64::try_from(most_within(tight, window)?).ok()?;
        return (through <= loose.amount()).then(|| {
            let (own, through) = (count(loose.amount()), counted(through, unit));
            format!("{name} ({own}) can never bind: {other} lets at most {through} through in the same time")
        });
    }
    let (bucket, within) = (refill(loose)?, flow(tight)?);
    (within.at_once <= bucket.at_once && within.is_not_faster_than(&bucket))
        .then(|| format!("{name} can never bind: {other} is never faster and never saves up more"))
}

/// A window that a limit counts in.
#[derive(Clone, Copy)]
struct Window {
    longest: Span,
    /// The period, if windows begin at its multiples since the epoch.
    aligned: Option<Span>,
}

fn window(limit: &Limit) -> Option<Window> {
    match limit.algorithm() {
        Algorithm::Window(Calendar::Every(period)) => {
            Some(Window { longest: *period, aligned: Some(*period) })
        }
        Algorithm::Window(Calendar::Day(zone)) if zone.name() == "UTC" => {
            Some(Window { longest: Span::from_days(1), aligned: Some(Span::from_days(1)) })
        }
        Algorithm::Window(calendar) => Some(Window { longest: calendar.longest(), aligned: None }),
        Algorithm::FromFirstCall(period) => Some(Window { longest: *period, aligned: None }),
        // Weighs two windows, so what one window lets through says little about it.
        Algorithm::Sliding(_)
        | Algorithm::Bucket { .. }
        | Algorithm::Paced(_)
        | Algorithm::Concurrency { .. } => None,
    }
}

/// The most that a limit lets through within any one window of the other.
fn most_within(tight: &Limit, other: Window) -> Option<u128> {
    if let Some(flow) = flow(tight)
        && refill(tight).is_some()
    {
        return Some(flow.at_once + flow.most_in(other.longest));
    }
    let amount = u128::from(tight.amount());
    let own = match tight.algorithm() {
        // Each of its windows grants no more than its amount.
        Algorithm::Sliding(period) => Window { longest: *period, aligned: Some(*period) },
        Algorithm::Concurrency { .. } => return None,
        Algorithm::Window(_)
        | Algorithm::FromFirstCall(_)
        | Algorithm::Bucket { .. }
        | Algorithm::Paced(_) => window(tight)?,
    };
    if let (Some(own), Some(other)) = (own.aligned, other.aligned) {
        let (own, other) = (own.as_micros(), other.as_micros());
        if other.is_multiple_of(own) {
            return Some(amount * u128::from(other / own));
        }
        if own.is_multiple_of(other) {
            return Some(amount);
        }
    }
    Some(amount * windows_touched(tight, other.longest)?)
}

/// How many windows of a limit a stretch of time can touch at the most.
fn windows_touched(limit: &Limit, stretch: Span) -> Option<u128> {
    let shortest = match limit.algorithm() {
        Algorithm::Window(Calendar::Every(period))
        | Algorithm::FromFirstCall(period)
        | Algorithm::Sliding(period) => *period,
        // Zones can do anything with their days; that none is shorter than half of one is certain enough.
        Algorithm::Window(Calendar::Day(_)) => Span::from_hours(12),
        Algorithm::Window(Calendar::Week(_)) => Span::from_days(6),
        Algorithm::Window(Calendar::Month(_)) => Span::from_days(27),
        Algorithm::Bucket { .. } | Algorithm::Paced(_) | Algorithm::Concurrency { .. } => return None,
    };
    Some(u128::from(stretch.as_micros().div_ceil(shortest.as_micros().max(1))) + 1)
}

/// What gets through in a stretch of time: so much at once, and so much more per period.
struct Flow {
    at_once: u128,
    amount: u64,
    period: Span,
}

impl Flow {
    fn most_in(&self, stretch: Span) -> u128 {
        let total = u128::from(self.amount) * u128::from(stretch.as_micros());
        total.div_ceil(u128::from(self.period.as_micros().max(1)))
    }

    fn is_not_faster_than(&self, other: &Self) -> bool {
        let (own_period, other_period) =
            (u128::from(self.period.as_micros()), u128::from(other.period.as_micros()));
        u128::from(self.amount) * other_period <= u128::from(other.amount) * own_period
    }
}

fn flow(limit: &Limit) -> Option<Flow> {
    let amount = limit.amount();
    match limit.algorithm() {
        Algorithm::Bucket { .. } | Algorithm::Paced(_) => refill(limit),
        // Around the end of a window both may be used up at once.
        Algorithm::Window(Calendar::Every(period))
        | Algorithm::FromFirstCall(period)
        | Algorithm::Sliding(period) => {
            Some(Flow { at_once: u128::from(amount) * 2, amount, period: *period })
        }
        Algorithm::Window(_) | Algorithm::Concurrency { .. } => None,
    }
}

fn refill(limit: &Limit) -> Option<Flow> {
    match limit.algorithm() {
        Algorithm::Bucket { period, .. } | Algorithm::Paced(period) => {
            Some(Flow { at_once: u128::from(limit.capacity()), amount: limit.amount(), period: *period })
        }
        Algorithm::Window(_)
        | Algorithm::FromFirstCall(_)
        | Algorithm::Sliding(_)
        | Algorithm::Concurrency { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the limits that can never bind.
    fn redundant(limits: &[&str]) -> Vec<String> {
        let named: Vec<String> =
            limits.iter().zip('a'..).map(|(limit, name)| format!("{name}: {limit}")).collect();
        let policy = Policy::new("p", named.iter().map(String::as_str)).unwrap();
        let name = |finding: Finding| finding.message.split(' ').next().unwrap_or_default().to_owned();
        look_at(&policy, "policies.p").into_iter().map(name).collect()
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn a_window_that_smaller_ones_never_fill_is_redundant() {
        assert_eq!(redundant(&["10 / second", "1000 / minute"]), ["b"]);
        assert_eq!(redundant(&["1000 / minute", "10 / second"]), ["a"]);
        assert_eq!(redundant(&["10 / second", "600 / minute"]), ["b"]);
        assert_eq!(redundant(&["10 / second", "599 / minute"]), NONE);
        assert_eq!(redundant(&["10 / second sliding", "600 / minute"]), ["b"]);
        assert_eq!(redundant(&["100 / hour", "100 / day"]), ["a"], "an hour lies within one day");
        assert_eq!(redundant(&["99 / hour", "100 / day"]), NONE);
    }

    #[test]
    fn windows_that_do_not_tile_are_rounded_up() {
        assert_eq!(redundant(&["10 / 7 seconds", "99 / minute"]), NONE);
        assert_eq!(redundant(&["10 / 7 seconds", "100 / minute"]), ["b"]);
        assert_eq!(redundant(&["10 / second from first call", "609 / minute"]), NONE);
        assert_eq!(redundant(&["10 / second from first call", "610 / minute"]), ["b"]);
        assert_eq!(redundant(&["10 / minute", "15000 / day in Asia/Kathmandu"]), NONE);
        assert_eq!(redundant(&["10 / minute", "15010 / day in Asia/Kathmandu"]), ["b"], "of 25 hours");
    }

    #[test]
    fn buckets_count_what_they_save_up() {
        assert_eq!(redundant(&["60 / minute bucket burst 5", "64 / minute"]), NONE);
        assert_eq!(redundant(&["60 / minute bucket burst 5", "65 / minute"]), ["b"]);
        assert_eq!(redundant(&["1 / second paced", "60 / minute"]), NONE);
        assert_eq!(redundant(&["1 / second paced", "61 / minute"]), ["b"]);
        assert_eq!(redundant(&["60 / minute bucket burst 5", "1 / second bucket burst 5"]), ["a"]);
        assert_eq!(redundant(&["60 / minute bucket burst 5", "1 / second bucket burst 4"]), ["a"]);
        assert_eq!(redundant(&["60 / minute bucket burst 5", "1 / second bucket burst 6"]), ["b"]);
        assert_eq!(redundant(&["60 / minute bucket burst 5", "2 / second bucket burst 4"]), NONE);
        assert_eq!(redundant(&["10 / second", "10 / second bucket burst 20"]), ["b"]);
        assert_eq!(redundant(&["10 / second", "10 / second bucket burst 19"]), NONE);
    }

    #[test]
    fn other_units_and_slots_say_nothing() {
        assert_eq!(redundant(&["10 / second", "1000 tokens / minute"]), NONE);
        assert_eq!(redundant(&["10 concurrent", "1000 / minute"]), NONE);
        assert_eq!(redundant(&["10 / second", "1000 / minute sliding"]), NONE);
    }

    /// A cost is one number per unit, so limits of one unit see the same takes; of equal ones the first is reported.
    #[test]
    fn of_two_equal_limits_one_stays() {
        assert_eq!(redundant(&["10 / second", "10 / second"]), ["a"]);
    }
}
