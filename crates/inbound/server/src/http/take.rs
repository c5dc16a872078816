//! `POST /v1/take`: one take, several at once, or one under several policies.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, StatusCode};
use smallvec::SmallVec;
use tollway::core::Decision;
use tollway::{Denied, Permit, TakeError};
use tollway_inbound::address::Network;
use tollway_inbound::headers::{self, LimitStatus, whole_ms};
use tollway_inbound::{CountedCharge, InboundTake, decision_of};

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
    let respond = |answer: TakeAnswer<'_>, statuses: &[LimitStatus<'_>], decision: &Decision| {
        let status = if answer.granted { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
        let mut response = json(status, &answer);
        put_headers(&mut response, statuses, decision);
        response
    };
    decide_body(worker, client, body, respond).await
}

/// Independent takes: each has its own decision or error.
async fn answer_batch(worker: &Worker, client: ClientOfTake<'_>, body: &[u8]) -> Result<Response, Problem> {
    let takes: Vec<TakeBody<'_>> = serde_json::from_slice(body).map_err(|error| Problem::bad_json(&error))?;
    if takes.len() > TAKES_PER_BATCH_MAX {
        return Err(Problem::too_many_takes(takes.len()));
    }
    // Concurrent, so that a remote store gets them in one batch.
    let entries = join_all(takes.into_iter().map(async |take| entry(worker, client, take).await)).await;
    Ok(json_list(&entries))
}

/// One entry of a batch's response, in JSON.
async fn entry(worker: &Worker, client: ClientOfTake<'_>, body: TakeBody<'_>) -> Vec<u8> {
    let write = |answer: TakeAnswer<'_>, _: &[LimitStatus<'_>], _: &Decision| {
        serde_json::to_vec(&BatchEntry::Answer(Box::new(answer)))
    };
    let written = decide_body(worker, client, body, write).await;
    // Serializing these types cannot fail.
    written.unwrap_or_else(|problem| serde_json::to_vec(&BatchEntry::Problem(problem))).unwrap_or_default()
}

/// Decides the take of a body. `write` writes the answer, from the limits after the decision, its time and its outcome.
async fn decide_body<T>(
    worker: &Worker,
    client: ClientOfTake<'_>,
    mut body: TakeBody<'_>,
    write: impl FnOnce(TakeAnswer<'_>, &[LimitStatus<'_>], &Decision) -> T,
) -> Result<T, Problem> {
    let charges = body.take_charges()?;
    let find = |charge: &ChargeBody<'_>| worker.policies.find(&worker.state, &charge.policy);
    let policies = charges.iter().map(find).collect::<Result<SmallVec<[Rc<KnownPolicy>; 1]>, TakeError>>()?;
    let counted = charges.iter().zip(&policies).map(|(charge, known)| charge.under(known));
    let mut take = InboundTake { wait: body.wait(), id: body.id.as_deref(), ..InboundTake::now(counted) };
    let taken = decide(worker, client.caller, client.network, &mut take).await?;
    let decision = decision_of(&taken);
    let statuses = take.limit_statuses(decision, false);
    let alone = alone(worker, &client.caller.own_part, &take, &statuses, decision);
    // `grant` consumes the permit below; the headers need only the time and the outcome.
    let decision = Decision::new(decision.now, decision.outcome);
    Ok(match taken {
        Ok(permit) => {
            let grant = TakeAnswer { alone, ..TakeAnswer::grant(worker, permit, &statuses) };
            write(grant, &statuses, &decision)
        }
        Err(denied) => {
            let denial = TakeAnswer { alone, ..TakeAnswer::denial(&denied, &statuses) };
            write(denial, &statuses, &decision)
        }
    })
}

impl<'a> TakeBody<'a> {
    /// Moves the charges out, if the body names either one policy or several.
    pub(super) fn take_charges(&mut self) -> Result<SmallVec<[ChargeBody<'a>; 1]>, Problem> {
        let (subject, cost) = (self.subject.take(), self.cost.take());
        let charges = match (self.policy.take(), self.all.take()) {
            (Some(policy), None) => SmallVec::from_buf([ChargeBody { policy, subject, cost }]),
            (None, Some(all)) if subject.is_none() && cost.is_none() => all.into(),
            _ => {
                let message =
                    "a take has either `policy` with `subject` and `cost`, or `all` with a list of those";
                return Err(Problem::bad_request(message));
            }
        };
        charges.iter().try_for_each(|charge| subject_or_shared(charge.subject.as_deref()).map(drop))?;
        Ok(charges)
    }

    pub(super) fn wait(&self) -> Option<Duration> {
        self.wait_ms.filter(|wait| *wait > 0).map(Duration::from_millis)
    }
}

impl ChargeBody<'_> {
    fn under<'c>(&'c self, known: &'c KnownPolicy) -> CountedCharge<'c> {
        let amounts = self.cost.iter().flat_map(Amounts::each).collect();
        known.charge(self.subject.as_deref().unwrap_or_default(), amounts)
    }
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
