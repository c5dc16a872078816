//! `POST /v1/take`: one take, several at once, or one under several policies.

use std::time::Duration;

use futures_util::future::join_all;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, StatusCode};
use tollway_inbound::headers::{self, Shown, whole_ms};

use super::answer::{BatchEntry, LimitAnswer, TakeAnswer};
use super::body::{self, Response, json, json_list};
use super::problem::Problem;
use super::question::{Amounts, PartyQuestion, TakeQuestion};
use crate::bounds::TAKES_PER_BATCH_MAX;
use crate::connection::Caller;
use crate::decide::{Decided, Party, Question, Verdict, decide};
use crate::worker::Worker;

pub(super) async fn answer(
    worker: &Worker,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let body = body::read(caller, request).await?;
    let is_batch = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    if is_batch { answer_batch(worker, &body).await } else { answer_one(worker, &body).await }
}

async fn answer_one(worker: &Worker, body: &[u8]) -> Result<Response, Problem> {
    let question: TakeQuestion<'_> =
        serde_json::from_slice(body).map_err(|error| Problem::bad_json(&error))?;
    let Decided { parties, verdict } = decide(worker, question.understood()?).await?;
    let shown = parties.shown(&verdict);
    let (now, retry_after) = (verdict.now(), verdict.retry_after());
    let status = if retry_after.is_none() { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let mut response = match &verdict {
        Verdict::Denied(_) => json(status, &TakeAnswer::denial(&verdict, &shown)),
        Verdict::Granted(_) => json(status, &TakeAnswer::grant(worker, verdict, &shown)),
    };
    put_headers(&mut response, &shown, now, retry_after);
    Ok(response)
}

/// Independent takes: each is decided by itself, and whatever goes wrong with one is its own answer.
async fn answer_batch(worker: &Worker, body: &[u8]) -> Result<Response, Problem> {
    let questions: Vec<TakeQuestion<'_>> =
        serde_json::from_slice(body).map_err(|error| Problem::bad_json(&error))?;
    if questions.len() > TAKES_PER_BATCH_MAX {
        return Err(Problem::too_many_takes(questions.len()));
    }
    // At the same time, so that a store on the network is asked for them together.
    let entries = join_all(questions.iter().map(async |question| entry(worker, question).await)).await;
    Ok(json_list(&entries))
}

/// One answer of several, in JSON.
async fn entry(worker: &Worker, question: &TakeQuestion<'_>) -> Vec<u8> {
    let decided = async { Ok::<_, Problem>(decide(worker, question.understood()?).await?) };
    let entry = match decided.await {
        Err(problem) => serde_json::to_vec(&BatchEntry::Problem(problem)),
        Ok(Decided { parties, verdict }) => {
            let shown = parties.shown(&verdict);
            let answer = match &verdict {
                Verdict::Denied(_) => TakeAnswer::denial(&verdict, &shown),
                Verdict::Granted(_) => TakeAnswer::grant(worker, verdict, &shown),
            };
            serde_json::to_vec(&BatchEntry::Decided(Box::new(answer)))
        }
    };
    entry.unwrap_or_default()
}

impl TakeQuestion<'_> {
    /// The question, if it is one.
    pub(super) fn understood(&self) -> Result<Question<'_>, Problem> {
        let parties = match (&self.policy, &self.all) {
            (Some(policy), None) => {
                std::iter::once(party(policy, self.subject.as_deref(), self.cost.as_ref())).collect()
            }
            (None, Some(all)) if self.subject.is_none() && self.cost.is_none() => {
                all.iter().map(PartyQuestion::understood).collect()
            }
            _ => {
                let message =
                    "a take has either `policy` with `subject` and `cost`, or `all` with a list of those";
                return Err(Problem::bad_request(message));
            }
        };
        let wait = self.wait_ms.filter(|wait| *wait > 0).map(Duration::from_millis);
        Ok(Question { parties, wait, id: self.id.as_deref() })
    }
}

impl PartyQuestion<'_> {
    fn understood(&self) -> Party<'_> {
        party(&self.policy, self.subject.as_deref(), self.cost.as_ref())
    }
}

fn party<'a>(policy: &'a str, subject: Option<&'a str>, cost: Option<&'a Amounts<'_>>) -> Party<'a> {
    let cost = cost.into_iter().flat_map(Amounts::each).collect();
    Party { policy, subject: subject.unwrap_or_default(), cost }
}

impl<'a> TakeAnswer<'a> {
    fn grant(worker: &Worker, verdict: Verdict, shown: &[Shown<'a>]) -> Self {
        let now = verdict.now();
        let Verdict::Granted(permit) = verdict else { return Self::new(false) };
        Self {
            delay_ms: Some(whole_ms(permit.delay().into())),
            limits: shown.iter().map(|shown| LimitAnswer::new(shown, now)).collect(),
            degraded: permit.degraded(),
            would_deny: permit.would_deny(),
            permit: worker.shared.seal.close(&permit.into_ticket()),
            ..Self::new(true)
        }
    }

    pub(super) fn denial(verdict: &'a Verdict, shown: &[Shown<'a>]) -> Self {
        let now = verdict.now();
        let Verdict::Denied(denied) = verdict else { return Self::new(true) };
        Self {
            retry_after_ms: Some(whole_ms(denied.retry_after().into())),
            policy: Some(denied.policy().name().as_str()),
            limit: denied.limit().map(|limit| limit.name().as_str()),
            limits: shown.iter().map(|shown| LimitAnswer::new(shown, now)).collect(),
            degraded: denied.degraded(),
            ..Self::new(false)
        }
    }
}

/// The headers that tell what is left.
pub(super) fn put_headers(
    response: &mut Response,
    shown: &[Shown<'_>],
    now: tollway::Timestamp,
    retry_after: Option<tollway::Span>,
) {
    let headers = response.headers_mut();
    headers::write(shown, now, retry_after, |name, value| {
        let value = match value {
            headers::HeaderValue::Number(number) => Ok(HeaderValue::from(number)),
            headers::HeaderValue::Text(text) => HeaderValue::try_from(text),
        };
        if let Ok(value) = value {
            headers.insert(HeaderName::from_static(name), value);
        }
    });
}
