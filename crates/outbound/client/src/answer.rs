//! What an answer of the vendor means, and what follows from it: all ways in share it, and so do programs that make their
//! calls themselves.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tollway::config::Api;
use tollway::core::REQUESTS;
use tollway::metrics::{ApiRefusal, RefusedBy};
use tollway::{Span, TakeError};
use tollway_dialects::{Dialect, Observation, RefusalKind, VendorResponse};

use crate::error::{Attempt, CallFailure};
use crate::limiter::{ApiLimiter, ApiState};
use crate::permits::Permits;

/// The longest text of a vendor's that is kept of a refusal, in characters.
const SAID_MAX: usize = 200;

/// The first wait of a call that was refused for a reason that holds back no other call; it doubles with each.
pub(crate) const OWN_WAIT: Duration = Duration::from_secs(1);

/// The status of an overload, which no other cause has.
const OVERLOADED: u16 = 529;

/// An answer, as it was read.
pub(crate) struct AnswerRead {
    status: StatusCode,
    /// Why it means "call later", if it does.
    pub(crate) refusal: Option<RefusalKind>,
    observed: Observation,
    /// The name of the dialect in which it was read.
    dialect: &'static str,
    /// The vendor's word for a refusal or a failure.
    said: Option<String>,
}

impl ApiLimiter {
    /// Whether an answer means "call later", and why. A status among the backoff codes does, whatever the vendor says.
    /// Overload only then, and if the status says nothing else. A wait on another status is one of this call alone, if it
    /// `may_wait` so long and be sent again.
    pub(crate) fn read_answer(
        &self,
        dialect: &'static Dialect,
        backoff_codes: &[u16],
        answer: &VendorResponse<'_>,
        may_wait: impl FnOnce(Duration) -> bool,
    ) -> AnswerRead {
        let observed = match self.hook() {
            Some(hook) => dialect.observe_with(answer, |response| hook(response)),
            None => dialect.observe(answer),
        };
        let status = answer.status;
        let is_backoff = backoff_codes.contains(&status.as_u16());
        let refusal = match observed.refusal {
            Some(RefusalKind::Overload) if !is_backoff && status.as_u16() != OVERLOADED => None,
            Some(kind) => Some(kind),
            None if is_backoff => Some(RefusalKind::Rate),
            None => {
                let wait = observed.wait.filter(|_| status.is_client_error());
                wait.is_some_and(may_wait).then_some(RefusalKind::Lock)
            }
        };
        let has_reason = refusal.is_some() || status.is_server_error();
        let said = has_reason.then(|| said(&observed, answer.body)).flatten();
        AnswerRead { status, refusal, observed, dialect: dialect.name(), said }
    }
}

impl AnswerRead {
    /// How long the vendor asks to wait.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.observed.wait
    }

    /// Notes it in the attempt that it answers.
    pub(crate) fn note_in(&self, attempt: &mut Attempt) {
        attempt.status = Some(self.status);
        (attempt.refusal, attempt.wait) = (self.refusal, self.observed.wait);
        attempt.said = self.refusal.and(self.said.clone());
    }
}

impl ApiState {
    /// Counts a refusal of the vendor, and keeps what it said.
    fn note_refusal(&self, kind: RefusalKind, answer: &AnswerRead) {
        self.figures.count_refusal(kind.as_str());
        let (dialect, words) = (answer.dialect, answer.said.clone());
        let by = RefusedBy::Vendor { dialect, kind: kind.as_str(), words };
        self.figures.note_refusal(ApiRefusal { at: self.now(), by, wait: answer.wait().map(Span::from) });
    }

    /// Keeps a refusal of one of our limits, which ended a call.
    pub(crate) fn note_own_refusal(&self, failure: &CallFailure) {
        let CallFailure::NoPermit(error) = failure else { return };
        let TakeError::Denied(denied) = &**error else { return };
        let limit = denied.limit().filter(|_| !denied.held()).map(|limit| limit.name().to_string());
        let by = RefusedBy::OurLimit { policy: denied.policy().name().to_string(), limit };
        let wait = Some(Span::from(denied.retry_after()));
        self.figures.note_refusal(ApiRefusal { at: self.now(), by, wait });
    }

    /// Takes in an answer that is no refusal.
    pub(crate) async fn take_in(
        self: &Arc<Self>,
        api: &Arc<Api>,
        answer: &AnswerRead,
        permits: &mut Permits,
    ) {
        let quotas = &answer.observed.quotas;
        match answer.observed.refusal {
            // The answer is the caller's, and all calls wait as long as it tells.
            Some(kind) if answer.wait().is_some() => {
                self.note_refusal(kind, answer);
                self.refused(api, kind, permits, &answer.observed).await;
            }
            _ if answer.status.is_server_error() => {
                let words = answer.said.as_deref().unwrap_or_default();
                self.failed(permits, format!("{} {words}", answer.status.as_u16()));
            }
            _ if answer.status.is_client_error() => self.answered(permits, quotas),
            _ => self.accepted(permits, quotas),
        }
        permits.over();
    }

    /// Tells the store of a refusal, on a task of its own: the vendor has refused, also if the caller leaves now. The incident
    /// says what `attempt` says.
    pub(crate) async fn take_in_refusal(
        self: &Arc<Self>,
        api: &Arc<Api>,
        kind: RefusalKind,
        answer: AnswerRead,
        mut permits: Permits,
        attempt: String,
    ) {
        let (state, api) = (Arc::clone(self), Arc::clone(api));
        let unfinished = self.unfinished.begin();
        let told = tokio::spawn(async move {
            state.note_refusal(kind, &answer);
            let was_probing = state.refused(&api, kind, &permits, &answer.observed).await;
            permits.over();
            // A probe provokes refusals by design; any other call kept the limits that the config knows.
            if let Some((permit, policy)) = permits.place()
                && !was_probing
                && matches!(kind, RefusalKind::Rate | RefusalKind::DailyQuota)
                && policy.limits().iter().any(|limit| !limit.is_adaptive())
            {
                permit.refused_by_vendor(&attempt).await;
            }
            // The vendor counted the call, perhaps; it did no work.
            permits.settle(|unit| (unit.as_str() != REQUESTS).then_some(0)).await;
            drop(unfinished);
        });
        if let Err(error) = told.await {
            tracing::debug!(%error, "a refusal could not be handled");
        }
    }
}

/// The vendor's word for a refusal, or the beginning of its body.
fn said(observed: &Observation, body: &[u8]) -> Option<String> {
    observed.reason.clone().or_else(|| {
        let start = body.get(..body.len().min(4 * SAID_MAX)).unwrap_or_default();
        let text = String::from_utf8_lossy(start);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let said: String = words.chars().filter(|sign| !sign.is_control()).take(SAID_MAX).collect();
        (!said.is_empty()).then_some(said)
    })
}
