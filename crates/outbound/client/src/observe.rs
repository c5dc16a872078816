//! Answers to calls that another program has sent under a permit of this api.

use std::time::Duration;

use tollway::TakeError;
use tollway::ticket::Ticket;
use tollway_dialects::{RefusalKind, VendorResponse};

use crate::answer::OWN_WAIT;
use crate::error::Attempt;
use crate::limiter::{ApiLimiter, dialect_of};
use crate::permits::{Permits, UnderPolicy};

/// What an answer was, for the program that sent the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Why the vendor refused the call, if it did.
    pub refusal: Option<RefusalKind>,
    /// After a refusal: how long to wait before the call is sent again.
    pub wait: Option<Duration>,
}

impl Observed {
    /// Whether the same call may be accepted later.
    pub fn is_retryable(&self) -> bool {
        self.refusal.is_some_and(|kind| kind != RefusalKind::NoAccess)
    }
}

impl ApiLimiter {
    /// Takes in the answer to a call that another program has sent under this ticket, as the client takes in those to its
    /// own calls: it is classified, moves the rate, holds every process after a refusal, and is an incident if fixed limits
    /// had granted it. `None`: the call had no answer.
    ///
    /// A refused call is over: its slots are free, and what it took of units other than requests is given back. Otherwise
    /// the ticket stays as it is. The caller sees to it that each ticket is observed once.
    ///
    /// ```
    /// use http::{HeaderMap, StatusCode};
    /// use tollway::{Limiter, config::Api};
    /// use tollway_client::{ApiLimiter, RefusalKind, VendorResponse};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let notion = Api::profile("notion").ok_or("no such profile")?;
    /// let limiter = Limiter::builder().with_api(notion)?.build();
    /// let notion = ApiLimiter::new(&limiter, "notion")?;
    /// let ticket = limiter.take("notion").await?.into_ticket();
    ///
    /// let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, http::HeaderValue::from(7))]);
    /// let answer = VendorResponse { status: StatusCode::TOO_MANY_REQUESTS, headers: &headers, body: b"" };
    /// let observed = notion.observe(&ticket, Some(&answer)).await?;
    /// assert_eq!(observed.refusal, Some(RefusalKind::Rate));
    /// assert_eq!(observed.wait, Some(std::time::Duration::from_secs(7)));
    /// assert!(limiter.try_take("notion").await?.denied().unwrap().held());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn observe(
        &self,
        ticket: &Ticket,
        answer: Option<&VendorResponse<'_>>,
    ) -> Result<Observed, TakeError> {
        let (state, api) = (&self.state, self.api());
        let Some(policy) = api.policy() else { return Ok(Observed::default()) };
        let policy = state.handle(policy)?.policy();
        let permit = ticket.permit(self.limiter())?;
        let place = Box::new(UnderPolicy { permit, policy, grant: ticket.rate_grants });
        let mut permits = Permits::of_sent(state, place);
        let Some(answer) = answer else {
            state.failed(&permits, "no answer".to_owned());
            permits.leave();
            return Ok(Observed::default());
        };
        let dialect = dialect_of(&api, answer.headers);
        let read = self.read_answer(dialect, api.backoff_codes(), answer, |_| true);
        let Some(kind) = read.refusal else {
            state.take_in(&api, &read, &mut permits).await;
            permits.leave();
            return Ok(Observed::default());
        };
        let mut attempt = Attempt::new(state.now(), Duration::ZERO);
        read.note_in(&mut attempt);
        let told = read.wait();
        state.take_in_refusal(&api, kind, read, permits, attempt.to_string()).await;
        let wait = match (told, kind) {
            (Some(told), _) => Some(told),
            (None, RefusalKind::NoAccess) => None,
            // These hold back no other call.
            (None, RefusalKind::Concurrency | RefusalKind::Lock) => Some(OWN_WAIT),
            (None, _) => self.held().await?,
        };
        Ok(Observed { refusal: Some(kind), wait })
    }

    /// How long the vendor holds calls back.
    async fn held(&self) -> Result<Option<Duration>, TakeError> {
        let snapshot = self.snapshot().await?;
        Ok(snapshot.cooldown_until.map(|until| until.since(snapshot.now).into()))
    }
}
