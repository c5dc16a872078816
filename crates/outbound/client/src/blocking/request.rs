//! A request of the blocking client.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::ApiResponse;
use super::io_thread::IoThread;
use super::reader_body::ReaderBody;
use crate::error::CallError;
use crate::{CallOptions, Priority};

/// A request being put together.
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct ApiRequest {
    request: crate::ApiRequest,
    io: Arc<IoThread>,
}

impl ApiRequest {
    pub(super) fn new(request: crate::ApiRequest, io: Arc<IoThread>) -> Self {
        Self { request, io }
    }

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

    /// The body, read while it is sent, such as a large file. It can be sent only once: if the vendor refuses, the call fails.
    ///
    /// A thread of its own reads it, from when the call has its permits until the reader ends.
    pub fn body_from(self, reader: impl Read + Send + 'static) -> Self {
        self.map(|request| request.body(reqwest::Body::wrap(ReaderBody::new(reader))))
    }

    /// All options of the call at once, in place of those of the client.
    pub fn options(self, options: CallOptions) -> Self {
        self.map(|request| request.options(options))
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

    /// The statuses that mean "call later", instead of the config's.
    pub fn backoff_codes(self, codes: impl IntoIterator<Item = u16>) -> Self {
        self.map(|request| request.backoff_codes(codes))
    }

    /// Sends it and waits for the headers of its answer.
    pub fn send(self) -> Result<ApiResponse, CallError> {
        let response = self.io.block_on(self.request.send())?;
        Ok(ApiResponse::new(response, self.io))
    }
}
