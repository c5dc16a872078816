//! Responses of the administration.

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use tollway::core::controller::QuotaLeft;
use tollway::core::{Policy, WhenStoreFails};
use tollway::metrics::{prometheus_text, prometheus_text_full};
use tollway::{Limit, LimitUsage, Limiter};

use super::access::{Refused, may_enter};
use super::actor::Actor;
use super::change_log::Change;
use crate::MetricsDetail;
use crate::connection::Caller;
use crate::http::{
    Access, LimitBody, Problem, Query, ResetBody, Response, json, metrics_text, no_content, read,
    subject_or_shared,
};
use crate::worker::Worker;

/// The state of the server.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HealthAnswer {
    /// `ok`, `degraded` (the store, or one of its nodes, does not answer) or `stopping`.
    status: &'static str,
    /// How many decisions were made without the store since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded_decisions: Option<u64>,
    /// The nodes of the store that do not answer, while others do; for requests with a read token.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes_away: Option<Vec<String>>,
}

/// Liveness: always 200.
pub(crate) fn health() -> Response {
    json(StatusCode::OK, &HealthAnswer { status: "ok", degraded_decisions: None, nodes_away: None })
}

/// Readiness. The server stays ready while the store fails: `when_store_fails` of each policy decides then.
pub(crate) async fn ready(worker: &Worker, caller: &Caller, request: Request<Incoming>) -> Response {
    let store = worker.state.limiter.store_status();
    let degraded_decisions = Some(store.degraded_decisions);
    let (code, status) = match (worker.state.is_stopping(), store.degraded_since) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        (false, Some(_)) => (StatusCode::OK, "degraded"),
        (false, None) => (StatusCode::OK, "ok"),
    };
    let nodes_away: Vec<String> = store.nodes_away.into_iter().map(|node| node.name).collect();
    let nodes_away = match nodes_away.is_empty() {
        true => None,
        // Probes have no token, and need no address.
        false => may_read(worker, caller, request).await.then_some(nodes_away),
    };
    json(code, &HealthAnswer { status, degraded_decisions, nodes_away })
}

/// Whether the request has a read token, on an open route.
async fn may_read(worker: &Worker, caller: &Caller, request: Request<Incoming>) -> bool {
    let entered = may_enter(Access::Read, &worker.state.rules(), worker, caller, request.headers());
    drop(request);
    let Err(refused) = entered else { return true };
    if matches!(refused, Refused::WrongToken) {
        refused.answer_late(worker).await;
    }
    false
}

/// The metrics of the limiter, of the server's connections, and of the program.
pub(crate) async fn metrics(worker: &Worker) -> Result<Response, Problem> {
    let state = &worker.state;
    let mut samples = state.limiter.samples().await;
    if !state.serves_only_metrics() {
        samples.extend(state.counts.samples());
        samples.extend(state.counts.bounded_samples(&state.new_subjects.bounded));
    }
    if let Some(read) = &state.program_samples {
        samples.extend(read().await.map_err(|error| Problem::no_figures(&error))?);
    }
    let text = match state.rules().metrics {
        MetricsDetail::Short => prometheus_text(&samples),
        MetricsDetail::Full => prometheus_text_full(&samples),
    };
    Ok(metrics_text(text))
}

/// The policies in force.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PoliciesAnswer {
    policies: Vec<PolicyAnswer>,
}

#[derive(Serialize, JsonSchema)]
struct PolicyAnswer {
    name: String,
    /// In the syntax of a config file.
    limits: Vec<LimitInForce>,
    /// The longest wait it allows.
    max_wait_ms: u64,
    /// What it does while the store is unavailable: `local`, `open` or `closed`.
    when_store_fails: &'static str,
    /// Whether it is a shadow policy, which never denies.
    shadow: bool,
}

#[derive(Serialize, JsonSchema)]
struct LimitInForce {
    name: String,
    limit: String,
    /// Whether it was set to 0, so that its policy grants nothing.
    stopped: bool,
}

impl PolicyAnswer {
    fn new(policy: &Policy, limiter: &Limiter) -> Self {
        let in_force = |limit: &Limit| LimitInForce {
            name: limit.name().to_string(),
            limit: limit.to_string(),
            stopped: limiter.is_stopped(policy.name().as_str(), limit.name().as_str()),
        };
        Self {
            name: policy.name().to_string(),
            limits: policy.limits().iter().map(in_force).collect(),
            max_wait_ms: policy.max_wait().as_micros() / 1_000,
            when_store_fails: match policy.when_store_fails() {
                WhenStoreFails::Local => "local",
                WhenStoreFails::Open => "open",
                WhenStoreFails::Closed => "closed",
            },
            shadow: policy.shadow(),
        }
    }
}

pub(crate) fn policies(worker: &Worker) -> Response {
    let limiter = &worker.state.limiter;
    let policies = limiter.policies().iter().map(|policy| PolicyAnswer::new(policy, limiter)).collect();
    json(StatusCode::OK, &PoliciesAnswer { policies })
}

/// The usage of a policy.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UsageAnswer {
    policy: String,
    subject: String,
    limits: Vec<UsedAnswer>,
    /// Until when a vendor holds calls back, since 1970; left out if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_until_ms: Option<u64>,
    /// What the vendor's headers say is left, for an api with `rate = "auto"`; left out if they say nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    vendor_quotas: Option<Vec<VendorQuotaAnswer>>,
}

/// A quota as the vendor's newest answers showed it.
#[derive(Serialize, JsonSchema)]
struct VendorQuotaAnswer {
    /// Calls a full quota has; left out if the vendor does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// Calls left, less those that were granted since.
    remaining: u64,
    /// When it resets, since 1970; left out if the vendor does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    resets_at_ms: Option<u64>,
}

impl VendorQuotaAnswer {
    fn new(quota: &QuotaLeft) -> Self {
        let resets_at_ms = quota.resets_at.map(|at| at.as_micros().div_ceil(1_000));
        Self { limit: quota.limit, remaining: quota.remaining, resets_at_ms }
    }
}

#[derive(Serialize, JsonSchema)]
struct UsedAnswer {
    name: String,
    unit: String,
    /// How much per period, or how many slots.
    amount: u64,
    /// The burst of a bucket, else the amount.
    capacity: u64,
    used: u64,
    remaining: u64,
    /// How long until it resets.
    reset_ms: u64,
}

impl UsedAnswer {
    fn new(usage: &LimitUsage) -> Self {
        Self {
            name: usage.name.to_string(),
            unit: usage.unit.to_string(),
            amount: usage.amount,
            capacity: usage.capacity,
            used: usage.used,
            remaining: usage.remaining,
            reset_ms: usage.resets_in.as_micros().div_ceil(1_000),
        }
    }
}

pub(crate) async fn usage(worker: &Worker, request: Request<Incoming>) -> Result<Response, Problem> {
    // A copy: a part of a head keeps all of it in memory.
    let query = request.uri().query().map(str::to_owned);
    drop(request);
    let query = Query::read(query.as_deref(), &["policy", "subject"])?;
    let (policy, subject) = (query.required("policy")?, subject_or_shared(query.get("subject"))?);
    let usage = worker.state.limiter.usage(policy).subject(subject).await?;
    let quotas = worker.state.limiter.quotas_left(policy).subject(subject).await?;
    let vendor_quotas = (!quotas.is_empty()).then(|| quotas.iter().map(VendorQuotaAnswer::new).collect());
    let limits = usage.limits.iter().map(UsedAnswer::new).collect();
    let held_until_ms = usage.held_until.map(|until| until.as_micros().div_ceil(1_000));
    let (policy, subject) = (policy.to_owned(), subject.to_owned());
    Ok(json(StatusCode::OK, &UsageAnswer { policy, subject, limits, held_until_ms, vendor_quotas }))
}

pub(crate) async fn reset(
    worker: &Worker,
    caller: &Caller,
    actor: &Actor,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let body = read(caller, request).await?;
    let question: ResetBody<'_> = serde_json::from_slice(&body).map_err(|error| Problem::bad_json(&error))?;
    let subject = subject_or_shared(question.subject.as_deref())?;
    let limiter = &worker.state.limiter;
    let used = used(limiter, &question.policy, subject).await;
    limiter.reset(&question.policy).subject(subject).await?;
    tracing::info!(by = %actor, policy = ?question.policy, ?subject, from = used, to = 0, "usage was reset");
    // Without the subject: the page shows changes to clients that may not see subjects.
    note(worker, actor, &question.policy, "usage of a subject", &used, "0");
    Ok(no_content(StatusCode::NO_CONTENT))
}

/// What a subject has used of each limit, for the log.
async fn used(limiter: &Limiter, policy: &str, subject: &str) -> String {
    match limiter.usage(policy).subject(subject).await {
        Ok(usage) => {
            let limits = usage.limits.iter().map(|limit| format!("{} {}", limit.used, limit.name));
            limits.collect::<Vec<_>>().join(", ")
        }
        Err(_) => "unknown".to_owned(),
    }
}

/// A limit in force.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LimitsAnswer {
    policy: String,
    name: String,
    /// In the syntax of a config file.
    limit: String,
    /// Whether it was set to 0: its policy grants nothing until the limit is set again or cleared.
    stopped: bool,
}

pub(crate) async fn set_limit(
    worker: &Worker,
    caller: &Caller,
    actor: &Actor,
    parameters: Vec<String>,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let body = read(caller, request).await?;
    let question: LimitBody<'_> = serde_json::from_slice(&body).map_err(|error| Problem::bad_json(&error))?;
    let [policy, limit] = both(parameters)?;
    let before = limit_text(worker, &policy, &limit);
    worker.state.limiter.set_limit(&policy, &limit, &question.to).await?;
    limit_in_force(worker, actor, before, policy, limit)
}

pub(crate) async fn clear_limit(
    worker: &Worker,
    actor: &Actor,
    parameters: Vec<String>,
) -> Result<Response, Problem> {
    let [policy, limit] = both(parameters)?;
    let before = limit_text(worker, &policy, &limit);
    worker.state.limiter.clear_limit(&policy, &limit).await?;
    limit_in_force(worker, actor, before, policy, limit)
}

fn both(parameters: Vec<String>) -> Result<[String; 2], Problem> {
    parameters.try_into().map_err(|_| Problem::bad_request("a policy and a limit are needed"))
}

/// A limit in the syntax of a config file, and whether it is stopped.
fn limit_text(worker: &Worker, policy: &str, name: &str) -> (String, bool) {
    let known = worker.state.limiter.policy(policy).map(|handle| handle.policy()).ok();
    let limit = known.iter().flat_map(|known| known.limits().iter());
    let limit = limit.filter(|limit| limit.name().as_str() == name).map(ToString::to_string).next();
    (limit.unwrap_or_default(), worker.state.limiter.is_stopped(policy, name))
}

fn limit_in_force(
    worker: &Worker,
    actor: &Actor,
    before: (String, bool),
    policy: String,
    name: String,
) -> Result<Response, Problem> {
    let (limit, stopped) = limit_text(worker, &policy, &name);
    let shown = |limit: &str, stopped| if stopped { "0".to_owned() } else { limit.to_owned() };
    let (from, to) = (shown(&before.0, before.1), shown(&limit, stopped));
    tracing::info!(by = %actor, ?policy, limit = ?name, from, to, "a limit was set");
    note(worker, actor, &policy, &name, &from, &to);
    Ok(json(StatusCode::OK, &LimitsAnswer { policy, name, limit, stopped }))
}

/// Keeps a change for a page that shows it.
fn note(worker: &Worker, actor: &Actor, policy: &str, what: &str, from: &str, to: &str) {
    worker.state.changes.note(Change {
        at: worker.state.limiter.clock().now(),
        who: actor.to_string(),
        target: policy.to_owned(),
        what: what.to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
    });
}
