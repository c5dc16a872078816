//! What an answer of the vendor means, and what follows from it: all ways in share it, and so do programs that make their
//! calls themselves.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tollway::config::Api;
use tollway::core::REQUESTS;
use tollway_dialects::{Observation, RefusalKind, VendorResponse};

use crate::error::Attempt;
use crate::limiter::{ApiLimiter, ApiState, dialect_of};
use crate::permits::Permits;

/// The longest text of a vendor's that is kept of a refusal, in characters.
const SAID_MAX: usize = 200;

/// The first wait of a call that was refused for a reason that holds back no other call; it doubles with each.
pub(crate) const OWN_WAIT: Duration = Duration::from_secs(1);

/// An answer, as it was read.
pub(crate) struct AnswerRead {
    status: StatusCode,
    /// Why it means "call later", if it does.
    pub(crate) refusal: Option<RefusalKind>,
    observed: Observation,
    /// The vendor's word for a refusal.
    said: Option<String>,
}

impl ApiLimiter {
    /// Whether an answer means "call later", and why. A status among the backoff codes does, whatever the vendor says;
    /// overload only then.
    pub(crate) fn read_answer(
        &self,
        api: &Api,
        backoff_codes: &[u16],
        answer: &VendorResponse<'_>,
    ) -> AnswerRead {
        let dialect = dialect_of(api, answer.headers);
        let observed = match self.hook() {
            Some(hook) => dialect.observe_with(answer, |response| hook(response)),
            None => dialect.observe(answer),
        };
        let is_backoff = backoff_codes.contains(&answer.status.as_u16());
        let refusal = match observed.refusal {
            Some(RefusalKind::Overload) if !is_backoff => None,
            Some(kind) => Some(kind),
            None => is_backoff.then_some(RefusalKind::Rate),
        };
        let said = refusal.and_then(|_| said(&observed, answer.body));
        AnswerRead { status: answer.status, refusal, observed, said }
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
        attempt.said.clone_from(&self.said);
    }
}

impl ApiState {
    /// Takes in an answer that is no refusal.
    pub(crate) fn take_in(self: &Arc<Self>, answer: &AnswerRead, permits: &mut Permits) {
        // An error of the vendor's says nothing about the rate: it neither raises nor cuts it.
        match answer.status.is_server_error() {
            true => self.answered(permits),
            false => self.accepted(permits, &answer.observed.quotas),
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
            state.count_refusal(kind);
            state.refused(&api, kind, &permits, &answer.observed).await;
            permits.over();
            if let Some((permit, policy)) = permits.place()
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
