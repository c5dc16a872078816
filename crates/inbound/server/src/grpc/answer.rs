//! The response to a request: all enforced descriptors are one take, so all are charged or none.
//!
//! Envoy's own service counts each descriptor by itself, so a request that one of them denies still uses up the others.
//! Here a denial costs nothing. Shadow policies are evaluated in the same step and deny nothing.

use std::collections::HashMap;

use bytes::Bytes;
use serde::Serialize;
use smallvec::{SmallVec, smallvec};
use tollway::core::{Decision, Fault, Reading, WhenStoreFails};
use tollway::{Limit, Span, TakeError, Timestamp};
use tollway_inbound::address::Network;
use tollway_inbound::escapes::escaped;
use tollway_inbound::headers::{self, HeaderChoice, LimitStatus, TooManyRequests, WOULD_DENY};
use tollway_inbound::{Admission, InboundTake, decision_of};

use super::message::{
    Code, DescriptorStatus, Duration, HeaderValue, RateLimit, RateLimitRequest, RateLimitResponse, Struct,
    Unit, Value,
};
use super::resolve::{Count, ResolvedRequest};
use super::service::Failure;
use crate::bounded_take::{Undecided, decide, too_many_charges};
use crate::connection::Caller;
use crate::http::Problem;
use crate::worker::Worker;

/// Answers `ShouldRateLimit`.
pub(super) async fn should_rate_limit(
    worker: &Worker,
    client: ClientOfCall<'_>,
    request: &RateLimitRequest,
) -> Result<RateLimitResponse, Failure> {
    let resolved = ResolvedRequest::new(worker, request).await?;
    let mut draft = ResponseDraft::new(resolved.counts.len());
    match decide_all(worker, client, &resolved, &mut draft).await {
        Ok(()) => {}
        // Denied, not failed: a proxy that fails open would let the request through.
        Err(Undecided::TooManyCharges) => {
            draft.refuse_all(RefusalBody::of_problem(&too_many_charges()));
            draft.add_header("retry-after", "1");
        }
        // For example a subject that the store cannot hold. Clients choose it, and must not bypass the limit with it.
        Err(Undecided::Failed(TakeError::Store(error))) if error.fault == Fault::Caller => {
            draft.refuse_all(RefusalBody::of_problem(&Problem::from(TakeError::Store(error))));
        }
        Err(Undecided::Failed(error)) => return Err(error.into()),
    }
    Ok(draft.into_response(resolved))
}

/// Where a call is from.
#[derive(Clone, Copy)]
pub(super) struct ClientOfCall<'c> {
    pub(super) caller: &'c Caller,
    pub(super) network: Option<Network>,
}

/// Reads the counts that add no hits, and takes the rest.
async fn decide_all(
    worker: &Worker,
    client: ClientOfCall<'_>,
    resolved: &ResolvedRequest,
    draft: &mut ResponseDraft,
) -> Result<(), Undecided> {
    for (index, count) in resolved.counts.iter().enumerate().filter(|(_, count)| count.is_read_only()) {
        Box::pin(read_usage(index, count, draft)).await.map_err(Undecided::Failed)?;
    }
    if resolved.is_blocked() || draft.over {
        return Ok(());
    }
    take(worker, client, resolved, draft).await
}

/// Takes all counts or none.
async fn take(
    worker: &Worker,
    client: ClientOfCall<'_>,
    resolved: &ResolvedRequest,
    draft: &mut ResponseDraft,
) -> Result<(), Undecided> {
    let mut counts: SmallVec<[(usize, &Count); 4]> = SmallVec::new();
    for (index, count) in resolved.counts.iter().enumerate().filter(|(_, count)| !count.is_read_only()) {
        if count.is_shadow() && count.is_above_limit() {
            draft.would_deny.push(index);
        } else {
            counts.push((index, count));
        }
    }
    if counts.is_empty() {
        return Ok(());
    }
    let mut take = InboundTake::now(counts.iter().map(|(_, count)| count.charge()));
    let taken = decide(worker, client.caller, client.network, &mut take).await?;
    let decision = decision_of(&taken);
    let mut statuses = take.limit_statuses(decision, false);
    let mut rest = &mut *statuses;
    let rules = worker.state.rules();
    for (charge, (index, count)) in counts.iter().enumerate() {
        let policy = &count.known.policy;
        let limits = policy.limits().len().min(rest.len());
        let (mine, others) = rest.split_at_mut(limits);
        rest = others;
        let over = match &taken {
            Ok(_) => {
                if decision.would_deny_of(charge) {
                    draft.would_deny.push(*index);
                }
                false
            }
            // A decision without the store has no readings; the denying policy is over.
            Err(denied) if mine.is_empty() => denied.policy().name() == policy.name(),
            Err(_) => mine.iter().any(|status| status.refuses),
        };
        draft.set_status(*index, shown_status(count, mine), decision.now, over);
        if over
            && count.of_caller
            && let Err(denied) = &taken
        {
            let body = || TooManyRequests::of_denial(policy, mine, denied, count.caller_kind());
            draft.refusal.get_or_insert_with(|| RefusalBody::of_limit(&body()));
        }
        // Envoy writes its own headers from the status. Ours are added if the config names them, and always for callers.
        if !count.of_caller && !rules.names_headers_of(policy.name().as_str()) {
            mine.iter_mut().for_each(|status| status.choice = HeaderChoice::NONE);
        }
    }
    draft.over = taken.is_err();
    draft.add_headers(&statuses, decision);
    Ok(())
}

/// The limit that the descriptor's status shows. None for a shadow policy: Envoy would treat it as enforced, and write
/// headers that say nothing is left.
fn shown_status<'s, 'a>(count: &Count, statuses: &'s [LimitStatus<'a>]) -> Option<&'s LimitStatus<'a>> {
    count.most(statuses).filter(|_| !count.is_shadow())
}

/// A descriptor that adds no hits is over its limit when nothing is left. Nothing is counted.
async fn read_usage(index: usize, count: &Count, draft: &mut ResponseDraft) -> Result<(), TakeError> {
    let policy = &count.known.policy;
    let usage = match count.known.handle.usage().subject(&count.subject).await {
        Ok(usage) => usage,
        // As for a take: without the store, only `closed` policies deny.
        Err(TakeError::Store(error))
            if error.fault != Fault::Caller && policy.when_store_fails() != WhenStoreFails::Closed =>
        {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let statuses = policy.limits().iter().zip(&usage.limits).map(|(limit, usage)| {
        let reading = Reading {
            capacity: usage.capacity,
            used: usage.used,
            remaining: usage.remaining,
            resets_at: usage.resets_at,
            as_of: usage.as_of,
            grants: 0,
        };
        LimitStatus {
            policy: None,
            limit,
            reading,
            refuses: usage.remaining == 0,
            choice: HeaderChoice::NONE,
        }
    });
    let statuses: SmallVec<[LimitStatus<'_>; 4]> = statuses.collect();
    let now = usage.limits.first().map(|usage| usage.as_of).unwrap_or_default();
    let spent = statuses.iter().any(|status| status.refuses);
    let over = spent && !count.is_shadow();
    if spent && !over {
        draft.would_deny.push(index);
    }
    let shown = shown_status(count, &statuses);
    draft.set_status(index, shown, now, over);
    if over
        && count.of_caller
        && let Some(shown) = shown
    {
        let (limit, retry_after) = (Some(shown.limit), shown.reading.resets_at.since(now));
        let body = || TooManyRequests::new(policy, limit, count.caller_kind(), retry_after);
        draft.refusal.get_or_insert_with(|| RefusalBody::of_limit(&body()));
    }
    draft.over |= over;
    Ok(())
}

/// The shadow policies that would have denied, for the proxy's log
/// (`%DYNAMIC_METADATA(envoy.filters.http.ratelimit:would_deny)%`). The service behind the proxy gets them in a header.
const WOULD_DENY_METADATA: &str = "would_deny";

/// The response so far.
pub(super) struct ResponseDraft {
    /// Whether the request is over a limit.
    pub(super) over: bool,
    /// Counts of shadow policies that would have denied it.
    pub(super) would_deny: SmallVec<[usize; 2]>,
    /// One for each count.
    statuses: SmallVec<[DescriptorStatus; 4]>,
    headers: Vec<HeaderValue>,
    /// The body for a denied client, if any: of the first count that denies.
    pub(super) refusal: Option<RefusalBody>,
}

impl ResponseDraft {
    pub(super) fn new(counts: usize) -> Self {
        let statuses = smallvec![status(Code::Ok); counts];
        Self { over: false, would_deny: SmallVec::new(), statuses, headers: Vec::new(), refusal: None }
    }

    /// Sets the status of one count, with the limit it shows.
    pub(super) fn set_status(
        &mut self,
        count: usize,
        most: Option<&LimitStatus<'_>>,
        now: Timestamp,
        over: bool,
    ) {
        let Some(shown) = self.statuses.get_mut(count) else { return };
        *shown = status(if over { Code::OverLimit } else { Code::Ok });
        let Some(most) = most else { return };
        shown.current_limit = Some(RateLimit {
            requests_per_unit: u32::try_from(most.limit.amount()).unwrap_or(u32::MAX),
            unit: unit(most.limit).into(),
            name: most.limit.name().as_str().to_owned(),
        });
        shown.limit_remaining = u32::try_from(most.reading.remaining).unwrap_or(u32::MAX);
        // Rounded up, so that a client that waits this long does not retry too early.
        let seconds = most.reading.resets_at.since(now).as_micros().div_ceil(1_000_000);
        shown.duration_until_reset = Some(Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX) });
    }

    /// Adds the headers that the config chooses, for the client.
    pub(super) fn add_headers(&mut self, statuses: &[LimitStatus<'_>], decision: &Decision) {
        headers::write(statuses, decision, |name, value| {
            self.headers.push(HeaderValue { key: name.to_owned(), value: value.to_string() });
        });
    }

    fn add_header(&mut self, key: &str, value: &str) {
        self.headers.push(HeaderValue { key: key.to_owned(), value: value.to_owned() });
    }

    /// Denies every descriptor.
    pub(super) fn refuse_all(&mut self, refusal: RefusalBody) {
        self.over = true;
        self.statuses.fill(status(Code::OverLimit));
        self.refusal = Some(refusal);
    }

    /// Adds the policy to the names of limits if there are several policies: Envoy writes the names into
    /// `x-ratelimit-limit`, and limits of two policies may have the same one.
    fn qualify_names(&mut self, counts: &[Count]) {
        if counts.len() < 2 {
            return;
        }
        for (status, count) in self.statuses.iter_mut().zip(counts) {
            if let Some(limit) = &mut status.current_limit {
                limit.name = format!("{}.{}", count.known.policy.name(), limit.name);
            }
        }
    }

    pub(super) fn into_response(mut self, resolved: ResolvedRequest) -> RateLimitResponse {
        self.qualify_names(&resolved.counts);
        let status_of = |admission: &Admission<usize>| match admission {
            Admission::Free => status(Code::Ok),
            Admission::Blocked => status(Code::OverLimit),
            Admission::Counted(index) => self.statuses.get(*index).cloned().unwrap_or_default(),
        };
        let over = self.over || resolved.is_blocked();
        let mut response = RateLimitResponse {
            overall_code: (if over { Code::OverLimit } else { Code::Ok }).into(),
            statuses: resolved.admissions.iter().map(status_of).collect(),
            response_headers_to_add: self.headers,
            ..RateLimitResponse::default()
        };
        if !self.would_deny.is_empty() {
            let policies = self.would_deny.iter().filter_map(|index| resolved.counts.get(*index));
            let names: Vec<&str> = policies.map(|count| count.known.policy.name().as_str()).collect();
            let names = names.join(", ");
            let text = Value { text: Some(names.clone()) };
            let fields = HashMap::from([(WOULD_DENY_METADATA.to_owned(), text)]);
            response.request_headers_to_add =
                vec![HeaderValue { key: WOULD_DENY.to_owned(), value: escaped(&names) }];
            response.dynamic_metadata = Some(Struct { fields });
        }
        if let Some(refusal) = resolved.refusal.or(self.refusal).filter(|_| over) {
            refusal.put_into(&mut response);
        }
        response
    }
}

fn status(code: Code) -> DescriptorStatus {
    DescriptorStatus { code: code.into(), ..DescriptorStatus::default() }
}

/// The period of a limit, if Envoy has a name for it.
fn unit(limit: &Limit) -> Unit {
    const NAMED: [(Span, Unit); 7] = [
        (Span::from_secs(1), Unit::Second),
        (Span::from_mins(1), Unit::Minute),
        (Span::from_hours(1), Unit::Hour),
        (Span::from_days(1), Unit::Day),
        (Span::from_days(7), Unit::Week),
        (Span::from_days(30), Unit::Month),
        (Span::from_days(365), Unit::Year),
    ];
    let named = limit.period().and_then(|period| NAMED.iter().find(|(length, _)| *length == period));
    named.map_or(Unit::Unknown, |(_, unit)| *unit)
}

/// The JSON that `/v1/authorize` would answer, for the client behind the proxy. The proxy sets the status.
pub(crate) struct RefusalBody {
    media_type: &'static str,
    json: Bytes,
}

impl RefusalBody {
    fn new(media_type: &'static str, body: &impl Serialize) -> Self {
        // Serializing these types cannot fail.
        Self { media_type, json: serde_json::to_vec(body).unwrap_or_default().into() }
    }

    pub(super) fn of_limit(body: &TooManyRequests<'_>) -> Self {
        Self::new("application/json", body)
    }

    pub(crate) fn of_problem(problem: &Problem) -> Self {
        Self::new("application/problem+json", problem)
    }

    pub(super) fn put_into(self, response: &mut RateLimitResponse) {
        let (key, value) = ("content-type".to_owned(), self.media_type.to_owned());
        response.response_headers_to_add.push(HeaderValue { key, value });
        response.raw_body = self.json;
    }
}
