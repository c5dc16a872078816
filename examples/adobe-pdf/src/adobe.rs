//! The vendor's API, as workers call it.

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tollway::Span;
use tollway_pipeline::handler::{Answer, Turn};

use crate::BoxError;

/// The longest answer: the vendor's own bound for a file.
const ANSWER_BYTES_MAX: usize = 100 << 20;

/// Calls the API. This is plain reqwest and not `tollway_client`, because the pipeline has taken the job's request from the
/// quota before it claimed the job: a client that takes would take twice.
#[derive(Clone)]
pub(crate) struct Adobe {
    http: Client,
    url: String,
    client_id: String,
}

/// Why a call did not succeed, as the pipeline wants to hear it.
pub(crate) type Failure = Box<Answer>;

impl Adobe {
    pub(crate) fn new(url: &str) -> Result<Self, BoxError> {
        let client_id = std::env::var("ADOBE_CLIENT_ID").unwrap_or_else(|_| "local".to_owned());
        Ok(Self { http: Client::builder().build()?, url: url.to_owned(), client_id })
    }

    /// Has an operation done on a file. The quota is charged for `turn`, which begins when the file is uploaded.
    pub(crate) async fn operate(
        &self,
        operation: &str,
        result: &str,
        file: Vec<u8>,
        turn: &Turn,
    ) -> Result<Vec<u8>, Failure> {
        let asset = self.post("/assets", &json!({ "mediaType": "application/pdf" })).await?;
        let upload = self.http.request(Method::PUT, text(&asset, "uploadUri")?);
        send(upload.header(CONTENT_TYPE, "application/pdf").body(file)).await?;
        // Only the operation counts at the vendor: a minute that ended during the upload is noticed here.
        turn.begin()
            .await
            .map_err(|error| Box::new(Answer::retry(format!("the call cannot begin: {error}"))))?;
        let path = format!("/operation/{operation}");
        let done = self.post(&path, &json!({ "assetID": text(&asset, "assetID")? })).await?;
        send(self.http.get(text(&done[result], "downloadUri")?)).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let request = self.http.post(format!("{}{path}", self.url)).header("x-api-key", &self.client_id);
        let answer = send(request.header(CONTENT_TYPE, "application/json").body(body.to_string())).await?;
        serde_json::from_slice(&answer)
            .map_err(|_| Box::new(Answer::retry("the vendor's answer is not JSON")))
    }
}

fn text<'a>(answer: &'a Value, field: &str) -> Result<&'a str, Failure> {
    let missing = || Box::new(Answer::retry(format!("the vendor's answer has no {field}")));
    answer[field].as_str().ok_or_else(missing)
}

async fn send(request: RequestBuilder) -> Result<Vec<u8>, Failure> {
    let no_answer = |error: reqwest::Error| {
        let detail = error.without_url().to_string();
        Box::new(Answer::Retry { error: "no answer from the vendor".to_owned(), detail, after: None })
    };
    let response = request.send().await.map_err(no_answer)?;
    let (status, after) = (response.status(), retry_after(&response));
    let Some(body) = read(response).await.map_err(no_answer)? else {
        return Err(Box::new(Answer::dead("the vendor's answer is too long")));
    };
    let detail = || String::from_utf8_lossy(&body).into_owned();
    let error = format!("the vendor answered {}", status.as_u16());
    match status {
        _ if status.is_success() => Ok(body),
        // Uses no try, and holds the policy for every stage and process.
        StatusCode::TOO_MANY_REQUESTS => Err(Box::new(Answer::RateLimited { after, error })),
        _ if status.is_client_error() => Err(Box::new(Answer::Dead { error, detail: detail() })),
        _ => Err(Box::new(Answer::Retry { error, detail: detail(), after })),
    }
}

fn retry_after(response: &Response) -> Option<Span> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Span::from_secs(seconds))
}

/// Reads an answer; none if it is too long.
async fn read(mut response: Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > ANSWER_BYTES_MAX {
            return Ok(None);
        }
    }
    Ok(Some(body))
}
