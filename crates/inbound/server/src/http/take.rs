//! `POST /v1/take`: one take, several at once, or one under several policies.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, StatusCode};
use smallvec::SmallVec;
use tollway::core::{Decision, NewAccounts};
use tollway::{Denied, Permit, TakeError};
use tollway_inbound::address::Network;
use tollway_inbound::headers::{self, LimitStatus, whole_ms};
use tollway_inbound::{InboundTake, decision_of};

use super::body::{self, Response, json, json_list};
use super::problem::Problem;
use super::request_bodies::{Amounts, ChargeBody, TakeBody};
use super::response_bodies::{BatchEntry, LimitAnswer, TakeAnswer};
use crate::alone::alone;
use crate::bounded_take::{client_network, decide};
use crate::bounds::TAKES_PER_BATCH_MAX;
use crate::connection::Caller;
use crate::known_policies::KnownPolicy;
use crate::worker::Worker;

pub(super) async fn answer(
    worker: &Worker,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let client = ClientOfTake { caller, network: client_network(worker, caller, request.headers()) };
    let body = body::read(caller, request).await?;
    let is_batch = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    if is_batch { answer_batch(worker, client, &body).await } else { answer_one(worker, client, &body).await }
}

/// Where takes are from.
#[derive(Clone, Copy)]
struct ClientOfTake<'c> {
    caller: &'c Caller,
    network: Option<Network>,
}

async fn answer_one(worker: &Worker, client: ClientOfTake<'_>, body: &[u8]) -> Result<Response, Problem> {
    let body: TakeBody<'_> = serde_json::from_slice(body).map_err(|error| Problem::bad_json(&error))?;
    let requested = body.requested()?;
    let policies = requested.policies(worker)?;
    let mut take = requested.under(&policies);
    let taken = decide(worker, client.caller, client.network, &mut take).await?;
    let decision = decision_of(&taken);
    let statuses = take.limit_statuses(decision, false);
    let alone = alone(worker, &client.caller.counted_in, &take, &statuses, decision);
    // `grant` consumes the permit below; the headers need only the time and the outcome.
    let decision = Decision::new(decision.now, decision.outcome);
    let mut response = match taken {
        Ok(permit) => {
            json(StatusCode::OK, &TakeAnswer { alone, ..TakeAnswer::grant(worker, permit, &statuses) })
        }
        Err(denied) => {
            let denial = TakeAnswer { alone, ..TakeAnswer::denial(&denied, &statuses) };
            json(StatusCode::TOO_MANY_REQUESTS, &denial)
        }
    };
    put_headers(&mut response, &statuses, &decision);
    Ok(response)
}

/// Independent takes: each has its own decision or error.
async fn answer_batch(worker: &Worker, client: ClientOfTake<'_>, body: &[u8]) -> Result<Response, Problem> {
    let takes: Vec<TakeBody<'_>> = serde_json::from_slice(body).map_err(|error| Problem::bad_json(&error))?;
    if takes.len() > TAKES_PER_BATCH_MAX {
        return Err(Problem::too_many_takes(takes.len()));
    }
    // Concurrent, so that a remote store gets them in one batch.
    let entries = join_all(takes.iter().map(async |take| entry(worker, client, take).await)).await;
    Ok(json_list(&entries))
}

/// One entry of a batch's response, in JSON.
async fn entry(worker: &Worker, client: ClientOfTake<'_>, body: &TakeBody<'_>) -> Vec<u8> {
    let answered = answer_entry(worker, client, body).await;
    answered.unwrap_or_else(|problem| serde_json::to_vec(&BatchEntry::Problem(problem)).unwrap_or_default())
}

async fn answer_entry(
    worker: &Worker,
    client: ClientOfTake<'_>,
    body: &TakeBody<'_>,
) -> Result<Vec<u8>, Problem> {
    let requested = body.requested()?;
    let policies = requested.policies(worker)?;
    let mut take = requested.under(&policies);
    let taken = decide(worker, client.caller, client.network, &mut take).await?;
    let decision = decision_of(&taken);
    let statuses = take.limit_statuses(decision, false);
    let alone = alone(worker, &client.caller.counted_in, &take, &statuses, decision);
    let entry = match taken {
        Ok(permit) => entry_json(TakeAnswer { alone, ..TakeAnswer::grant(worker, permit, &statuses) }),
        Err(denied) => entry_json(TakeAnswer { alone, ..TakeAnswer::denial(&denied, &statuses) }),
    };
    Ok(entry)
}

fn entry_json(answer: TakeAnswer<'_>) -> Vec<u8> {
    serde_json::to_vec(&BatchEntry::Answer(Box::new(answer))).unwrap_or_default()
}

/// A take as in its body, before its policies are looked up.
pub(super) struct RequestedTake<'a> {
    pub(super) charges: SmallVec<[RequestedCharge<'a>; 1]>,
    pub(super) wait: Option<Duration>,
    pub(super) id: Option<&'a str>,
}

/// A charge as in its body.
pub(super) struct RequestedCharge<'a> {
    pub(super) policy: &'a str,
    pub(super) subject: &'a str,
    pub(super) amounts: SmallVec<[(&'a str, u64); 2]>,
}

impl RequestedTake<'_> {
    /// The policy of each charge.
    fn policies(&self, worker: &Worker) -> Result<SmallVec<[Rc<KnownPolicy>; 1]>, TakeError> {
        self.charges.iter().map(|charge| worker.policies.find(&worker.state, charge.policy)).collect()
    }

    /// The take under the policies of its charges.
    fn under<'a>(&'a self, policies: &'a [Rc<KnownPolicy>]) -> InboundTake<'a> {
        let charge = |(requested, known): (&'a RequestedCharge<'_>, &'a Rc<KnownPolicy>)| {
            known.charge(requested.subject, requested.amounts.iter().copied().collect())
        };
        let charges = self.charges.iter().zip(policies).map(charge).collect();
        InboundTake { charges, wait: self.wait, id: self.id, new_accounts: NewAccounts::default() }
    }
}

impl TakeBody<'_> {
    /// The take, if the body names either one policy or several.
    pub(super) fn requested(&self) -> Result<RequestedTake<'_>, Problem> {
        let charges = match (&self.policy, &self.all) {
            (Some(policy), None) => {
                SmallVec::from_buf([charge(policy, self.subject.as_deref(), self.cost.as_ref())?])
            }
            (None, Some(all)) if self.subject.is_none() && self.cost.is_none() => {
                all.iter().map(ChargeBody::requested).collect::<Result<_, Problem>>()?
            }
            _ => {
                let message =
                    "a take has either `policy` with `subject` and `cost`, or `all` with a list of those";
                return Err(Problem::bad_request(message));
            }
        };
        let wait = self.wait_ms.filter(|wait| *wait > 0).map(Duration::from_millis);
        Ok(RequestedTake { charges, wait, id: self.id.as_deref() })
    }
}

impl ChargeBody<'_> {
    fn requested(&self) -> Result<RequestedCharge<'_>, Problem> {
        charge(&self.policy, self.subject.as_deref(), self.cost.as_ref())
    }
}

fn charge<'a>(
    policy: &'a str,
    subject: Option<&'a str>,
    cost: Option<&'a Amounts<'_>>,
) -> Result<RequestedCharge<'a>, Problem> {
    let amounts = cost.into_iter().flat_map(Amounts::each).collect();
    Ok(RequestedCharge { policy, subject: subject_or_shared(subject)?, amounts })
}

/// The subject of a request; left out, the shared one. An empty one comes from an unset variable more often than from a
/// caller who means it.
pub(crate) fn subject_or_shared(subject: Option<&str>) -> Result<&str, Problem> {
    match subject {
        Some("") => Err(Problem::empty_subject()),
        subject => Ok(subject.unwrap_or_default()),
    }
}

impl<'a> TakeAnswer<'a> {
    fn grant(worker: &Worker, permit: Permit, statuses: &[LimitStatus<'a>]) -> Self {
        Self {
            delay_ms: Some(whole_ms(permit.delay().into())),
            limits: limit_answers(statuses, permit.decision()),
            degraded: permit.degraded(),
            would_deny: permit.would_deny(),
            permit: worker.state.seal.close(&permit.into_ticket()),
            ..Self::new(true)
        }
    }

    pub(super) fn denial(denied: &'a Denied, statuses: &[LimitStatus<'a>]) -> Self {
        Self {
            retry_after_ms: Some(whole_ms(denied.decision().wait())),
            policy: Some(denied.policy().name().as_str()),
            limit: denied.limit().map(|limit| limit.name().as_str()),
            limits: limit_answers(statuses, denied.decision()),
            degraded: denied.degraded(),
            ..Self::new(false)
        }
    }
}

fn limit_answers<'a>(statuses: &[LimitStatus<'a>], decision: &Decision) -> SmallVec<[LimitAnswer<'a>; 4]> {
    statuses.iter().map(|status| LimitAnswer::new(status, decision.now)).collect()
}

/// Adds the rate-limit headers.
pub(super) fn put_headers(response: &mut Response, statuses: &[LimitStatus<'_>], decision: &Decision) {
    let headers = response.headers_mut();
    headers::write(statuses, decision, |name, value| {
        let value = match value {
            headers::HeaderValue::Number(number) => Ok(HeaderValue::from(number)),
            headers::HeaderValue::Text(text) => HeaderValue::try_from(text),
        };
        if let Ok(value) = value {
            headers.insert(HeaderName::from_static(name), value);
        }
    });
}
