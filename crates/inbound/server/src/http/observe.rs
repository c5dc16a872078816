//! `POST /v1/observe`: a program says how the vendor answered its call.

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use tollway_client::{Observed, VendorResponse};
use tollway_inbound::headers::whole_ms;

use super::body::{self, Response, json};
use super::observe_bodies::{ObserveAnswer, ObserveBody};
use super::permit::opened;
use super::problem::Problem;
use crate::bounds::OBSERVED_BODY_BYTES_MAX;
use crate::connection::Caller;
use crate::worker::Worker;

pub(super) async fn answer(
    worker: &Worker,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let bytes = body::read(caller, request).await?;
    let body: ObserveBody<'_> = serde_json::from_slice(&bytes).map_err(|error| Problem::bad_json(&error))?;
    let ticket = opened(worker, &body.permit)?;
    let answer = body.vendor_response()?;
    let observed = worker.state.observed.take_in(&worker.state.limiter, &ticket, answer.as_ref()).await?;
    Ok(json(StatusCode::OK, &ObserveAnswer::from(observed)))
}

impl ObserveBody<'_> {
    /// The vendor's answer; none if the call had none.
    fn vendor_response(&self) -> Result<Option<VendorResponse<'_>>, Problem> {
        let body = self.body.as_deref().unwrap_or_default();
        if body.len() > OBSERVED_BODY_BYTES_MAX {
            return Err(Problem::observed_body_too_large());
        }
        let Some(status) = self.status else {
            return match self.headers.0.is_empty() && self.body.is_none() {
                true => Ok(None),
                false => Err(Problem::bad_request("an answer with `headers` or a `body` has a `status`")),
            };
        };
        let status = StatusCode::from_u16(status).ok().filter(|status| status.as_u16() < 600);
        let status = status.ok_or_else(|| Problem::bad_request("`status` is a number from 100 to 599"))?;
        Ok(Some(VendorResponse { status, headers: &self.headers.0, body: body.as_bytes() }))
    }
}

impl From<Observed> for ObserveAnswer {
    fn from(observed: Observed) -> Self {
        Self {
            refused: observed.refusal.is_some(),
            kind: observed.refusal.map(|kind| kind.as_str()),
            wait_ms: observed.wait.map(|wait| whole_ms(wait.into())),
            retry: observed.is_retryable(),
        }
    }
}
