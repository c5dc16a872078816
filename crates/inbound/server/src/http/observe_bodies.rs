//! The bodies of `/v1/observe`.

use std::borrow::Cow;
use std::fmt;

use hyper::header::{
    AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION, SET_COOKIE,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::bounds::{OBSERVED_BODY_BYTES_MAX, OBSERVED_HEADERS_MAX};

/// How a vendor answered the call of a permit. Without a status, the call had no answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ObserveBody<'a> {
    /// The permit of the call, as it was issued; each can be reported once.
    #[serde(borrow)]
    pub(crate) permit: Cow<'a, str>,
    /// The status of the answer; left out: the call had none, because it timed out or no connection was made.
    #[serde(default)]
    #[schemars(range(min = 100, max = 599))]
    pub(crate) status: Option<u16>,
    /// The headers of the answer.
    #[serde(default)]
    pub(crate) headers: VendorHeaders,
    /// The beginning of the answer's body. Only that of a refusal is needed.
    #[serde(borrow, default)]
    #[schemars(length(max = OBSERVED_BODY_BYTES_MAX))]
    pub(crate) body: Option<Cow<'a, str>>,
}

/// What the answer was.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ObserveAnswer {
    /// Whether the vendor refused the call.
    pub(crate) refused: bool,
    /// Why: `rate`, `concurrency`, `daily_quota`, `overload`, `no_access` or `lock`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<&'static str>,
    /// After a refusal: how long to wait before the call is sent again, with a new permit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wait_ms: Option<u64>,
    /// Whether the same call may be accepted later.
    pub(crate) retry: bool,
}

/// The headers of a vendor's answer, without secrets: they are dropped while the request is read. A header that cannot be
/// one is left out, too, because programs pass on whatever came.
#[derive(Debug, Default)]
pub(crate) struct VendorHeaders(pub(crate) HeaderMap);

/// Headers that say who the caller is, and nothing about limits.
const SECRET_HEADERS: [HeaderName; 5] =
    [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, SET_COOKIE, HeaderName::from_static("x-api-key")];

/// The values of one header.
#[derive(Deserialize)]
#[serde(untagged)]
enum Values<'a> {
    #[serde(borrow)]
    One(Cow<'a, str>),
    Several(Vec<String>),
}

impl VendorHeaders {
    fn add(&mut self, name: &str, values: &Values<'_>) {
        let Ok(name) = HeaderName::try_from(name) else { return };
        if SECRET_HEADERS.contains(&name) {
            return;
        }
        let values = match values {
            Values::One(value) => std::slice::from_ref(value).iter().map(|value| &**value).collect(),
            Values::Several(values) => values.iter().map(String::as_str).collect::<Vec<_>>(),
        };
        for value in values {
            if let Ok(value) = HeaderValue::try_from(value) {
                self.0.append(name.clone(), value);
            }
        }
    }
}

impl<'de> Deserialize<'de> for VendorHeaders {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadersVisitor)
    }
}

struct HeadersVisitor;

impl<'de> Visitor<'de> for HeadersVisitor {
    type Value = VendorHeaders;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("headers by name, as in {\"retry-after\": \"7\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<VendorHeaders, A::Error> {
        let (mut headers, mut count) = (VendorHeaders::default(), 0_usize);
        while let Some((name, values)) = map.next_entry::<String, Values<'de>>()? {
            count += match &values {
                Values::One(_) => 1,
                Values::Several(values) => values.len(),
            };
            if count > OBSERVED_HEADERS_MAX {
                let message = format_args!("an answer has at most {OBSERVED_HEADERS_MAX} headers");
                return Err(A::Error::custom(message));
            }
            headers.add(&name, &values);
        }
        Ok(headers)
    }
}

impl JsonSchema for VendorHeaders {
    fn schema_name() -> Cow<'static, str> {
        "VendorHeaders".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Headers by name. Authorization and cookies are dropped.",
            "maxProperties": OBSERVED_HEADERS_MAX,
            "additionalProperties": {
                "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> HeaderMap {
        serde_json::from_str::<VendorHeaders>(json).unwrap().0
    }

    #[test]
    fn secrets_and_names_that_are_none_are_dropped() {
        let headers = read(
            r#"{"Authorization": "Bearer s3cret", "Set-Cookie": ["a=s3cret", "b=s3cret"], "COOKIE": "s3cret",
                "proxy-authorization": "s3cret", "X-Api-Key": "s3cret", "no name": "x", "": "x", "ok": "a\u0000b",
                "Retry-After": "7", "x-list": ["1", "2"]}"#,
        );
        let mut kept: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        kept.sort_unstable();
        assert_eq!(kept, [("retry-after", "7"), ("x-list", "1"), ("x-list", "2")]);
    }

    #[test]
    fn headers_are_bounded() {
        let many = |count: usize| format!(r#"{{"x": [{}]}}"#, vec!["\"1\""; count].join(","));
        assert_eq!(read(&many(OBSERVED_HEADERS_MAX)).len(), OBSERVED_HEADERS_MAX);
        assert!(serde_json::from_str::<VendorHeaders>(&many(OBSERVED_HEADERS_MAX + 1)).is_err());
    }
}
