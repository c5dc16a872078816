//! What a caller asks for besides the call itself: `Tollway-*` headers, and how long its SDK waits for an answer.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tollway::config::Api;
use tollway::core::{Name, read_span};
use tollway_client::Priority;
use tollway_server::Client;

use crate::bounds::{SDK_MARGIN, WAIT_MAX};
use crate::refusal::Refusal;

const MAX_WAIT: HeaderName = HeaderName::from_static("tollway-max-wait");
const PRIORITY: HeaderName = HeaderName::from_static("tollway-priority");
const COST: HeaderName = HeaderName::from_static("tollway-cost");
const ACCOUNT: HeaderName = HeaderName::from_static("tollway-account");
const SUBJECT: HeaderName = HeaderName::from_static("tollway-subject");

/// The timeouts of the SDKs that Stainless makes (OpenAI, Anthropic and others), in seconds.
const SDK_TIMEOUTS: [HeaderName; 2] =
    [HeaderName::from_static("x-stainless-read-timeout"), HeaderName::from_static("x-stainless-timeout")];

/// The most units of `Tollway-Cost`: no policy has more limits.
const UNITS_MAX: usize = tollway::core::bounds::LIMITS_PER_POLICY_MAX;

const PRIORITIES: [(&str, Priority); 3] =
    [("low", Priority::Low), ("normal", Priority::Normal), ("high", Priority::High)];

/// What a caller asks for.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Wishes {
    pub(crate) max_wait: Duration,
    pub(crate) priority: Priority,
    pub(crate) cost: Vec<(Name, u64)>,
    pub(crate) account: Option<String>,
    /// Its subject under the policy of callers' shares.
    pub(crate) subject: Option<String>,
}

impl Wishes {
    /// Those in the headers of a request. `Tollway-*` headers of a client that is not trusted are ignored.
    pub(crate) fn of(headers: &HeaderMap, api: &Api, client: Client) -> Result<Self, Refusal> {
        let mut wishes = Self { max_wait: api.gateway().max_wait().into(), ..Self::default() };
        if let Some(timeout) = SDK_TIMEOUTS.iter().filter_map(|name| read(headers, name, seconds).ok()?).min()
        {
            wishes.max_wait = wishes.max_wait.min(timeout.saturating_sub(SDK_MARGIN));
        }
        if !client.is_trusted {
            return Ok(wishes);
        }
        if let Some(wait) = read(headers, &MAX_WAIT, wait)? {
            wishes.max_wait = wishes.max_wait.min(wait);
        }
        wishes.priority = read(headers, &PRIORITY, priority)?.unwrap_or_default();
        wishes.cost = read(headers, &COST, costs)?.unwrap_or_default();
        wishes.account = read(headers, &ACCOUNT, |text| Some(text.to_owned()))?;
        wishes.subject = read(headers, &SUBJECT, |text| Some(text.to_owned()))?;
        Ok(wishes)
    }
}

/// The value of a header; an error if it is there and cannot be read.
fn read<T>(
    headers: &HeaderMap,
    name: &HeaderName,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Refusal> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    match value.to_str().ok().map(str::trim).and_then(parse) {
        Some(value) => Ok(Some(value)),
        None => Err(Refusal::bad_request(format!(
            "the header {name} cannot be read; write tollway-max-wait: 10s, tollway-priority: low, normal or high, \
             tollway-cost: tokens=3000, tollway-account: NAME"
        ))),
    }
}

/// `10`, `2.5`, `10s` or `1m`.
fn wait(text: &str) -> Option<Duration> {
    seconds(text).or_else(|| read_span(text).ok().map(Duration::from)).map(|wait| wait.min(WAIT_MAX))
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn priority(text: &str) -> Option<Priority> {
    PRIORITIES.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, priority)| *priority)
}

/// `tokens=3000, output_tokens=500`.
fn costs(text: &str) -> Option<Vec<(Name, u64)>> {
    let cost = |part: &str| {
        let (unit, amount) = part.split_once('=')?;
        Some((Name::new(unit.trim()).ok()?, amount.trim().parse().ok()?))
    };
    let costs: Vec<_> = text.split(',').take(UNITS_MAX + 1).map(cost).collect::<Option<_>>()?;
    (costs.len() <= UNITS_MAX).then_some(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: Client = Client { is_trusted: true, sent_token_as_authorization: false };

    fn wishes(lines: &[(&'static str, &'static str)], client: Client) -> Result<Wishes, u16> {
        let api = Api::profile("openai").unwrap();
        let headers = lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        Wishes::of(&headers.collect(), &api, client).map_err(|refusal| refusal.status().as_u16())
    }

    fn max_wait(lines: &[(&'static str, &'static str)]) -> f64 {
        wishes(lines, LOCAL).unwrap().max_wait.as_secs_f64()
    }

    #[test]
    fn the_shortest_wait_counts() {
        assert_eq!(max_wait(&[]), 50.0);
        assert_eq!(max_wait(&[("tollway-max-wait", "2.5")]), 2.5);
        assert_eq!(max_wait(&[("tollway-max-wait", "2m")]), 50.0, "the config's bound stays");
        assert_eq!(max_wait(&[("x-stainless-read-timeout", "600")]), 50.0);
        assert_eq!(max_wait(&[("x-stainless-read-timeout", "600"), ("x-stainless-timeout", "10")]), 9.0);
        assert_eq!(max_wait(&[("x-stainless-read-timeout", "0.5")]), 0.0);
        assert_eq!(
            max_wait(&[("x-stainless-read-timeout", "NOT_GIVEN")]),
            50.0,
            "an SDK's header is no mistake"
        );
    }

    #[test]
    fn wishes_of_strangers_are_ignored_and_others_must_be_readable() {
        let lines = [("tollway-priority", "HIGH"), ("tollway-cost", "tokens=30, input_tokens=7")];
        let read = wishes(&lines, LOCAL).unwrap();
        assert_eq!((read.priority, read.cost.len()), (Priority::High, 2));
        let stranger = Client { is_trusted: false, ..LOCAL };
        let ignored = wishes(&lines, stranger).unwrap();
        assert_eq!((ignored.priority, ignored.cost.len()), (Priority::Normal, 0));
        for (name, value) in [
            ("tollway-max-wait", "soon"),
            ("tollway-max-wait", "-1"),
            ("tollway-max-wait", "nan"),
            ("tollway-priority", "urgent"),
            ("tollway-cost", "tokens"),
            ("tollway-cost", "tokens=-1"),
        ] {
            assert_eq!(wishes(&[(name, value)], LOCAL), Err(400), "{name}: {value}");
            assert!(wishes(&[(name, value)], stranger).is_ok(), "{name}: {value}");
        }
    }
}
