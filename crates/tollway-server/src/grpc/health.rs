//! `grpc.health.v1`: proxies and orchestrators ask it whether to send calls here.

use super::message::{Health, HealthCheckRequest, HealthCheckResponse};
use super::status::{Code, Failure};
use super::{HEALTH_SERVICE, RATE_LIMIT_SERVICE};
use crate::worker::Worker;

/// A store that fails is no reason to be sent nothing: every policy says what to do then.
pub(super) fn check(worker: &Worker, request: &HealthCheckRequest) -> Result<HealthCheckResponse, Failure> {
    if !["", RATE_LIMIT_SERVICE, HEALTH_SERVICE].contains(&request.service.as_str()) {
        return Err(Failure::new(Code::NotFound, format!("no service {:?} is here", request.service)));
    }
    let serving = if worker.shared.is_stopping() { Health::NotServing } else { Health::Serving };
    Ok(HealthCheckResponse { status: serving.into() })
}
