//! A handler behind a URL: the job's data is posted, and the status is the answer.
//!
//! 2xx: done; the body may be an object with `outputs`, `result` and `cost`, as in the protocol of
//! [`subprocess`](super::subprocess). 429 and 503: rate-limited, with `Retry-After`. Other 4xx: dead. Everything else: retry.
//! A request that was never sent uses no try.

mod body;

use std::error::Error;
use std::num::IntErrorKind;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};
use tollway_core::Span;
use tower::{BoxError, service_fn};

use super::{Answer, Handler, Task, handler};
use crate::HttpConfig;
use crate::bounds::{BATCH_BYTES_MAX, DETAIL_BYTES_MAX};

/// How long a connection may take. Longer than a handler on another continent needs, with a packet lost.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Posts jobs to this URL, without a proxy.
pub fn http(url: &str) -> Result<Handler, BoxError> {
    http_within(&HttpConfig::new(url), Span::MAX)
}

/// Posts jobs with this timeout as the config says: a connection that takes half of it will not be there in time.
pub(crate) fn http_within(config: &HttpConfig, timeout: Span) -> Result<Handler, BoxError> {
    let url = reqwest::Url::parse(&config.url)?;
    // Another part of the program may have chosen one already; that one is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A redirected post would lose its body.
    let builder = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_WITHIN.min(Duration::from(timeout) / 2));
    let client = if config.proxy { builder } else { builder.no_proxy() }.build()?;
    Ok(handler(service_fn(move |task: Task| {
        let (client, url) = (client.clone(), url.clone());
        async move { Ok::<_, BoxError>(post(&client, url, &task).await) }
    })))
}

async fn post(client: &Client, url: reqwest::Url, task: &Task) -> Answer {
    let job = &task.job;
    let sent = client
        .post(url)
        .header(CONTENT_TYPE, "application/json")
        .header("tollway-job", job.id.get())
        .header("tollway-stage", job.stage.as_str())
        .header("tollway-try", task.attempt())
        .body(job.data.clone())
        .send()
        .await;
    match sent {
        Err(error) if is_unsent(&error) => {
            let error = format!("the handler cannot be reached: {}", root_cause(&error));
            Answer::Unreachable { error, detail: String::new() }
        }
        // Not the URL, which may hold a password.
        Err(error) => Answer::Retry {
            error: "no response from the handler".to_owned(),
            detail: error.without_url().to_string(),
            after: None,
        },
        Ok(response) => read(response).await,
    }
}

/// Whether no byte of the request was sent: there was no connection, or it was closed before.
fn is_unsent(error: &reqwest::Error) -> bool {
    let canceled =
        |cause: &(dyn Error + 'static)| cause.downcast_ref().is_some_and(hyper::Error::is_canceled);
    error.is_connect() || causes(error).any(canceled)
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

/// What the system said, such as `Connection refused (os error 111)`.
fn root_cause(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| "no connection".to_owned(), ToString::to_string)
}

async fn read(response: Response) -> Answer {
    let (status, headers) = (response.status(), response.headers().clone());
    let after = retry_after(&headers);
    let body = match read_body(response).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let detail = || first(&body);
    let error = format!("status {}", status.as_u16());
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Answer::RateLimited { after, error }
        }
        _ if status.is_success() => body::answer(&body, is_json(&headers)),
        _ if status.is_client_error() => Answer::Dead { error, detail: detail() },
        _ => Answer::Retry { error, detail: detail(), after },
    }
}

/// Whole seconds. More than a number can hold is as long as can be; the runner bounds it.
fn retry_after(headers: &HeaderMap) -> Option<Span> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse::<u64>() {
        Ok(seconds) => Some(Span::from_secs(seconds)),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Some(Span::MAX),
        Err(_) => None,
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

/// What is kept of a body.
fn first(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(DETAIL_BYTES_MAX)]).into_owned()
}

async fn read_body(mut response: Response) -> Result<Vec<u8>, Answer> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) => {
                return Err(Answer::Retry {
                    error: "the response was cut off".to_owned(),
                    detail: error.without_url().to_string(),
                    after: None,
                });
            }
        }
        if body.len() > BATCH_BYTES_MAX {
            let error = format!("the response has more than {} MiB", BATCH_BYTES_MAX >> 20);
            return Err(Answer::Dead { error, detail: first(&body) });
        }
    }
}
