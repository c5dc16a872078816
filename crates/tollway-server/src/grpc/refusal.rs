//! What callers are told who are not let through: the JSON that `/v1/authorize` answers. The status is the proxy's.

use bytes::Bytes;
use serde::Serialize;
use tollway_inbound::headers::TooManyRequests;

use super::message::{HeaderValue, RateLimitResponse};
use crate::http::Problem;

/// A body for whoever sent the request that the proxy holds.
pub(super) struct Refusal {
    media_type: &'static str,
    json: Bytes,
}

impl Refusal {
    fn new(media_type: &'static str, body: &impl Serialize) -> Self {
        // What these types hold can always be written.
        Self { media_type, json: serde_json::to_vec(body).unwrap_or_default().into() }
    }

    pub(super) fn of_limit(told: &TooManyRequests<'_>) -> Self {
        Self::new("application/json", told)
    }

    pub(super) fn of_problem(problem: &Problem) -> Self {
        Self::new("application/problem+json", problem)
    }

    pub(super) fn put_into(self, response: &mut RateLimitResponse) {
        let (key, value) = ("content-type".to_owned(), self.media_type.to_owned());
        response.response_headers_to_add.push(HeaderValue { key, value });
        response.raw_body = self.json;
    }
}
