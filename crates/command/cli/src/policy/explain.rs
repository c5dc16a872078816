//! Explains limits, policies and apis in sentences.

use jiff::tz::TimeZone;
use tollway::config::{Api, ApiRate, RateSettings, SharedBy};
use tollway::core::{Algorithm, Calendar, ClusterSlot, WhenStoreFails, Zone};
use tollway::{Limit, Policy, Span, StoreUrl, Timestamp};
use tollway_server::{DescriptorRule, DescriptorTarget, EntryPattern, SubjectPiece, SubjectTemplate};

use crate::humanize::{count, counted, moment, span};

/// What a limit allows, and when it resets.
pub(super) fn limit(limit: &Limit, now: Timestamp) -> String {
    let unit = limit.unit().as_str();
    let at_most = format!("at most {}", counted(limit.amount(), unit));
    match limit.algorithm() {
        Algorithm::Window(calendar) => format!("{at_most} in each {}", window(calendar, now)),
        Algorithm::FromFirstCall(period) => {
            format!("{at_most} in {} that starts with the first call", one_period(*period))
        }
        Algorithm::Sliding(period) => format!(
            "{at_most} in a sliding window of {}; the previous window counts in proportion to its overlap",
            one_period(*period)
        ),
        Algorithm::Bucket { period, burst } => format!(
            "refills {} up to {}; full again {} after it was empty",
            refill(limit.amount(), unit, *period),
            count(*burst),
            span(limit.refill_time())
        ),
        Algorithm::Paced(period) => paced(limit.amount(), unit, *period),
        Algorithm::Adaptive(period) => {
            format!("learned from the vendor's answers; starts at {}", refill(limit.amount(), unit, *period))
        }
        Algorithm::Concurrency { expires } => {
            format!(
                "at most {} at once; a slot expires after {} unless renewed",
                count(limit.amount()),
                span(*expires)
            )
        }
    }
}

/// When the next window starts; only aligned windows have such a time.
pub(super) fn next_reset(limit: &Limit, now: Timestamp) -> Option<Timestamp> {
    limit.calendar().map(|calendar| calendar.window_at(now).1)
}

fn window(calendar: &Calendar, now: Timestamp) -> String {
    let next = calendar.window_at(now).1;
    match calendar {
        // Too short for a useful start time.
        Calendar::Every(period) if *period < Span::from_secs(1) => each_period(*period),
        Calendar::Every(period) => {
            format!("{}; the next window starts at {}", each_period(*period), moment(next, now))
        }
        Calendar::Day(zone) => format!("day {}", in_zone(zone, next, now)),
        Calendar::Week(zone) => format!("week from Monday {}", in_zone(zone, next, now)),
        Calendar::Month(zone) => format!("month {}", in_zone(zone, next, now)),
    }
}

/// The time in the zone, and the local time if it differs.
fn in_zone(zone: &Zone, next: Timestamp, now: Timestamp) -> String {
    let here = moment(next, now);
    match zone_time(zone, next) {
        Some(there) if there != here => {
            format!("({zone}); the next window starts at {there} there, {here} here")
        }
        _ => format!("({zone}); the next window starts at {here}"),
    }
}

fn zone_time(zone: &Zone, at: Timestamp) -> Option<String> {
    let zone = TimeZone::get(zone.name()).ok()?;
    let instant = jiff::Timestamp::from_microsecond(i64::try_from(at.as_micros()).ok()?).ok()?;
    Some(instant.to_zoned(zone).strftime("%a %Y-%m-%d %H:%M:%S").to_string())
}

/// `4,166.7 tokens a second`; below one per second `one request every 12 s`.
fn refill(amount: u64, unit: &str, period: Span) -> String {
    let micros = u128::from(period.as_micros().max(1));
    let tenths = (u128::from(amount) * 10_000_000 + micros / 2) / micros;
    if tenths < 10 {
        return one_every(amount, unit, period);
    }
    let whole = u64::try_from(tenths / 10).unwrap_or(u64::MAX);
    match tenths % 10 {
        0 => format!("{} a second", counted(whole, unit)),
        tenth => format!("{}.{tenth} {unit} a second", count(whole)),
    }
}

fn paced(amount: u64, unit: &str, period: Span) -> String {
    // Intervals too short to print.
    if period.as_micros() / amount.max(1) < 10_000 {
        return format!("{}, evenly spaced", refill(amount, unit, period));
    }
    format!("{}, never two at once", one_every(amount, unit, period))
}

fn one_every(amount: u64, unit: &str, period: Span) -> String {
    let apart = Span::from_micros(period.as_micros().div_ceil(amount.max(1)));
    format!("one {} every {}", unit.strip_suffix('s').unwrap_or(unit), span(apart))
}

/// `minute`, `5 minutes`: after "each".
fn each_period(period: Span) -> String {
    let (number, word) = period_parts(period);
    if number == 1 { word.to_owned() } else { format!("{} {word}s", count(number)) }
}

/// `a minute`, `an hour`, `5 minutes`.
fn one_period(period: Span) -> String {
    match period_parts(period) {
        (1, "hour") => "an hour".to_owned(),
        (1, word) => format!("a {word}"),
        _ => each_period(period),
    }
}

fn period_parts(period: Span) -> (u64, &'static str) {
    const WORDS: [(Span, &str); 5] = [
        (Span::from_days(1), "day"),
        (Span::from_hours(1), "hour"),
        (Span::from_mins(1), "minute"),
        (Span::from_secs(1), "second"),
        (Span::from_millis(1), "millisecond"),
    ];
    let whole = WORDS.iter().find(|(size, _)| period.as_micros().is_multiple_of(size.as_micros()));
    let (size, word) = whole.copied().unwrap_or((Span::from_micros(1), "microsecond"));
    (period.as_micros() / size.as_micros(), word)
}

/// How a policy behaves.
pub(super) fn policy(policy: &Policy) -> String {
    let mut parts = Vec::new();
    if policy.shadow() {
        parts.push("shadow: evaluated and reported, never denies".to_owned());
    }
    parts.push(match policy.max_wait() {
        Span::ZERO => "a take never waits".to_owned(),
        max_wait => format!("a take waits up to {}", span(max_wait)),
    });
    parts.push(match policy.when_store_fails() {
        WhenStoreFails::Local => {
            let share = policy.local_share();
            if share.is_auto() {
                "if the store fails, each process grants its share of what was left".to_owned()
            } else {
                format!("if the store fails, each process grants {share} of what was left")
            }
        }
        WhenStoreFails::Open => "if the store fails, every take is granted".to_owned(),
        WhenStoreFails::Closed => "if the store fails, every take fails".to_owned(),
    });
    if policy.edge() > Span::ZERO {
        parts.push(format!("no grants in the first and last {} of a window", span(policy.edge())));
    }
    if let Some(most) = policy.subjects_max() {
        let most = count(most.get());
        parts.push(format!("in Redis, each process makes at most {most} accounts in the longest period"));
    }
    match policy.cluster_slot() {
        ClusterSlot::Subject => {}
        ClusterSlot::Named(name) => parts.push(format!("on a Redis Cluster, all accounts are in the slot {name}")),
        ClusterSlot::SubjectPrefix(separator) => parts.push(format!(
            "on a Redis Cluster, the accounts of subjects with the same part before {separator:?} are in one slot"
        )),
    }
    parts.join("; ")
}

/// The store.
pub(super) fn store(store: Option<&StoreUrl>) -> String {
    let Some(url) = store else {
        return "not set: commands use a file in your state folder, programs use memory".to_owned();
    };
    match url.kind().shared_by {
        SharedBy::Process => {
            format!("{url}, separate in each process; commands need a lasting store, e.g. --store file:PATH")
        }
        SharedBy::Machine => format!("{url}, shared by the processes of this machine"),
        SharedBy::Network if url.undoes_across_slots() => format!(
            "{url}, shared by all machines. A take over several slots is made part by part and undone if one part denies: \
             never over a limit, but a denial may cost others a moment, and such a take never books a place in a queue"
        ),
        SharedBy::Network => format!("{url}, shared by all machines"),
    }
}

/// The settings of an api.
pub(super) fn api(api: &Api) -> String {
    let mut parts = Vec::new();
    match api.rate() {
        Some(ApiRate::By(settings)) => parts.push(rate(&settings)),
        Some(ApiRate::Auto) => parts.push("adapts its rate automatically".to_owned()),
        None => {}
    }
    parts.extend(api.policy().map(|policy| format!("charged to policy {policy}")));
    parts.push(retries(api));
    if !api.endpoints().is_empty() {
        let endpoints = u64::try_from(api.endpoints().len()).unwrap_or(u64::MAX);
        parts.push(format!("{} of its own", counted(endpoints, "endpoints")));
    }
    parts
        .extend(api.profile_name().map(|profile| format!("other fields are those of the profile {profile}")));
    parts.extend(api.documented().map(|text| format!("documented: {text}")));
    parts.join("; ")
}

/// What happens to descriptors of a rule.
pub(super) fn target(rule: &DescriptorRule) -> String {
    match &rule.target {
        DescriptorTarget::Unlimited => "never limited".to_owned(),
        DescriptorTarget::Blocked => "always denied".to_owned(),
        DescriptorTarget::Policy { policy, subject, unit } => {
            let keys = || rule.entries.iter().map(|entry| entry.key.as_str());
            let whose = if *subject == SubjectTemplate::of_entries(keys()) {
                format!("for each {}", keys().collect::<Vec<_>>().join(" and "))
            } else {
                format!("for the subject {}", template(subject, &rule.entries))
            };
            let hits = unit.as_deref().map(|unit| format!("; hits are {unit}")).unwrap_or_default();
            format!("charged to policy {policy} {whose}{hits}")
        }
    }
}

/// A subject as in the config.
fn template(subject: &SubjectTemplate, entries: &[EntryPattern]) -> String {
    let key = |index: &usize| entries.get(*index).map_or("", |entry| entry.key.as_str());
    let piece = |piece: &SubjectPiece| match piece {
        SubjectPiece::Text(text) => text.clone(),
        SubjectPiece::Value(index) => format!("{{{}}}", key(index)),
    };
    subject.pieces().iter().map(piece).collect()
}

fn retries(api: &Api) -> String {
    let codes: Vec<String> = api.backoff_codes().iter().map(ToString::to_string).collect();
    let codes = codes.join(" or ");
    match api.max_retries() {
        0 => format!("not sent again after {codes}"),
        retries => {
            let times = counted(retries.into(), "times");
            format!("after {codes} sent again up to {times}, within {}", span(api.max_time()))
        }
    }
}

fn rate(rate: &RateSettings) -> String {
    format!(
        "starts at {} calls a second, from {} to {}; a success adds {}, a refusal multiplies by {}",
        rate.initial(),
        rate.min(),
        rate.max(),
        rate.increase_step(),
        rate.decrease_factor()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sunday 2026-11-15, 05:33:20 UTC.
    const NOW: Timestamp = Timestamp::from_secs(1_794_720_800);

    fn explained(text: &str) -> String {
        limit(&text.parse().unwrap(), NOW)
    }

    /// The local time, which depends on the machine's zone.
    fn here(seconds: u64) -> String {
        moment(Timestamp::from_secs(seconds), NOW)
    }

    #[test]
    fn windows_name_the_next_start() {
        assert_eq!(
            explained("200 requests / minute"),
            format!("at most 200 requests in each minute; the next window starts at {}", here(1_794_720_840))
        );
        assert_eq!(
            explained("1 request / 5 minutes"),
            format!("at most 1 request in each 5 minutes; the next window starts at {}", here(1_794_720_900))
        );
        assert_eq!(explained("10 / 250 ms"), "at most 10 requests in each 250 milliseconds");
        assert_eq!(next_reset(&"9 / hour".parse().unwrap(), NOW), Some(Timestamp::from_secs(1_794_722_400)));
        assert_eq!(next_reset(&"9 / hour sliding".parse().unwrap(), NOW), None);
    }

    /// Half past five in London is still yesterday evening in Los Angeles.
    #[test]
    fn days_weeks_and_months_name_the_time_in_their_zone() {
        for (text, start, next) in [
            ("25 / day in America/Los_Angeles", "day (America/Los_Angeles)", "Sun 2026-11-15 00:00:00"),
            ("25 / week in Asia/Kathmandu", "week from Monday (Asia/Kathmandu)", "Mon 2026-11-16 00:00:00"),
            ("25 / month", "month (UTC)", "Tue 2026-12-01 00:00:00"),
        ] {
            let explained = explained(text);
            let beginning = format!("at most 25 requests in each {start}; the next window starts at {next}");
            assert!(explained.starts_with(&beginning), "{explained}");
        }
        let there = "Sun 2026-11-15 00:00:00";
        let here = here(1_794_729_600);
        let both = format!("{there} there, {here} here");
        let expected = if here == there { here } else { both };
        assert!(explained("25 / day in America/Los_Angeles").ends_with(&expected));
    }

    #[test]
    fn other_limits_are_explained() {
        for (text, sentence) in [
            (
                "1000 / hour from first call",
                "at most 1,000 requests in an hour that starts with the first call",
            ),
            (
                "100 / minute sliding",
                "at most 100 requests in a sliding window of a minute; the previous window counts in proportion to its \
                 overlap",
            ),
            (
                "250k tokens / minute bucket burst 500k",
                "refills 4,166.7 tokens a second up to 500,000; full again 2 min after it was empty",
            ),
            (
                "5 / minute bucket",
                "refills one request every 12 s up to 5; full again 1 min after it was empty",
            ),
            (
                "60 / minute bucket burst 5",
                "refills 1 request a second up to 5; full again 5 s after it was empty",
            ),
            ("3 / second paced", "one request every 334 ms, never two at once"),
            ("5000 / second paced", "5,000 requests a second, evenly spaced"),
            ("50 concurrent", "at most 50 at once; a slot expires after 1 min unless renewed"),
        ] {
            assert_eq!(explained(text), sentence);
        }
    }
}
