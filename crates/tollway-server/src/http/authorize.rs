//! `/v1/authorize`: yes or no for a request that a proxy holds: nginx's `auth_request`, forward-auth of others.
//!
//! The policy stands in the query, the subject in the headers: what the request's caller shows, or where it comes from.

use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};
use tollway::ANONYMOUS_POLICY;
use tollway_inbound::headers::{most_telling, too_many_requests};

use super::answer::{TooManyRequests, whole_ms};
use super::body::{Response, json, no_content};
use super::problem::Problem;
use super::query::Query;
use super::take::put_headers;
use crate::connection::Caller;
use crate::decide::{Decided, Question, Verdict, decide};
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
    let policy = query.required("policy")?;
    let who = Who::of_request(&worker.shared.rules(), caller, request.headers())?;
    let policy = if who.anonymous { ANONYMOUS_POLICY } else { policy };
    if worker.policies.find(&worker.shared, policy)?.policy.holds_slots() {
        return Err(Problem::never_waits(policy));
    }
    let Decided { parties, verdict } = decide(worker, Question::request(policy, &who.subject)).await?;
    let shown = parties.shown(&verdict);
    let mut response = match &verdict {
        Verdict::Granted(_) => no_content(StatusCode::OK),
        Verdict::Denied(denied) => {
            let limit = most_telling(&shown).map(|shown| shown.limit).or(denied.limit());
            let told = TooManyRequests {
                code: denied_with.as_u16(),
                message: limit.map(|limit| too_many_requests(limit, who.anonymous)).unwrap_or_default(),
                policy: denied.policy().name().as_str(),
                limit: limit.map(|limit| limit.name().as_str()),
                retry_after_ms: whole_ms(denied.retry_after().into()),
            };
            json(denied_with, &told)
        }
    };
    put_headers(&mut response, &shown, verdict.now(), verdict.retry_after());
    Ok(response)
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

/// Whom a request is counted for.
struct Who {
    /// What it was made of, and its value: a caller's key can never be taken for an address.
    subject: String,
    /// Whether it shows no credentials although there are some to show.
    anonymous: bool,
}

impl Who {
    fn of_request(rules: &Rules, caller: &Caller, headers: &HeaderMap) -> Result<Self, Problem> {
        let shown = rules.subject_headers.iter().find_map(|name| Some((name, headers.get(name)?)));
        if let Some((name, value)) = shown {
            let not_text = |_| Problem::bad_request(format!("the header {name} is not text"));
            let value = std::str::from_utf8(value.as_bytes()).map_err(not_text)?;
            return Ok(Self { subject: format!("{name}:{value}"), anonymous: false });
        }
        let lines = headers.get_all(rules.address.header.name()).iter();
        // A line that is not text has no address in it.
        let lines = lines.map(|line| line.to_str().unwrap_or_default());
        let client = rules.address.client(caller.peer, lines).ok_or_else(Problem::unknown_client)?;
        let subject = format!("{ADDRESS}:{}", rules.address.subject(client));
        Ok(Self { subject, anonymous: !rules.subject_headers.is_empty() })
    }
}
