//! The client for threads without an async runtime.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tollway_client::blocking::ApiClient;
//!
//! let notion = ApiClient::for_api("notion")?;
//! let users = notion.get("/v1/users").send()?.text()?;
//! # drop(users); Ok(()) }
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};
use tollway::{Limiter, TakeError};

use crate::error::{CallError, ClientError};
use crate::{ApiClientBuilder, ApiSnapshot, Priority};

/// An HTTP client of one api that blocks its caller. Clones share its connections and limits.
///
/// It has a thread of its own for I/O. Do not use it on a thread of an async runtime: there, calls panic, as those of
/// `reqwest::blocking` do.
#[derive(Clone, Debug)]
pub struct ApiClient {
    client: crate::ApiClient,
    runtime: Arc<Runtime>,
}

impl ApiClient {
    /// The client of an api, as [`ApiClient::for_api`](crate::ApiClient::for_api) finds it.
    pub fn for_api(api: &str) -> Result<Self, ClientError> {
        Self::build(crate::ApiClient::builder(api))
    }

    /// The client of an api of this limiter.
    pub fn of(limiter: &Limiter, api: &str) -> Result<Self, ClientError> {
        Self::build(crate::ApiClient::builder(api).limiter(limiter))
    }

    /// The client of a builder.
    pub fn build(builder: ApiClientBuilder) -> Result<Self, ClientError> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("tollway-client").enable_all().build();
        let runtime = runtime.map_err(|error| ClientError::Http(error.into()))?;
        let client = {
            let _context = runtime.enter();
            builder.build()?
        };
        Ok(Self { client, runtime: Arc::new(runtime) })
    }

    /// A request, as [`ApiClient::request`](crate::ApiClient::request) makes it.
    pub fn request(&self, method: Method, path: &str) -> ApiRequest {
        ApiRequest { request: self.client.request(method, path), runtime: Arc::clone(&self.runtime) }
    }

    /// A `GET` request.
    pub fn get(&self, path: &str) -> ApiRequest {
        self.request(Method::GET, path)
    }

    /// A `POST` request.
    pub fn post(&self, path: &str) -> ApiRequest {
        self.request(Method::POST, path)
    }

    /// What the store knows about the api's limits now.
    pub fn snapshot(&self) -> Result<ApiSnapshot, TakeError> {
        self.runtime.block_on(self.client.limiter().snapshot())
    }
}

/// A request being put together.
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct ApiRequest {
    request: crate::ApiRequest,
    runtime: Arc<Runtime>,
}

impl ApiRequest {
    fn map(self, change: impl FnOnce(crate::ApiRequest) -> crate::ApiRequest) -> Self {
        Self { request: change(self.request), ..self }
    }

    /// Adds a header.
    pub fn header(self, name: &str, value: &str) -> Self {
        self.map(|request| request.header(name, value))
    }

    /// Adds a token: `authorization: Bearer ...`.
    pub fn bearer_auth(self, token: impl std::fmt::Display) -> Self {
        self.map(|request| request.bearer_auth(token))
    }

    /// Adds to the query.
    pub fn query<Q: Serialize + ?Sized>(self, query: &Q) -> Self {
        self.map(|request| request.query(query))
    }

    /// The body as JSON.
    pub fn json<J: Serialize + ?Sized>(self, body: &J) -> Self {
        self.map(|request| request.json(body))
    }

    /// The body.
    pub fn body(self, body: impl Into<Bytes>) -> Self {
        self.map(|request| request.body(body.into()))
    }

    /// What the call costs in a unit.
    pub fn cost(self, unit: &str, amount: u64) -> Self {
        self.map(|request| request.cost(unit, amount))
    }

    /// Which calls of this process go first.
    pub fn priority(self, priority: Priority) -> Self {
        self.map(|request| request.priority(priority))
    }

    /// How long the call may take with all its waits and retries.
    pub fn max_time(self, max_time: Duration) -> Self {
        self.map(|request| request.max_time(max_time))
    }

    /// How often it is sent again after a refusal.
    pub fn max_retries(self, max_retries: u32) -> Self {
        self.map(|request| request.max_retries(max_retries))
    }

    /// Sends it and waits for the headers of its answer.
    pub fn send(self) -> Result<ApiResponse, CallError> {
        let response = self.runtime.block_on(self.request.send())?;
        Ok(ApiResponse { response, runtime: self.runtime })
    }
}

/// The answer of a vendor.
#[derive(Debug)]
pub struct ApiResponse {
    response: reqwest::Response,
    runtime: Arc<Runtime>,
}

impl ApiResponse {
    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Its headers.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Its body as text.
    pub fn text(self) -> reqwest::Result<String> {
        self.runtime.block_on(self.response.text())
    }

    /// Its body as JSON.
    pub fn json<T: DeserializeOwned>(self) -> reqwest::Result<T> {
        self.runtime.block_on(self.response.json())
    }

    /// Its body.
    pub fn bytes(self) -> reqwest::Result<Bytes> {
        self.runtime.block_on(self.response.bytes())
    }

    /// The next part of its body; `None` at its end.
    pub fn chunk(&mut self) -> reqwest::Result<Option<Bytes>> {
        self.runtime.block_on(self.response.chunk())
    }
}
