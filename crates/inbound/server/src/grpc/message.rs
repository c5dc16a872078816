//! The messages of `envoy.service.ratelimit.v3` and `grpc.health.v1` with the fields used here, and the five-byte prefix of
//! a message: a compression flag and the length.
//!
//! Text fields of a request are bytes: a header that is not UTF-8 must not make a call fail, since a proxy that fails open
//! would then never limit that client.

use std::collections::HashMap;

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use super::service::{Failure, StatusCode};

/// The request: are these descriptors over their limits?
#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) domain: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub(super) descriptors: Vec<RateLimitDescriptor>,
    /// 0 means 1.
    #[prost(uint32, tag = "3")]
    pub(super) hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitDescriptor {
    #[prost(message, repeated, tag = "1")]
    pub(super) entries: Vec<Entry>,
    #[prost(message, optional, tag = "2")]
    pub(super) limit: Option<RateLimitOverride>,
    /// Overrides the request's; here 0 means none.
    #[prost(message, optional, tag = "3")]
    pub(super) hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    pub(super) is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Entry {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
}

/// A limit that the proxy sends in place of a policy's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub(super) struct RateLimitOverride {
    #[prost(uint32, tag = "1")]
    pub(super) requests_per_unit: u32,
    #[prost(enumeration = "Unit", tag = "2")]
    pub(super) unit: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Unit {
    Unknown = 0,
    Second = 1,
    Minute = 2,
    Hour = 3,
    Day = 4,
    Month = 5,
    Year = 6,
    Week = 7,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Code {
    Unknown = 0,
    Ok = 1,
    OverLimit = 2,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitResponse {
    #[prost(enumeration = "Code", tag = "1")]
    pub(super) overall_code: i32,
    /// One for each descriptor, in their order.
    #[prost(message, repeated, tag = "2")]
    pub(super) statuses: Vec<DescriptorStatus>,
    /// For the client behind the proxy.
    #[prost(message, repeated, tag = "3")]
    pub(super) response_headers_to_add: Vec<HeaderValue>,
    /// For the service that the proxy forwards to.
    #[prost(message, repeated, tag = "4")]
    pub(super) request_headers_to_add: Vec<HeaderValue>,
    /// The body of the proxy's response to a denied request.
    #[prost(bytes = "bytes", tag = "5")]
    pub(super) raw_body: Bytes,
    /// For the proxy's own log and filters.
    #[prost(message, optional, tag = "6")]
    pub(super) dynamic_metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DescriptorStatus {
    #[prost(enumeration = "Code", tag = "1")]
    pub(super) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) current_limit: Option<RateLimit>,
    #[prost(uint32, tag = "3")]
    pub(super) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(super) duration_until_reset: Option<Duration>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimit {
    #[prost(uint32, tag = "1")]
    pub(super) requests_per_unit: u32,
    #[prost(enumeration = "Unit", tag = "2")]
    pub(super) unit: i32,
    #[prost(string, tag = "3")]
    pub(super) name: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Duration {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

/// `google.protobuf.Struct` with string values only.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Struct {
    #[prost(map = "string, message", tag = "1")]
    pub(super) fields: HashMap<String, Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Value {
    #[prost(string, optional, tag = "3")]
    pub(super) text: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HealthCheckRequest {
    /// Empty: the server as a whole.
    #[prost(string, tag = "1")]
    pub(super) service: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct HealthCheckResponse {
    #[prost(enumeration = "Health", tag = "1")]
    pub(super) status: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Health {
    Unknown = 0,
    Serving = 1,
    NotServing = 2,
}

const PREFIX_BYTES: usize = 5;

/// The one message of a body, without its prefix.
pub(super) fn unframe(mut body: Bytes) -> Result<Bytes, Failure> {
    let bad = |message: &str| Failure::new(StatusCode::InvalidArgument, message);
    let prefix = body.split_to(PREFIX_BYTES.min(body.len()));
    let [compressed, length @ ..] =
        <[u8; PREFIX_BYTES]>::try_from(&*prefix).map_err(|_| bad("the body has no message"))?;
    match compressed {
        0 => {}
        // Messages are a few hundred bytes: compression gains nothing.
        1 => return Err(Failure::new(StatusCode::Unimplemented, "compressed messages are not supported")),
        _ => return Err(bad("the compression flag is invalid")),
    }
    let announced = u32::from_be_bytes(length);
    if usize::try_from(announced) != Ok(body.len()) {
        return Err(bad("the body is not one message of the announced length"));
    }
    Ok(body)
}

/// A body with one message.
pub(super) fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut body = BytesMut::with_capacity(PREFIX_BYTES.saturating_add(length));
    body.put_u8(0);
    body.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode_raw(&mut body);
    body.freeze()
}
