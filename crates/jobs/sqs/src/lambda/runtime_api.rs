//! Lambda's protocol for programs: ask for the next event, answer it.

use reqwest::{Client, Response};
use tollway_core::Timestamp;

use super::event::{BatchFailures, EVENT_BYTES_MAX};

/// The version in every path.
const VERSION: &str = "2018-06-01";

const REQUEST_ID: &str = "lambda-runtime-aws-request-id";
const DEADLINE: &str = "lambda-runtime-deadline-ms";

/// The protocol cannot be spoken. The process ends, and Lambda starts another one.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the runtime API of Lambda: {0}")]
pub struct RuntimeError(String);

tollway_core::debug_as_display!(RuntimeError);

/// An event to work on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Names it in the answer.
    pub id: String,
    /// When Lambda ends the process.
    pub deadline: Timestamp,
    /// What happened, as JSON.
    pub event: String,
}

/// The way to Lambda.
#[derive(Clone, Debug)]
pub struct RuntimeApi {
    client: Client,
    base: String,
}

impl RuntimeApi {
    /// At the address in `$AWS_LAMBDA_RUNTIME_API`.
    pub fn new(address: &str) -> Result<Self, RuntimeError> {
        // Another part of the program may have chosen one already; that one is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // No timeout: the next event may come in hours.
        let client = Client::builder().no_proxy().build().map_err(|error| failed(&error))?;
        Ok(Self { client, base: format!("http://{address}/{VERSION}/runtime/invocation") })
    }

    /// Waits for an event.
    pub async fn next(&self) -> Result<Invocation, RuntimeError> {
        let response = self.client.get(format!("{}/next", self.base)).send().await;
        let response = accepted(response)?;
        let header = |name: &str| {
            let value = response.headers().get(name).and_then(|value| value.to_str().ok());
            value
                .map(str::to_owned)
                .ok_or_else(|| RuntimeError(format!("an event without the header {name}")))
        };
        let (id, deadline) = (header(REQUEST_ID)?, header(DEADLINE)?);
        let deadline = deadline.parse().map_err(|_| RuntimeError(format!("{deadline:?} is not a time")))?;
        let event = body(response).await?;
        Ok(Invocation { id, deadline: Timestamp::from_millis(deadline), event })
    }

    /// Answers an event.
    pub async fn respond(&self, id: &str, failures: &BatchFailures) -> Result<(), RuntimeError> {
        self.post(&format!("{id}/response"), failures.to_json()).await
    }

    /// Says that an event could not be worked on: SQS delivers all of its messages again.
    pub async fn fail(&self, id: &str, error: &str) -> Result<(), RuntimeError> {
        let body = serde_json::json!({ "errorMessage": error, "errorType": "tollway" });
        self.post(&format!("{id}/error"), body.to_string()).await
    }

    async fn post(&self, path: &str, body: String) -> Result<(), RuntimeError> {
        let sent = self.client.post(format!("{}/{path}", self.base)).body(body).send().await;
        accepted(sent).map(drop)
    }
}

fn accepted(sent: Result<Response, reqwest::Error>) -> Result<Response, RuntimeError> {
    let response = sent.map_err(|error| failed(&error))?;
    match response.status() {
        status if status.is_success() => Ok(response),
        status => Err(RuntimeError(format!("it answered {status}"))),
    }
}

async fn body(mut response: Response) -> Result<String, RuntimeError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > EVENT_BYTES_MAX {
            return Err(RuntimeError(format!("an event of more than {EVENT_BYTES_MAX} bytes")));
        }
    }
    String::from_utf8(bytes).map_err(|_| RuntimeError("an event that is not UTF-8".to_owned()))
}

fn failed(error: &reqwest::Error) -> RuntimeError {
    RuntimeError(error.to_string())
}
