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

mod io_thread;
mod reader_body;
mod request;
mod response;

use std::sync::Arc;

use http::Method;
use tollway::{Limiter, TakeError};

use crate::error::ClientError;
use crate::{ApiClientBuilder, ApiLimiter, ApiSnapshot};
use io_thread::IoThread;

pub use request::ApiRequest;
pub use response::ApiResponse;

/// An HTTP client of one api that blocks its caller. Clones share its connections and limits.
///
/// It has a thread of its own for I/O. Do not use it on a thread of an async runtime: there, calls panic, as those of
/// `reqwest::blocking` do.
///
/// Dropping the last clone tells the store what was seen of the vendor's answers, and waits for that at most a second.
#[derive(Clone, Debug)]
pub struct ApiClient {
    client: crate::ApiClient,
    io: Arc<IoThread>,
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
        let (client, io) = IoThread::start(builder)?;
        Ok(Self { client, io: Arc::new(io) })
    }

    /// Its limits.
    pub fn limiter(&self) -> &ApiLimiter {
        self.client.limiter()
    }

    /// A request, as [`ApiClient::request`](crate::ApiClient::request) makes it.
    pub fn request(&self, method: Method, path: &str) -> ApiRequest {
        ApiRequest::new(self.client.request(method, path), Arc::clone(&self.io))
    }

    /// A `GET` request.
    pub fn get(&self, path: &str) -> ApiRequest {
        self.request(Method::GET, path)
    }

    /// A `POST` request.
    pub fn post(&self, path: &str) -> ApiRequest {
        self.request(Method::POST, path)
    }

    /// A `PUT` request.
    pub fn put(&self, path: &str) -> ApiRequest {
        self.request(Method::PUT, path)
    }

    /// A `PATCH` request.
    pub fn patch(&self, path: &str) -> ApiRequest {
        self.request(Method::PATCH, path)
    }

    /// A `DELETE` request.
    pub fn delete(&self, path: &str) -> ApiRequest {
        self.request(Method::DELETE, path)
    }

    /// A `HEAD` request.
    pub fn head(&self, path: &str) -> ApiRequest {
        self.request(Method::HEAD, path)
    }

    /// What the store knows about the api's limits now.
    pub fn snapshot(&self) -> Result<ApiSnapshot, TakeError> {
        self.io.block_on(self.limiter().snapshot())
    }

    /// Tells the store now what was seen of the vendor's answers, and waits for permits that go back and tokens that are
    /// settled.
    pub fn flush(&self) {
        self.io.block_on(self.limiter().flush());
    }
}
