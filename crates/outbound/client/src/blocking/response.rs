//! The answer of a vendor to the blocking client.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use super::io_thread::IoThread;
use crate::error::{Attempt, Attempts};

/// The answer of a vendor. Reading from it reads its body, as it comes.
#[derive(Debug)]
pub struct ApiResponse {
    response: reqwest::Response,
    io: Arc<IoThread>,
    /// What was received of the body and not read yet.
    received: Bytes,
}

impl ApiResponse {
    pub(super) fn new(response: reqwest::Response, io: Arc<IoThread>) -> Self {
        Self { response, io, received: Bytes::new() }
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Its headers.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Every attempt of the call in order, the answered one last.
    pub fn attempts(&self) -> &[Attempt] {
        Attempts::of(self.response.extensions())
    }

    /// Its body as text.
    pub fn text(self) -> reqwest::Result<String> {
        self.io.block_on(self.response.text())
    }

    /// Its body as JSON.
    pub fn json<T: DeserializeOwned>(self) -> reqwest::Result<T> {
        self.io.block_on(self.response.json())
    }

    /// Its body.
    pub fn bytes(self) -> reqwest::Result<Bytes> {
        self.io.block_on(self.response.bytes())
    }

    /// The next part of its body; `None` at its end.
    pub fn chunk(&mut self) -> reqwest::Result<Option<Bytes>> {
        if !self.received.is_empty() {
            return Ok(Some(std::mem::take(&mut self.received)));
        }
        self.io.block_on(self.response.chunk())
    }
}

impl Read for ApiResponse {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.received.is_empty() && !buffer.is_empty() {
            match self.chunk().map_err(io::Error::other)? {
                Some(chunk) => self.received = chunk,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.received.len());
        let (read, _) = buffer.split_at_mut(length);
        self.received.copy_to_slice(read);
        Ok(length)
    }
}
