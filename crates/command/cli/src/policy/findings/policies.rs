//! Findings about a policy.

use tollway::core::bounds::{EDGE_PART_OF_PERIOD, WAIT_DEFAULT, WAIT_MAX};
use tollway::core::{Calendar, ClusterSlot, Lease, REQUESTS};
use tollway::{Limit, Policy, Span};

use super::Level::{Note, Warning};
use super::{Finding, redundant};

/// Checks a policy. `called`: an api names it, so a vendor counts its calls, too.
pub(super) fn look_at(policy: &Policy, called: bool) -> Vec<Finding> {
    let place = format!("policies.{}", policy.name());
    let mut found: Vec<Finding> = Vec::new();
    found.extend(short_wait(policy, &place));
    found.extend(idle_edge(policy, &place));
    found.extend(missing_edge(policy, &place, called));
    found.extend(idle_lease(policy, &place));
    for limit in policy.limits() {
        found.extend(capped_edge(policy, limit, &place));
        found.extend(assumed_zone(limit, &place));
        found.extend(paced_amounts(limit, &place));
    }
    found.extend(redundant::look_at(policy, &place));
    found
}

/// Clock-aligned windows with their periods. Without days and longer ones: a take does not wait for those.
fn clock_windows(policy: &Policy) -> impl Iterator<Item = (&Limit, Span)> {
    policy.limits().iter().filter_map(|limit| match limit.calendar()? {
        Calendar::Every(period) => Some((limit, *period)),
        Calendar::Day(_) | Calendar::Week(_) | Calendar::Month(_) => None,
    })
}

/// A maximum wait shorter than the window: a warning if it is set, a note if it is the default.
fn short_wait(policy: &Policy, place: &str) -> Option<Finding> {
    let max_wait = policy.max_wait();
    let (limit, period) = clock_windows(policy).min_by_key(|(_, period)| *period)?;
    if policy.shadow() || max_wait == Span::ZERO || max_wait >= period || period > WAIT_MAX {
        return None;
    }
    let level = if max_wait == WAIT_DEFAULT { Note } else { Warning };
    let message = format!(
        "max_wait is {max_wait}, but {} resets only every {period}: a take may be denied although the next window has \
         room",
        limit.name()
    );
    let advice = format!("set `max_wait = \"{period}\"`, or \"0s\" to never wait");
    Some(Finding::new(level, "short_wait", place, message, advice))
}

fn idle_edge(policy: &Policy, place: &str) -> Option<Finding> {
    let aligned = |limit: &Limit| limit.calendar().is_some();
    if policy.edge() == Span::ZERO || policy.limits().iter().any(aligned) {
        return None;
    }
    let message = "`edge` has no effect: it only applies to clock and calendar windows";
    Some(Finding::new(Warning, "idle_edge", place, message, "remove it"))
}

fn missing_edge(policy: &Policy, place: &str, called: bool) -> Option<Finding> {
    if !called || policy.edge() > Span::ZERO {
        return None;
    }
    let window = policy.limits().iter().find(|limit| limit.calendar().is_some())?;
    let message = format!(
        "{} counts a call when it is granted, the vendor when it arrives: a call at the end of a window may count in \
         the vendor's next one",
        window.name()
    );
    let advice =
        "set `edge = \"250ms\"`, which costs no quota; use a paced limit if the vendor's windows are unknown";
    Some(Finding::new(Note, "no_edge", place, message, advice))
}

/// Only windows can be leased; `auto` means "where possible" and is no mistake.
fn idle_lease(policy: &Policy, place: &str) -> Option<Finding> {
    if policy.lease() != Lease::On || policy.leases() {
        return None;
    }
    let because = match policy.limits().iter().find(|limit| !limit.is_window()) {
        Some(limit) => format!("{} is not a window, and only windows can be leased", limit.name()),
        None => "a shadow policy is not leased".to_owned(),
    };
    let message = format!("`lease` has no effect: {because}. Every take asks the store");
    Some(Finding::new(Warning, "idle_lease", place, message, "remove it, or use windows only"))
}

/// `subjects_max` in a config whose store is not Redis.
pub(super) fn idle_bound(policy: &Policy) -> Option<Finding> {
    policy.subjects_max()?;
    let place = format!("policies.{}", policy.name());
    let message = "`subjects_max` has no effect: only a store in Redis bounds the subjects of a policy";
    let advice = "remove it, or name a store in Redis; `memory:?lines=N` bounds all accounts";
    Some(Finding::new(Warning, "idle_subjects_max", &place, message, advice))
}

/// `slot` in a config whose store is not Redis.
pub(super) fn idle_slot(policy: &Policy) -> Option<Finding> {
    (*policy.cluster_slot() != ClusterSlot::Subject).then(|| {
        let place = format!("policies.{}", policy.name());
        let message = "`slot` has no effect: only a Redis Cluster has slots";
        Finding::new(Warning, "idle_slot", &place, message, "remove it, or name a store in Redis")
    })
}

/// The engine caps the edge at a twentieth of the window.
fn capped_edge(policy: &Policy, limit: &Limit, place: &str) -> Option<Finding> {
    let Some(Calendar::Every(period)) = limit.calendar() else { return None };
    let most = Span::from_micros(period.as_micros() / EDGE_PART_OF_PERIOD);
    if policy.edge() <= most {
        return None;
    }
    let message = format!(
        "the edge of {} exceeds a twentieth of {}'s window and is capped at {most}: a slower call may count in the \
         vendor's next window",
        policy.edge(),
        limit.name()
    );
    let advice =
        format!("use a paced limit, e.g. \"{limit} paced\"; or set the edge to {most} if that is enough");
    Some(Finding::new(Warning, "capped_edge", place, message, advice))
}

fn assumed_zone(limit: &Limit, place: &str) -> Option<Finding> {
    let (Calendar::Day(zone) | Calendar::Week(zone) | Calendar::Month(zone)) = limit.calendar()? else {
        return None;
    };
    if zone.name() != "UTC" {
        return None;
    }
    let message = format!("{} resets at midnight UTC", limit.name());
    let advice = format!("if the vendor uses another time zone, add it: \"{limit} in America/Los_Angeles\"");
    Some(Finding::new(Note, "zone_utc", place, message, advice))
}

/// A paced limit grants one unit at a time, so it refuses nearly every call that costs several.
fn paced_amounts(limit: &Limit, place: &str) -> Option<Finding> {
    if !limit.is_paced() || limit.unit().as_str() == REQUESTS {
        return None;
    }
    let unit = limit.unit();
    let message = format!("{} is paced, so a take of more than one of its {unit} is refused", limit.name());
    let advice = "use a bucket with the largest call as burst, e.g. \"... bucket burst 4000\"";
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
    fn warns_of_a_wait_shorter_than_the_window() {
        assert_eq!(of("limits = ['200 / minute']\nmax_wait = '59s'"), ["SHORT_WAIT"]);
        assert_eq!(of("limits = ['200 / minute']\nmax_wait = '60s'"), NOTHING);
        assert_eq!(of("limits = ['200 / minute', '2000 / hour']\nmax_wait = '60s'"), NOTHING);
        assert_eq!(of("limits = ['200 / minute']\nmax_wait = '0s'"), NOTHING);
        assert_eq!(of("limits = ['200 / minute']\nmax_wait = '1s'\nshadow = true"), NOTHING);
        assert_eq!(of("limits = ['200 / minute bucket']\nmax_wait = '1s'"), NOTHING);
        assert_eq!(of("limits = ['200 / hour']"), ["short_wait"], "the default is only a note");
    }

    #[test]
    fn warns_of_a_lease_without_effect() {
        assert_eq!(of("limits = ['9 / second bucket']\nlease = 'on'"), ["IDLE_LEASE"]);
        assert_eq!(
            of("limits = ['9 / minute', '3 concurrent']\nlease = 'on'\nmax_wait = '60s'"),
            ["IDLE_LEASE"]
        );
        assert_eq!(of("limits = ['9 / minute']\nlease = 'on'\nshadow = true"), ["IDLE_LEASE"]);
        assert_eq!(of("limits = ['9 / second bucket']\nlease = 'auto'"), NOTHING);
        assert_eq!(of("limits = ['9 / minute']\nlease = 'on'\nmax_wait = '60s'"), NOTHING);
    }

    #[test]
    fn warns_of_a_bound_of_subjects_without_effect() {
        let bounded = "limits = ['5 / hour from first call']\nsubjects_max = 9";
        assert_eq!(of(bounded), ["IDLE_SUBJECTS_MAX"]);
        for (store, findings) in [("redis://host", 0), ("postgres://host/db", 1), ("memory:", 1)] {
            assert_eq!(of(&format!("{bounded}\n[store]\nurl = '{store}'")).len(), findings, "{store}");
        }
    }

    #[test]
    fn warns_of_a_slot_without_effect() {
        let placed = "limits = ['5 / hour from first call']\nslot = 'shop'";
        assert_eq!(of(placed), ["IDLE_SLOT"]);
        for (store, findings) in [("redis+cluster://host", 0), ("redis://host", 0), ("memory:", 1)] {
            assert_eq!(of(&format!("{placed}\n[store]\nurl = '{store}'")).len(), findings, "{store}");
        }
    }

    #[test]
    fn warns_of_a_capped_or_idle_edge() {
        assert_eq!(of("limits = ['9 / second']\nedge = '51ms'"), ["CAPPED_EDGE"]);
        assert_eq!(of("limits = ['9 / second']\nedge = '50ms'"), NOTHING);
        assert_eq!(of("limits = ['9 / second paced']\nedge = '50ms'"), ["IDLE_EDGE"]);
        assert_eq!(of("limits = ['9 / second paced', '99 / minute']\nedge = '50ms'"), NOTHING);
    }

    #[test]
    fn notes_a_vendor_window_without_an_edge() {
        let api = "[apis.b]\nbase_url = 'https://b'\npolicy = 'a'";
        let of = |settings: &str| of(&format!("{settings}\n{api}"));
        assert_eq!(of("limits = ['9 / second']"), ["no_edge"]);
        assert_eq!(of("limits = ['9 / second']\nedge = '50ms'"), NOTHING);
        assert_eq!(of("limits = ['9 / second paced']"), NOTHING);
        assert_eq!(super::super::tests::codes("[policies.a]\nlimits = ['9 / second']"), NOTHING);
    }

    #[test]
    fn notes_a_day_without_a_zone() {
        for period in ["day", "week", "month"] {
            assert_eq!(of(&format!("limits = ['9 / {period}']")), ["zone_utc"]);
            assert_eq!(of(&format!("limits = ['9 / {period} in Asia/Kathmandu']")), NOTHING);
            assert_eq!(of(&format!("limits = ['9 / {period} bucket']")), NOTHING);
        }
    }

    #[test]
    fn warns_of_a_paced_limit_on_tokens() {
        assert_eq!(of("limits = ['9 tokens / second paced']"), ["PACED_AMOUNTS"]);
        assert_eq!(of("limits = ['9 tokens / second bucket', '9 / second paced']"), NOTHING);
    }
}
