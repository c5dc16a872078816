//! What to look at in a policy.

use tollway::core::bounds::{EDGE_PART_OF_PERIOD, WAIT_DEFAULT, WAIT_MAX};
use tollway::core::{Calendar, REQUESTS};
use tollway::{Limit, Policy, Span};

use super::Level::{Note, Warning};
use super::{Finding, redundant};

/// What to look at in a policy; `called` says that an api names it, so that a vendor counts its calls, too.
pub(super) fn look_at(policy: &Policy, called: bool) -> Vec<Finding> {
    let place = format!("policies.{}", policy.name());
    let mut found: Vec<Finding> = Vec::new();
    found.extend(short_wait(policy, &place));
    found.extend(idle_edge(policy, &place));
    found.extend(missing_edge(policy, &place, called));
    for limit in policy.limits() {
        found.extend(capped_edge(policy, limit, &place));
        found.extend(assumed_zone(limit, &place));
        found.extend(paced_amounts(limit, &place));
    }
    found.extend(redundant::look_at(policy, &place));
    found
}

/// Windows of the clock, each with its period. Days and longer ones are nobody's to wait for.
fn clock_windows(policy: &Policy) -> impl Iterator<Item = (&Limit, Span)> {
    policy.limits().iter().filter_map(|limit| match limit.calendar()? {
        Calendar::Every(period) => Some((limit, *period)),
        Calendar::Day(_) | Calendar::Week(_) | Calendar::Month(_) => None,
    })
}

/// A wait that ends before the window does. Who chose it is warned; who left it out is told.
fn short_wait(policy: &Policy, place: &str) -> Option<Finding> {
    let max_wait = policy.max_wait();
    let (limit, period) = clock_windows(policy).min_by_key(|(_, period)| *period)?;
    if policy.shadow() || max_wait == Span::ZERO || max_wait >= period || period > WAIT_MAX {
        return None;
    }
    let level = if max_wait == WAIT_DEFAULT { Note } else { Warning };
    let message = format!(
        "a take waits {max_wait} at the most, but {} begins anew only every {period}: once it is used up, a take may be \
         denied though the next window would serve it",
        limit.name()
    );
    let advice = format!("write `max_wait = \"{period}\"`, or \"0s\" if nobody shall wait");
    Some(Finding::new(level, "short_wait", place, message, advice))
}

fn idle_edge(policy: &Policy, place: &str) -> Option<Finding> {
    let aligned = |limit: &Limit| limit.calendar().is_some();
    if policy.edge() == Span::ZERO || policy.limits().iter().any(aligned) {
        return None;
    }
    let message = "`edge` does nothing here: only windows of the clock and the calendar have edges";
    Some(Finding::new(Warning, "idle_edge", place, message, "leave it out"))
}

fn missing_edge(policy: &Policy, place: &str, called: bool) -> Option<Finding> {
    if !called || policy.edge() > Span::ZERO {
        return None;
    }
    let window = policy.limits().iter().find(|limit| limit.calendar().is_some())?;
    let message = format!(
        "{} is counted when a call is granted, but at the vendor when it arrives: one that crosses the end of a window \
         counts in the next one there",
        window.name()
    );
    let advice = "write `edge = \"250ms\"`, which costs no quota; where the vendor's windows begin is unknown, pace instead";
    Some(Finding::new(Note, "no_edge", place, message, advice))
}

/// The engine uses at most a twentieth of the window.
fn capped_edge(policy: &Policy, limit: &Limit, place: &str) -> Option<Finding> {
    let Some(Calendar::Every(period)) = limit.calendar() else { return None };
    let most = Span::from_micros(period.as_micros() / EDGE_PART_OF_PERIOD);
    if policy.edge() <= most {
        return None;
    }
    let message = format!(
        "the edge of {} is more than a twentieth of {}'s window, so {most} is used: a call that is longer on its way may \
         count in the next window at the vendor",
        policy.edge(),
        limit.name()
    );
    let advice = format!("pace it, as in \"{limit} paced\"; or, if {most} is enough, write that");
    Some(Finding::new(Warning, "capped_edge", place, message, advice))
}

fn assumed_zone(limit: &Limit, place: &str) -> Option<Finding> {
    let (Calendar::Day(zone) | Calendar::Week(zone) | Calendar::Month(zone)) = limit.calendar()? else {
        return None;
    };
    if zone.name() != "UTC" {
        return None;
    }
    let message = format!("{} begins anew at midnight UTC", limit.name());
    let advice =
        format!("if the vendor's day begins elsewhere, say where: \"{limit} in America/Los_Angeles\"");
    Some(Finding::new(Note, "zone_utc", place, message, advice))
}

/// A paced limit takes one unit at a time; of a unit that calls take many of, that refuses nearly every call.
fn paced_amounts(limit: &Limit, place: &str) -> Option<Finding> {
    if !limit.is_paced() || limit.unit().as_str() == REQUESTS {
        return None;
    }
    let unit = limit.unit();
    let message = format!("{} is paced, so a take of more than one of its {unit} is refused", limit.name());
    let advice = "make it a bucket whose burst is the largest call, as in \"... bucket burst 4000\"";
    Some(Finding::new(Warning, "paced_amounts", place, message, advice))
}

#[cfg(test)]
mod tests {
    use super::super::tests::codes;

    fn of(settings: &str) -> Vec<String> {
        codes(&format!("[policies.a]\n{settings}"))
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn a_wait_shorter_than_the_shortest_window_is_warned_of() {
        assert_eq!(of("limits = ['200 / minute']\nmax_wait = '59s'"), ["SHORT_WAIT"]);
        assert_eq!(of("limits = ['200 / minute']\nmax_wait = '60s'"), NOTHING);
        assert_eq!(of("limits = ['200 / minute', '2000 / hour']\nmax_wait = '60s'"), NOTHING);
        assert_eq!(of("limits = ['200 / minute']\nmax_wait = '0s'"), NOTHING);
        assert_eq!(of("limits = ['200 / minute']\nmax_wait = '1s'\nshadow = true"), NOTHING);
        assert_eq!(of("limits = ['200 / minute bucket']\nmax_wait = '1s'"), NOTHING);
        assert_eq!(of("limits = ['200 / hour']"), ["short_wait"], "who left it out is only told");
    }

    #[test]
    fn an_edge_that_is_capped_or_idle_is_warned_of() {
        assert_eq!(of("limits = ['9 / second']\nedge = '51ms'"), ["CAPPED_EDGE"]);
        assert_eq!(of("limits = ['9 / second']\nedge = '50ms'"), NOTHING);
        assert_eq!(of("limits = ['9 / second paced']\nedge = '50ms'"), ["IDLE_EDGE"]);
        assert_eq!(of("limits = ['9 / second paced', '99 / minute']\nedge = '50ms'"), NOTHING);
    }

    #[test]
    fn a_window_that_a_vendor_counts_wants_an_edge() {
        let api = "[apis.b]\nbase_url = 'https://b'\npolicy = 'a'";
        let of = |settings: &str| of(&format!("{settings}\n{api}"));
        assert_eq!(of("limits = ['9 / second']"), ["no_edge"]);
        assert_eq!(of("limits = ['9 / second']\nedge = '50ms'"), NOTHING);
        assert_eq!(of("limits = ['9 / second paced']"), NOTHING);
        assert_eq!(super::super::tests::codes("[policies.a]\nlimits = ['9 / second']"), NOTHING);
    }

    #[test]
    fn a_day_without_a_zone_is_told() {
        for period in ["day", "week", "month"] {
            assert_eq!(of(&format!("limits = ['9 / {period}']")), ["zone_utc"]);
            assert_eq!(of(&format!("limits = ['9 / {period} in Asia/Kathmandu']")), NOTHING);
            assert_eq!(of(&format!("limits = ['9 / {period} bucket']")), NOTHING);
        }
    }

    #[test]
    fn a_paced_unit_that_comes_in_thousands_is_warned_of() {
        assert_eq!(of("limits = ['9 tokens / second paced']"), ["PACED_AMOUNTS"]);
        assert_eq!(of("limits = ['9 tokens / second bucket', '9 / second paced']"), NOTHING);
    }
}
