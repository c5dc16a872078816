//! A handler behind a URL: the job's data is posted, and the status is the answer.
//!
//! 2xx: done; the body may be JSON with `outputs`, `result` and `cost`, as in the protocol of
//! [`subprocess`](super::subprocess). 429 and 503: rate-limited, with `Retry-After`. Other 4xx: dead. Everything else: retry.

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};
use tollway_core::Span;
use tower::{BoxError, service_fn};

use super::answer::AnswerFields;
use super::{Answer, Handler, Task, handler};
use crate::HttpConfig;
use crate::bounds::{BATCH_BYTES_MAX, DETAIL_BYTES_MAX};

/// Posts jobs to this URL, without a proxy.
pub fn http(url: &str) -> Result<Handler, BoxError> {
    http_of(&HttpConfig::new(url))
}

/// Posts jobs as the config says.
pub fn http_of(config: &HttpConfig) -> Result<Handler, BoxError> {
    let url = reqwest::Url::parse(&config.url)?;
    // Another part of the program may have chosen one already; that one is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A redirected post would lose its body.
    let builder = Client::builder().redirect(reqwest::redirect::Policy::none());
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
        // Not the URL, which may hold a password.
        Err(error) => Answer::Retry {
            error: "no response from the handler".to_owned(),
            detail: error.without_url().to_string(),
            after: None,
        },
        Ok(response) => read(response).await,
    }
}

async fn read(response: Response) -> Answer {
    let status = response.status();
    let after =
        response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let body = match body(response).await {
        Ok(body) => body,
        Err(error) => {
            return Answer::Retry {
                error: "the response was cut off".to_owned(),
                detail: error,
                after: None,
            };
        }
    };
    let detail = || String::from_utf8_lossy(&body[..body.len().min(DETAIL_BYTES_MAX)]).into_owned();
    let error = format!("status {}", status.as_u16());
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Answer::RateLimited { after: after.map(Span::from_secs), error }
        }
        _ if status.is_success() => done(&body),
        _ if status.is_client_error() => Answer::Dead { error, detail: detail() },
        _ => Answer::Retry { error, detail: detail(), after: after.map(Span::from_secs) },
    }
}

fn done(body: &[u8]) -> Answer {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Answer::done();
    }
    let fields: Result<AnswerFields, _> = serde_json::from_slice(body);
    let answer = fields.map_err(|error| error.to_string()).and_then(AnswerFields::done);
    answer.unwrap_or_else(|error| Answer::Retry {
        error: "the response is not an answer".to_owned(),
        detail: error,
        after: None,
    })
}

async fn body(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| error.without_url().to_string())? {
        body.extend_from_slice(&chunk);
        if body.len() > BATCH_BYTES_MAX {
            return Err(format!("it has more than {BATCH_BYTES_MAX} bytes"));
        }
    }
    Ok(body)
}
