//! Finds limits that never bind, because another limit of the same unit is always tighter.
//!
//! Reports only certain cases: the other limit's throughput is rounded up.

use tollway::core::{Algorithm, Calendar};
use tollway::{Limit, Policy, Span};

use super::Finding;
use super::Level::Warning;
use crate::humanize::{count, counted};

pub(super) fn look_at(policy: &Policy, place: &str) -> Vec<Finding> {
    let limits = policy.limits();
    let mut found = Vec::new();
    let mut redundant: Vec<&Limit> = Vec::new();
    for loose in limits {
        // Of two equal limits, only one is redundant.
        let others = limits.iter().filter(|tight| *tight != loose && tight.unit() == loose.unit());
        let mut others = others.filter(|tight| !redundant.contains(tight));
        if let Some((tight, message)) = others.find_map(|tight| Some((tight, never_binds(loose, tight)?))) {
            let advice = format!("remove it, or make it tighter than {}", tight.name());
            found.push(Finding::new(Warning, "redundant_limit", place, message, advice));
            redundant.push(loose);
        }
    }
    found
}

/// Why the loose limit never binds; `None` if it may bind.
fn never_binds(loose: &Limit, tight: &Limit) -> Option<String> {
    let (name, other, unit) = (loose.name(), tight.name(), loose.unit().as_str());
    if let Some(window) = window(loose) {
        let through = u64::try_from(most_within(tight, window)?).ok()?;
        return (through <= loose.amount()).then(|| {
            let (own, through) = (count(loose.amount()), counted(through, unit));
            format!("{name} ({own}) never binds: {other} allows at most {through} in the same time")
        });
    }
    let (bucket, within) = (refill(loose)?, flow(tight)?);
    (within.at_once <= bucket.at_once && within.is_not_faster_than(&bucket))
        .then(|| format!("{name} never binds: {other} has no higher rate and no larger burst"))
}

/// The window of a limit.
#[derive(Clone, Copy)]
struct Window {
    longest: Span,
    /// The period, if windows are aligned to the epoch.
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
        // Weighs two windows, so the throughput of one window proves nothing.
        Algorithm::Sliding(_)
        | Algorithm::Bucket { .. }
        | Algorithm::Paced(_)
        | Algorithm::Adaptive(_)
        | Algorithm::Concurrency { .. } => None,
    }
}

/// The most that a limit allows within one window of the other.
fn most_within(tight: &Limit, other: Window) -> Option<u128> {
    if let Some(flow) = flow(tight)
        && refill(tight).is_some()
    {
        return Some(flow.at_once + flow.most_in(other.longest));
    }
    let amount = u128::from(tight.amount());
    let own = match tight.algorithm() {
        // Each window grants at most its amount.
        Algorithm::Sliding(period) => Window { longest: *period, aligned: Some(*period) },
        Algorithm::Adaptive(_) | Algorithm::Concurrency { .. } => return None,
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

/// The most windows of a limit that a stretch of time can overlap.
fn windows_touched(limit: &Limit, stretch: Span) -> Option<u128> {
    let shortest = match limit.algorithm() {
        Algorithm::Window(Calendar::Every(period))
        | Algorithm::FromFirstCall(period)
        | Algorithm::Sliding(period) => *period,
        // Time zones can shorten a day, but never below 12 hours.
        Algorithm::Window(Calendar::Day(_)) => Span::from_hours(12),
        Algorithm::Window(Calendar::Week(_)) => Span::from_days(6),
        Algorithm::Window(Calendar::Month(_)) => Span::from_days(27),
        Algorithm::Bucket { .. }
        | Algorithm::Paced(_)
        | Algorithm::Adaptive(_)
        | Algorithm::Concurrency { .. } => return None,
    };
    Some(u128::from(stretch.as_micros().div_ceil(shortest.as_micros().max(1))) + 1)
}

/// Throughput over time: a burst, plus an amount per period.
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
        // Two adjacent windows can be used up at once.
        Algorithm::Window(Calendar::Every(period))
        | Algorithm::FromFirstCall(period)
        | Algorithm::Sliding(period) => {
            Some(Flow { at_once: u128::from(amount) * 2, amount, period: *period })
        }
        Algorithm::Window(_) | Algorithm::Adaptive(_) | Algorithm::Concurrency { .. } => None,
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
        | Algorithm::Adaptive(_)
        | Algorithm::Concurrency { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the limits that never bind.
    fn redundant(limits: &[&str]) -> Vec<String> {
        let named: Vec<String> =
            limits.iter().zip('a'..).map(|(limit, name)| format!("{name}: {limit}")).collect();
        let policy = Policy::new("p", named.iter().map(String::as_str)).unwrap();
        let name = |finding: Finding| finding.message.split(' ').next().unwrap_or_default().to_owned();
        look_at(&policy, "policies.p").into_iter().map(name).collect()
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn window_that_shorter_ones_never_fill_is_redundant() {
        assert_eq!(redundant(&["10 / second", "1000 / minute"]), ["b"]);
        assert_eq!(redundant(&["1000 / minute", "10 / second"]), ["a"]);
        assert_eq!(redundant(&["10 / second", "600 / minute"]), ["b"]);
        assert_eq!(redundant(&["10 / second", "599 / minute"]), NONE);
        assert_eq!(redundant(&["10 / second sliding", "600 / minute"]), ["b"]);
        assert_eq!(redundant(&["100 / hour", "100 / day"]), ["a"], "an hour lies within one day");
        assert_eq!(redundant(&["99 / hour", "100 / day"]), NONE);
    }

    #[test]
    fn unaligned_windows_are_rounded_up() {
        assert_eq!(redundant(&["10 / 7 seconds", "99 / minute"]), NONE);
        assert_eq!(redundant(&["10 / 7 seconds", "100 / minute"]), ["b"]);
        assert_eq!(redundant(&["10 / second from first call", "609 / minute"]), NONE);
        assert_eq!(redundant(&["10 / second from first call", "610 / minute"]), ["b"]);
        assert_eq!(redundant(&["10 / minute", "15000 / day in Asia/Kathmandu"]), NONE);
        assert_eq!(redundant(&["10 / minute", "15010 / day in Asia/Kathmandu"]), ["b"], "of 25 hours");
    }

    #[test]
    fn buckets_count_their_burst() {
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
    fn other_units_and_slots_are_not_compared() {
        assert_eq!(redundant(&["10 / second", "1000 tokens / minute"]), NONE);
        assert_eq!(redundant(&["10 concurrent", "1000 / minute"]), NONE);
        assert_eq!(redundant(&["10 / second", "1000 / minute sliding"]), NONE);
    }

    /// Of two equal limits, the first is reported.
    #[test]
    fn one_of_two_equal_limits_is_redundant() {
        assert_eq!(redundant(&["10 / second", "10 / second"]), ["a"]);
    }
}
