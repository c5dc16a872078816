//! From a request to its answer: reads it, waits, decides, and writes what the dialect and the path say.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use serde_json::{Value, json};
use tollway_core::Span;

use super::VendorAnswer;
use super::body::AnswerBody;
use super::models::{self, ModelCall};
use super::state::VendorState;

/// The longest body of a request that is read.
const BODY_BYTES_MAX: usize = 1 << 20;

/// How long a client may take to send it.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Answers with the counts, and is not counted itself.
const COUNTS_PATH: &str = "/_vendor/counts";

pub(super) async fn answer(
    state: Arc<VendorState>,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, Infallible> {
    let (head, body) = request.into_parts();
    if head.method == Method::GET && head.uri.path() == COUNTS_PATH {
        return Ok(json_response(StatusCode::OK, &json!(state.counts())));
    }
    Ok(match read(body).await {
        Ok(body) => call(&state, &head, &body).await,
        Err((status, message)) => json_response(status, &json!({"error": {"message": message}})),
    })
}

/// A request that cannot be read is the client's mistake, and is not counted.
async fn read(body: Incoming) -> Result<Bytes, (StatusCode, String)> {
    let limited = Limited::new(body, BODY_BYTES_MAX);
    match tokio::time::timeout(BODY_TIMEOUT, limited.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the simulated vendor reads bodies of at most {BODY_BYTES_MAX} bytes");
            Err((StatusCode::PAYLOAD_TOO_LARGE, message))
        }
        Ok(Err(error)) => Err((StatusCode::BAD_REQUEST, format!("the body cannot be read: {error}"))),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body took too long".to_owned())),
    }
}

/// The vendor decides at half of the latency.
async fn call(state: &Arc<VendorState>, head: &Parts, body: &[u8]) -> Response<AnswerBody> {
    let model = ModelCall::read(head, body);
    let tokens = match &model {
        Some(call) if state.dialect.counts_output() => call.input.saturating_add(call.output),
        Some(call) => call.input,
        None => models::tokens_of(body),
    };
    let latency = state.draw_latency();
    let half = Span::from_micros(latency.as_micros() / 2);
    sleep(half).await;
    let (ruling, running) = state.rule(tokens);
    let said = state.dialect.answer(&ruling);
    sleep(Span::from_micros(latency.as_micros() - half.as_micros())).await;

    let VendorAnswer { status, mut headers, body: error } = said;
    let (content_type, parts) = match (error, model) {
        (Some(error), _) => ("application/json", vec![error.into_bytes()]),
        (None, _) if !status.is_success() => ("", Vec::new()),
        (None, Some(model)) => model.answer(),
        (None, None) => {
            let body = state.dialect.success(&ruling, rest(head, body));
            ("application/json", vec![body.to_string().into_bytes()])
        }
    };
    if !content_type.is_empty() {
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
    }
    let mut response = Response::new(AnswerBody::new(parts, running));
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response
}

/// What any other path answers, like a small REST API.
fn rest(head: &Parts, body: &[u8]) -> Value {
    json!({
        "ok": true,
        "object": "simulated",
        "method": head.method.as_str(),
        "path": head.uri.path(),
        "received_bytes": body.len(),
    })
}

/// Without latency it does not even yield.
async fn sleep(span: Span) {
    if span > Span::ZERO {
        tokio::time::sleep(span.into()).await;
    }
}

fn json_response(status: StatusCode, body: &Value) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::new([body.to_string().into_bytes()], None));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
