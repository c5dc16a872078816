//! `/v1/authorize`: allows or denies a request for a proxy, as nginx's `auth_request` or forward-auth of others.
//!
//! The query names the policy. The subject is a header of the request, or the client's address. Without a policy, the limits
//! of the request's consumer apply.

use std::rc::Rc;

use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Request, StatusCode};
use smallvec::SmallVec;
use tollway_inbound::address::Network;
use tollway_inbound::escapes::escaped;
use tollway_inbound::headers::{CallerKind, TooManyRequests, WOULD_DENY};
use tollway_inbound::{ANONYMOUS_POLICY, InboundTake, decision_of};

use super::body::{Response, json, no_content};
use super::for_proxy::refused_with;
use super::identity_header::identity_header;
use super::problem::Problem;
use super::query::Query;
use super::take::put_headers;
use crate::bounded_take::{Undecided, client_network, decide, too_many_charges};
use crate::connection::Caller;
use crate::known_policies::KnownPolicy;
use crate::rules::Rules;
use crate::worker::Worker;

/// The prefix of subjects that are addresses. No header may have this name, so that no client can claim another's address.
const ADDRESS: &str = "address";

pub(super) async fn answer(
    worker: &Worker,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let query = Query::read(request.uri().query(), &["policy", "deny"])?;
    let denied_with = read_denial(query.get("deny"))?;
    let headers = request.headers();
    #[cfg(feature = "consumers")]
    if let None | Some(tollway_inbound::CONSUMERS_POLICY) = query.get("policy")
        && let Some(consumers) = worker.state.consumers()
    {
        // Boxed, like everything that only some requests need: see `operate`.
        return Box::pin(consumers.authorize(worker, caller, request, denied_with)).await;
    }
    let counted = count_under_policy(worker, query.required("policy")?, caller, headers)?;
    let network = client_network(worker, caller, headers);
    // The store may take its time, and the head of a request has up to 16 KiB.
    drop(request);
    counted.answer(worker, caller, network, denied_with).await
}

/// A request with the policy and subject it counts under.
pub(crate) struct CountedRequest {
    known: Rc<KnownPolicy>,
    subject: String,
    /// Anonymous if it has no credentials although the config names headers for them.
    caller: CallerKind,
}

/// Counts under the policy of the query, for the subject that the configured headers name.
fn count_under_policy(
    worker: &Worker,
    policy: &str,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<CountedRequest, Problem> {
    let rules = worker.state.rules();
    // Before the switch to another policy: a misspelt name is an error for every caller.
    let known = worker.policies.find(&worker.state, policy)?;
    let mut shown = None;
    for name in &rules.subject_headers {
        // Also those behind the first: which of two counts must not depend on the order.
        let value = identity_header(headers, name)?;
        shown = shown.or(value.map(|value| (name, value)));
    }
    // The prefix says where the value is from, so that a client's key can never pass for an address.
    let (subject, anonymous) = match shown {
        Some((name, value)) => {
            let not_text = |_| Problem::bad_request(format!("the header {name} is not text"));
            (format!("{name}:{}", std::str::from_utf8(value).map_err(not_text)?), false)
        }
        None => {
            (format!("{ADDRESS}:{}", address(&rules, caller, headers)?), !rules.subject_headers.is_empty())
        }
    };
    let known = if anonymous { worker.policies.find(&worker.state, ANONYMOUS_POLICY)? } else { known };
    let caller = if anonymous { CallerKind::Anonymous } else { CallerKind::Subject };
    CountedRequest::new(known, subject, caller)
}

impl CountedRequest {
    pub(crate) fn new(known: Rc<KnownPolicy>, subject: String, caller: CallerKind) -> Result<Self, Problem> {
        if known.policy.holds_slots() {
            return Err(Problem::never_waits(known.policy.name().as_str()));
        }
        Ok(Self { known, subject, caller })
    }

    pub(crate) async fn answer(
        &self,
        worker: &Worker,
        client: &Caller,
        network: Option<Network>,
        denied_with: StatusCode,
    ) -> Result<Response, Problem> {
        let Self { known, subject, caller } = self;
        let mut take = InboundTake::now([known.charge(subject, SmallVec::new())]);
        let taken = match decide(worker, client, network, &mut take).await {
            Ok(taken) => taken,
            Err(Undecided::TooManyCharges) => {
                return Ok(refused_with(denied_with, too_many_charges().into_response()));
            }
            Err(Undecided::Failed(error)) => return Err(error.into()),
        };
        let decision = decision_of(&taken);
        let statuses = take.limit_statuses(decision, false);
        let mut response = match &taken {
            Ok(permit) => {
                let mut granted = no_content(StatusCode::OK);
                if permit.would_deny()
                    && let Ok(shadow) = HeaderValue::try_from(escaped(known.policy.name().as_str()))
                {
                    granted.headers_mut().insert(WOULD_DENY, shadow);
                }
                granted
            }
            Err(denied) => {
                let body = TooManyRequests::of_denial(&known.policy, &statuses, denied, *caller);
                refused_with(denied_with, json(StatusCode::TOO_MANY_REQUESTS, &body))
            }
        };
        put_headers(&mut response, &statuses, decision);
        Ok(response)
    }
}

/// The client's address as a subject.
pub(crate) fn address(rules: &Rules, caller: &Caller, headers: &HeaderMap) -> Result<String, Problem> {
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
