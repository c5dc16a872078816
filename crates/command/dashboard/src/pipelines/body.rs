//! Bodies of requests: read whole, within a bound of bytes and time.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::Request;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::answer::Problem;

/// The largest body: jobs that a program enqueues in one request.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;

/// How long a body may take.
const WITHIN: Duration = Duration::from_secs(10);

/// The whole body.
pub(super) async fn read(request: Request<Incoming>) -> Result<Bytes, Problem> {
    let limited = Limited::new(request.into_body(), BODY_BYTES_MAX);
    match timeout(WITHIN, limited.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let detail = format!("a body has at most {BODY_BYTES_MAX} bytes; send fewer jobs at a time");
            Err(Problem::new(413, "urn:tollway:body-too-large", "the body is too large", detail))
        }
        Ok(Err(_)) => Err(Problem::bad_request("the body is incomplete")),
        Err(_) => {
            let detail = "the body did not arrive in time";
            Err(Problem::new(408, "urn:tollway:body-too-slow", "the body is too slow", detail))
        }
    }
}

/// The whole body, as JSON.
pub(super) async fn json<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Problem> {
    let body = read(request).await?;
    serde_json::from_slice(&body).map_err(|error| {
        // The error quotes the body: control characters in it must not reach a terminal.
        let detail = error.to_string().replace(char::is_control, "\u{fffd}");
        Problem::new(400, "urn:tollway:bad-body", "invalid body", detail)
    })
}
