//! `/v1/authorize`: yes or no for a request that a proxy holds: nginx's `auth_request`, forward-auth of others.
//!
//! The policy stands in the query, the subject in the headers: what the request's caller shows, or where it comes from.
//! Without a policy, it is the limits of consumers that count.

use std::rc::Rc;

use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Request, StatusCode};
use smallvec::{SmallVec, smallvec};
use tollway_consumers::{ANONYMOUS_POLICY, CONSUMERS_POLICY};
use tollway_inbound::escapes::escaped;
use tollway_inbound::headers::{TooManyRequests, WOULD_DENY, most_telling};

use super::body::{Response, json, no_content};
use super::for_proxy::refused_with;
use super::problem::Problem;
use super::query::Query;
use super::take::put_headers;
use crate::connection::Caller;
use crate::consumers::{Call, Consumers};
use crate::decide::{Decided, Parties, Party, Verdict, decide_under};
use crate::known::Known;
use crate::rules::Rules;
use crate::worker::Worker;

/// The name of subjects that are addresses. No header may have it, so that nobody can claim another's address.
const ADDRESS: &str = "address";

pub(super) async fn answer(
    worker: &Worker,
    caller: &Caller,
    request: &Request<Incoming>,
) -> Result<Response, Problem> {
    let query = Query::read(request.uri().query(), &["policy", "deny"])?;
    let denied_with = read_denial(query.get("deny"))?;
    let consumers = worker.shared.consumers();
    let called = match (query.get("policy"), consumers) {
        (None | Some(CONSUMERS_POLICY), Some(consumers)) => {
            // Boxed, as is all that only some requests need: see `operate`.
            Box::pin(Called::of_consumers(worker, &consumers, caller, request.headers())).await?
        }
        _ => Called::under_policy(worker, query.required("policy")?, caller, request.headers())?,
    };
    match called {
        Called::Free => Ok(no_content(StatusCode::OK)),
        Called::Refused(problem) => Ok(refused_with(denied_with, problem.into_response())),
        Called::Counted(counted) => counted.answer(denied_with).await,
    }
}

/// What a request comes to.
enum Called {
    /// It is let through, and nothing is counted.
    Free,
    /// Whoever sent it is not let through, whatever was counted.
    Refused(Problem),
    Counted(Counted),
}

/// A request that is counted.
struct Counted {
    known: Rc<Known>,
    subject: String,
    /// Whether it shows no credentials although there are some to show.
    anonymous: bool,
}

impl Called {
    /// Counted under the policy that is asked for, for whomever the configured headers name.
    fn under_policy(
        worker: &Worker,
        policy: &str,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        let rules = worker.shared.rules();
        let shown = rules.subject_headers.iter().find_map(|name| Some((name, headers.get(name)?)));
        // What it was made of, and its value: a caller's key can never be taken for an address.
        let (subject, anonymous) = match shown {
            Some((name, value)) => {
                let not_text = |_| Problem::bad_request(format!("the header {name} is not text"));
                (format!("{name}:{}", std::str::from_utf8(value.as_bytes()).map_err(not_text)?), false)
            }
            None => (
                format!("{ADDRESS}:{}", address(&rules, caller, headers)?),
                !rules.subject_headers.is_empty(),
            ),
        };
        let policy = if anonymous { ANONYMOUS_POLICY } else { policy };
        let known = worker.policies.find(&worker.shared, policy)?;
        Self::counted(known, subject, anonymous)
    }

    /// Counted under the limits of its consumer, or by address if it names none.
    async fn of_consumers(
        worker: &Worker,
        consumers: &Consumers,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        let shown = consumers.who.calls(|name| Some(headers.get(name)?.as_bytes()));
        let shown = match shown {
            Ok(shown) => shown,
            Err(error) => return Ok(Self::Refused(Problem::unknown_consumer(&error))),
        };
        let Some(consumer) = shown else {
            // Without such a policy, nothing limits them.
            let known = worker.policies.find(&worker.shared, ANONYMOUS_POLICY).ok();
            let Some(known) = known.filter(|_| consumers.gate.is_enabled()) else { return Ok(Self::Free) };
            return Self::counted(known, address(&worker.shared.rules(), caller, headers)?, true);
        };
        match consumers.call(&worker.shared, &consumer).await.map_err(|error| Problem::of_records(&error))? {
            Call::Free => Ok(Self::Free),
            Call::Blocked => Ok(Self::Refused(Problem::blocked())),
            Call::Counted(known) => Self::counted(known, consumer.to_string(), false),
        }
    }

    fn counted(known: Rc<Known>, subject: String, anonymous: bool) -> Result<Self, Problem> {
        if known.policy.holds_slots() {
            return Err(Problem::never_waits(known.policy.name().as_str()));
        }
        Ok(Self::Counted(Counted { known, subject, anonymous }))
    }
}

impl Counted {
    async fn answer(&self, denied_with: StatusCode) -> Result<Response, Problem> {
        let Self { known, subject, anonymous } = self;
        let party = Party { policy: known.policy.name().as_str(), subject, cost: SmallVec::new() };
        let parties = Parties::new(smallvec![(party, Rc::clone(known))]);
        let Decided { parties, verdict } = decide_under(parties, None, None).await?;
        let shown = parties.shown(&verdict);
        let mut response = match &verdict {
            Verdict::Granted(permit) => {
                let mut granted = no_content(StatusCode::OK);
                if permit.would_deny()
                    && let Ok(shadow) = HeaderValue::try_from(escaped(known.policy.name().as_str()))
                {
                    granted.headers_mut().insert(WOULD_DENY, shadow);
                }
                granted
            }
            Verdict::Denied(denied) => {
                let limit = most_telling(&shown).map(|shown| shown.limit).or(denied.limit());
                let retry_after = denied.retry_after().into();
                let told = TooManyRequests::new(&known.policy, limit, *anonymous, retry_after);
                refused_with(denied_with, json(StatusCode::TOO_MANY_REQUESTS, &told))
            }
        };
        put_headers(&mut response, &shown, verdict.now(), verdict.retry_after());
        Ok(response)
    }
}

/// Where a request comes from.
fn address(rules: &Rules, caller: &Caller, headers: &HeaderMap) -> Result<String, Problem> {
    let lines = headers.get_all(rules.address.header.name());
    let client = rules.address.client(caller.peer, lines).ok_or_else(Problem::unknown_client)?;
    Ok(rules.address.subject(client).to_string())
}

/// nginx takes 401 and 403 for a denial and everything else for a failure; others pass 429 on.
fn read_denial(deny: Option<&str>) -> Result<StatusCode, Problem> {
    match deny {
        None | Some("429") => Ok(StatusCode::TOO_MANY_REQUESTS),
        Some("401") => Ok(StatusCode::UNAUTHORIZED),
        Some("403") => Ok(StatusCode::FORBIDDEN),
        Some(_) => Err(Problem::bad_request("the parameter deny may be 401, 403 or 429")),
    }
}
