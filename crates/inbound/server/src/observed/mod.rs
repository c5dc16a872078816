//! Answers of vendors that programs report: the limiters that take them in, and each permit once.

mod apis;
mod permits;

use std::time::Duration;

use futures_util::future::join_all;
use tollway::Limiter;
use tollway::ticket::Ticket;
use tollway_client::{Observed, VendorResponse};

use crate::http::Problem;
use apis::ObservedApis;
use permits::ObservedPermits;

/// How long a server that stops waits until the store knows what was reported.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// What was reported to this server.
#[derive(Default)]
pub(crate) struct ObservedAnswers {
    apis: ObservedApis,
    permits: ObservedPermits,
}

impl ObservedAnswers {
    /// Takes in the answer to the call of this ticket; `None`: the call had none.
    pub(crate) async fn take_in(
        &self,
        limiter: &Limiter,
        ticket: &Ticket,
        answer: Option<&VendorResponse<'_>>,
    ) -> Result<Observed, Problem> {
        let api = self.apis.limiter_of(limiter, ticket)?;
        let until = ticket.booking.at.plus(api.api().max_time());
        self.permits.note(&ticket.booking, until, limiter.clock().now())?;
        let observed = api.observe(ticket, answer).await;
        if observed.is_err() {
            // It had no effect: the program may report it again.
            self.permits.forget(&ticket.booking);
        }
        Ok(observed?)
    }

    /// Tells the store what was reported, before the server ends.
    pub(crate) async fn flush(&self) {
        let limiters = self.apis.all();
        let flushed = join_all(limiters.iter().map(|limiter| limiter.flush()));
        if tokio::time::timeout(FLUSH_MAX, flushed).await.is_err() {
            tracing::warn!("the store could not be told of all answers that were reported");
        }
    }
}
