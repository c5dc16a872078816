//! Checks an api's rate settings against the tuning guide and against its policy.

use tollway::config::{Api, FieldOrigin, Millionths, RateSettings, UnitCost};
use tollway::core::{Algorithm, Calendar, REQUESTS};
use tollway::{Limit, Name, Policy, Span};

use super::Level::Warning;
use super::{Finding, documented};

/// The highest initial rate where the limit is unknown.
const UNKNOWN_INITIAL_MAX: Millionths = Millionths::whole(3);
const MIN_LEAST: Millionths = Millionths::new(100_000);
const STEP_GENTLE_MAX: Millionths = Millionths::new(200_000);
const FACTOR_MAX: Millionths = Millionths::new(900_000);
const FACTOR_MIN: Millionths = Millionths::new(250_000);
/// The longest acceptable recovery from one refusal.
const RECOVERY_SECONDS_MAX: u64 = 60;

/// The expected limit and its source.
struct Expected {
    rate: Millionths,
    source: &'static str,
}

pub(super) fn look_at(api: &Api, policy: Option<&Policy>) -> Vec<Finding> {
    let documented = api.documented().and_then(documented::rate);
    let granted = policy.and_then(requests_of);
    let expected = documented
        .map(|rate| Expected { rate, source: "documented" })
        .or(granted.map(|rate| Expected { rate, source: "policy's" }));
    let mut found = Vec::new();
    if let Some((documented, granted)) = documented.zip(granted)
        && granted > documented
    {
        let message =
            format!("the policy grants {granted} requests a second, above the documented {documented}");
        let advice = "lower the policy's limit, or correct `documented`";
        found.push(warn("policy_above_documented", api, "policy", message, advice));
    }
    if let Some(settings) = api.rate().and_then(|rate| rate.settings()) {
        found.extend(initial(api, &settings, expected.as_ref()));
        found.extend(bounds(api, &settings, expected.as_ref()));
        found.extend(step(api, &settings));
        found.extend(factor(api, &settings));
    }
    found.extend(literal_secrets(api));
    found.extend(idle_costs(api, policy));
    found
}

/// Config files are copied, committed and shown.
fn literal_secrets(api: &Api) -> impl Iterator<Item = Finding> {
    let secrets = api.headers().iter().filter(|header| header.is_literal_secret());
    secrets.map(|header| {
        let message = format!("the header {} holds a secret in plain text", header.name());
        let advice = format!(
            "put it into a variable: {} = {{ env = \"{}_TOKEN\" }}",
            header.name(),
            shout(api.name().as_str())
        );
        warn("literal_secret", api, "headers", message, advice)
    })
}

/// The name as part of a variable's.
fn shout(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

/// Costs in the config that no limit counts. A profile's may wait for a policy.
fn idle_costs(api: &Api, policy: Option<&Policy>) -> Vec<Finding> {
    if api.origin("cost") != FieldOrigin::Config {
        return Vec::new();
    }
    let counted = |unit: &Name| policy.is_some_and(|policy| policy.units().contains(unit));
    let idle = api.cost().iter().filter(|cost| !counted(cost.unit()));
    let finding = |cost: &UnitCost| {
        let message =
            format!("the cost in {} has no effect: no limit of the api's policy counts them", cost.unit());
        warn(
            "idle_cost",
            api,
            "cost",
            message,
            "add a limit of that unit to the policy, or leave the cost out",
        )
    };
    idle.map(finding).collect()
}

fn warn(code: &'static str, api: &Api, key: &str, message: String, advice: impl Into<String>) -> Finding {
    Finding::new(Warning, code, &format!("apis.{}.{key}", api.name()), message, advice.into())
}

fn initial(api: &Api, settings: &RateSettings, expected: Option<&Expected>) -> Option<Finding> {
    let initial = settings.initial();
    let (code, message, advice) = match expected {
        Some(Expected { rate, source }) if initial > *rate => (
            "initial_high",
            format!(
                "starts at {initial} a second, above the {source} {rate}: the first calls may be refused"
            ),
            "start a little below the limit".to_owned(),
        ),
        Some(Expected { rate, source }) if part(initial, 4) < *rate => (
            "initial_low",
            format!("starts at {initial} a second, less than a quarter of the {source} {rate}"),
            "start a little below the limit; a lower rate recovers only slowly".to_owned(),
        ),
        None if initial > UNKNOWN_INITIAL_MAX => (
            "initial_unknown",
            format!("starts at {initial} a second, but the limit is unknown"),
            format!("start at 1 to {UNKNOWN_INITIAL_MAX}, or put the vendor's limit into `documented`"),
        ),
        _ => return None,
    };
    Some(warn(code, api, "rate", message, advice))
}

fn bounds(api: &Api, settings: &RateSettings, expected: Option<&Expected>) -> Vec<Finding> {
    let (min, max) = (settings.min(), settings.max());
    let mut found = Vec::new();
    if min < MIN_LEAST {
        let seconds = Millionths::ONE.div_ceil(min.count().max(1));
        let message =
            format!("after many refusals the rate may fall to {min} a second, one call every {seconds} s");
        found.push(warn(
            "min_low",
            api,
            "rate",
            message,
            format!("set `min = {MIN_LEAST}`, usually low enough"),
        ));
    }
    let Some(Expected { rate, source }) = expected else { return found };
    if min > *rate {
        let message =
            format!("never falls below {min} a second, above the {source} {rate}: refusals never stop");
        found.push(warn("min_high", api, "rate", message, "set `min` well below the limit"));
    }
    if max > part(*rate, 2) {
        let message = format!("may rise to {max} a second, more than twice the {source} {rate}");
        found.push(warn(
            "max_high",
            api,
            "rate",
            message,
            "set `max` to the limit, at most to twice the limit",
        ));
    }
    found
}

/// Each success adds the step, and a rate of N has N successes a second: in one second the rate grows by about a factor of
/// one plus the step.
fn step(api: &Api, settings: &RateSettings) -> Option<Finding> {
    let (step, factor) = (settings.increase_step(), settings.decrease_factor().count());
    let advice = "set it to 0.1 to 0.2";
    if step > STEP_GENTLE_MAX || part(step, 4) > settings.max() {
        let message =
            format!("a step of {step} is large: the rate exceeds the limit soon after every refusal");
        return Some(warn("step_high", api, "rate", message, advice));
    }
    // From `max * factor` back to `max`, at the average rate.
    let lost = 2 * Millionths::ONE.saturating_sub(factor) * Millionths::ONE;
    let seconds = lost / (step.count().max(1) * (Millionths::ONE + factor));
    if seconds <= RECOVERY_SECONDS_MAX {
        return None;
    }
    let message = format!("with a step of {step}, recovery from one refusal takes about {seconds} s");
    Some(warn("step_low", api, "rate", message, advice))
}

fn factor(api: &Api, settings: &RateSettings) -> Option<Finding> {
    let factor = settings.decrease_factor();
    let (code, message) = match factor {
        factor if factor > FACTOR_MAX => {
            ("factor_high", format!("a refusal multiplies the rate by {factor}, so more refusals follow"))
        }
        factor if factor < FACTOR_MIN => {
            ("factor_low", format!("a refusal multiplies the rate by {factor}, a steep drop"))
        }
        _ => return None,
    };
    Some(warn(code, api, "rate", message, "set `decrease_factor = 0.5`"))
}

fn part(rate: Millionths, times: u64) -> Millionths {
    Millionths::new(rate.count().saturating_mul(times))
}

/// The long-run rate of a limit; `None` for a concurrency limit.
fn sustained(limit: &Limit) -> Option<Millionths> {
    let period = match limit.algorithm() {
        Algorithm::Window(calendar) => usual_length(calendar),
        Algorithm::FromFirstCall(period)
        | Algorithm::Sliding(period)
        | Algorithm::Bucket { period, .. }
        | Algorithm::Paced(period) => *period,
        Algorithm::Adaptive(_) | Algorithm::Concurrency { .. } => return None,
    };
    Some(per_second(limit.amount(), period))
}

/// An amount per period, as a rate per second.
pub(super) fn per_second(amount: u64, period: Span) -> Millionths {
    let total = u128::from(amount) * 1_000_000 * u128::from(Millionths::ONE);
    Millionths::new(u64::try_from(total / u128::from(period.as_micros().max(1))).unwrap_or(u64::MAX))
}

/// The long-run request rate of a policy: that of its tightest limit.
fn requests_of(policy: &Policy) -> Option<Millionths> {
    let counts_requests = |limit: &&Limit| limit.unit().as_str() == REQUESTS;
    policy.limits().iter().filter(counts_requests).filter_map(sustained).min()
}

/// The usual length of a window.
fn usual_length(calendar: &Calendar) -> Span {
    match calendar {
        Calendar::Every(period) => *period,
        Calendar::Day(_) => Span::from_days(1),
        Calendar::Week(_) => Span::from_days(7),
        Calendar::Month(_) => Span::from_days(30),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::codes;

    /// The recommended settings for a limit of 3 a second, with changes.
    fn of(documented: &str, changed: [(&str, &str); 2]) -> Vec<String> {
        let mut settings = [
            ("initial", "2.0"),
            ("min", "0.1"),
            ("max", "3.5"),
            ("increase_step", "0.1"),
            ("decrease_factor", "0.5"),
        ];
        for (key, value) in &mut settings {
            *value = changed.iter().find(|(name, _)| name == key).map_or(*value, |(_, value)| value);
        }
        let settings: Vec<String> = settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let settings = settings.join(", ");
        codes(&format!(
            "[apis.a]\nbase_url = 'https://a'\nrate = {{ {settings} }}\ndocumented = '{documented}'"
        ))
    }

    fn with(key: &str, value: &str) -> Vec<String> {
        of("about 3 requests a second", [(key, value), ("", "")])
    }

    const NOTHING: [&str; 0] = [];

    /// D6: each recommendation, just met and just missed.
    #[test]
    fn settings_outside_the_guide_are_found() {
        for (key, good, wrong, code) in [
            ("initial", "3", "3.01", "INITIAL_HIGH"),
            ("initial", "0.75", "0.74", "INITIAL_LOW"),
            ("min", "0.1", "0.099999", "MIN_LOW"),
            ("max", "6", "6.1", "MAX_HIGH"),
            ("increase_step", "0.2", "0.21", "STEP_HIGH"),
            ("increase_step", "0.011", "0.01", "STEP_LOW"),
            ("decrease_factor", "0.9", "0.91", "FACTOR_HIGH"),
            ("decrease_factor", "0.25", "0.24", "FACTOR_LOW"),
        ] {
            assert_eq!(with(key, good), NOTHING, "{key} = {good}");
            assert_eq!(with(key, wrong), [code], "{key} = {wrong}");
        }
        let slow = "a call every 4 s: 15 requests a minute";
        assert_eq!(of(slow, [("initial", "0.2"), ("max", "0.4")]), NOTHING);
        let slower = [("initial", "0.2"), ("max", "0.39")];
        assert_eq!(of(slow, slower), ["STEP_HIGH"], "more than a quarter of the highest rate");
        assert_eq!(of(slow, [("min", "0.3"), ("max", "2")]).join(" "), "INITIAL_HIGH MIN_HIGH MAX_HIGH");
    }

    #[test]
    fn unknown_limit_needs_a_low_initial_rate() {
        assert_eq!(of("unknown", [("initial", "3"), ("max", "50")]), NOTHING);
        assert_eq!(of("unknown", [("initial", "3.1"), ("max", "50")]), ["INITIAL_UNKNOWN"]);
    }

    #[test]
    fn policy_sets_the_expected_rate_and_is_compared_with_the_documented_one() {
        let of = |limit: &str, documented: &str| {
            codes(&format!(
                "[policies.p]\nlimits = ['{limit}']\n[apis.a]\nbase_url = 'https://a'\npolicy = 'p'\n\
                 rate = {{ initial = 2, min = 0.1, max = 3.5, increase_step = 0.1, decrease_factor = 0.5 }}\n\
                 documented = '{documented}'"
            ))
        };
        assert_eq!(of("3 / second paced", ""), NOTHING);
        assert_eq!(of("1 / second paced", ""), ["INITIAL_HIGH", "MAX_HIGH"]);
        assert_eq!(of("3 / second paced", "3 requests a second"), NOTHING);
        assert_eq!(of("4 / second paced", "3 requests a second"), ["POLICY_ABOVE_DOCUMENTED"]);
        assert_eq!(of("4 tokens / second bucket", "3 requests a second"), NOTHING);
    }

    /// The profiles that are shipped follow the guide.
    #[test]
    fn profiles_have_no_findings() {
        for profile in tollway::config::Api::profiles() {
            let url = if profile.name().as_str() == "shopify" { "base_url = 'https://a'" } else { "" };
            assert_eq!(codes(&format!("[apis.{}]\n{url}", profile.name())), NOTHING, "{}", profile.name());
        }
    }

    #[test]
    fn secrets_in_plain_text_and_idle_costs_are_found() {
        let of = |line: &str| {
            codes(&format!(
                "[apis.a]\nbase_url = 'https://a'\nlimits = ['9 / minute', '9 tokens / minute']\n{line}"
            ))
        };
        assert_eq!(of("headers = { authorization = 'Bearer x', accept = 'y' }"), ["LITERAL_SECRET"]);
        assert_eq!(of("headers = { authorization = { env = 'X' } }"), NOTHING);
        assert_eq!(of("cost = { tokens = 'bytes / 4', requests = 2 }"), NOTHING);
        assert_eq!(of("cost = { token = 'bytes / 4' }"), ["IDLE_COST"]);
    }

    #[test]
    fn auto_needs_no_tuning() {
        assert_eq!(
            codes("[apis.a]\nbase_url = 'https://a'\nrate = 'auto'\ndocumented = '3 a second'"),
            NOTHING
        );
    }
}
