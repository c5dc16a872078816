//! Envoy's messages as a client has them, independent of the server's: strings are strings, and all fields that current
//! clients use are there.

use std::collections::HashMap;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RateLimitRequest {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    pub(crate) hits_addend: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    pub(crate) entries: Vec<Entry>,
    #[prost(message, optional, tag = "2")]
    pub(crate) limit: Option<Override>,
    #[prost(message, optional, tag = "3")]
    pub(crate) hits_addend: Option<UInt64Value>,
    #[prost(bool, tag = "4")]
    pub(crate) is_negative_hits: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Entry {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Override {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(crate) unit: i32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct UInt64Value {
    #[prost(uint64, tag = "1")]
    pub(crate) value: u64,
}

pub(crate) const OK: i32 = 1;
pub(crate) const OVER_LIMIT: i32 = 2;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    pub(crate) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(crate) statuses: Vec<Status>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) response_headers_to_add: Vec<Header>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) request_headers_to_add: Vec<Header>,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) raw_body: Vec<u8>,
    #[prost(message, optional, tag = "6")]
    pub(crate) dynamic_metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) current_limit: Option<Limit>,
    #[prost(uint32, tag = "3")]
    pub(crate) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(crate) duration_until_reset: Option<Duration>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Limit {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(crate) unit: i32,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Duration {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Header {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Struct {
    #[prost(map = "string, message", tag = "1")]
    pub(crate) fields: HashMap<String, Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Value {
    #[prost(oneof = "Kind", tags = "2, 3, 4")]
    pub(crate) kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Kind {
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(bool, tag = "4")]
    Bool(bool),
}

/// A descriptor of these entries, written `key=value`.
pub(crate) fn descriptor(entries: &[&str]) -> Descriptor {
    let entry = |text: &&str| {
        let (key, value) = text.split_once('=').unwrap();
        Entry { key: key.to_owned(), value: value.to_owned() }
    };
    Descriptor { entries: entries.iter().map(entry).collect(), ..Descriptor::default() }
}

impl Descriptor {
    pub(crate) fn with_hits(mut self, hits: u64) -> Self {
        self.hits_addend = Some(UInt64Value { value: hits });
        self
    }

    pub(crate) fn with_limit(mut self, requests_per_unit: u32, unit: i32) -> Self {
        self.limit = Some(Override { requests_per_unit, unit });
        self
    }
}

/// A request with these descriptors in the domain `edge`.
pub(crate) fn question(descriptors: impl IntoIterator<Item = Descriptor>) -> RateLimitRequest {
    RateLimitRequest {
        domain: "edge".to_owned(),
        descriptors: descriptors.into_iter().collect(),
        hits_addend: 0,
    }
}

impl RateLimitRequest {
    pub(crate) fn with_hits(mut self, hits: u32) -> Self {
        self.hits_addend = hits;
        self
    }
}

impl RateLimitResponse {
    /// The codes of all descriptors.
    pub(crate) fn codes(&self) -> Vec<i32> {
        self.statuses.iter().map(|status| status.code).collect()
    }

    /// A header for the client behind the proxy.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.response_headers_to_add.iter().find(|header| header.key == name);
        found.map(|header| header.value.as_str())
    }
}
