//! What a vendor's response says about its limits: whether it refused and why, how long to wait, what is left of each
//! quota, and how many tokens a call used.
//!
//! ```
//! use std::time::Duration;
//!
//! use http::{HeaderMap, HeaderValue, StatusCode};
//! use tollway_dialects::{Dialect, QuotaReset, QuotaUnit, RefusalKind, VendorResponse};
//!
//! let mut headers = HeaderMap::new();
//! headers.insert("retry-after-ms", HeaderValue::from_static("1250"));
//! headers.insert("x-ratelimit-limit-tokens", HeaderValue::from_static("150000"));
//! headers.insert("x-ratelimit-remaining-tokens", HeaderValue::from_static("0"));
//! headers.insert("x-ratelimit-reset-tokens", HeaderValue::from_static("6m0s"));
//! let response = VendorResponse { status: StatusCode::TOO_MANY_REQUESTS, headers: &headers, body: b"" };
//!
//! let openai = Dialect::by_name("openai").ok_or("no such dialect")?;
//! assert_eq!(Dialect::detect(&headers), openai);
//!
//! let observed = openai.observe(&response);
//! assert_eq!(observed.refusal, Some(RefusalKind::Rate));
//! assert_eq!(observed.wait, Some(Duration::from_millis(1_250)));
//! assert_eq!(observed.quotas[0].unit, QuotaUnit::Tokens);
//! // OpenAI tells the time until its bucket is full, not until the next call is allowed.
//! assert_eq!(observed.quotas[0].reset, Some(QuotaReset::BucketFull(Duration::from_secs(360))));
//! # Ok::<(), &str>(())
//! ```
//!
//! No I/O and no clock. Every response gets an answer in bounded time and memory. What makes no sense is ignored, with a
//! line at debug level.
//!
//! # Dialects
//!
//! [`Dialect::names`] lists them. `http` is the fallback: it knows `Retry-After` and the statuses 429, 503 and 529, which
//! all others know too, and refusals of vendors that send no headers of their own.
//!
//! | names | what is special |
//! |---|---|
//! | `http`, `adobe` | `Retry-After` in seconds, with a fraction, as a date; `Retry-After-Ms`; problem types of the IETF draft |
//! | `ietf`, `cloudflare`, `buildkite` | `RateLimit` and `RateLimit-Policy`, or the older three fields |
//! | `x-ratelimit`, `vimeo`, `lemlist` | `X-RateLimit-*` in any notation: seconds, times since 1970, dates |
//! | `brave`, `whoop`, `riot` | several windows in one header |
//! | `openai`, `groq`, `azure-openai` | tokens beside requests; waits and daily limits in the text of an error; no credit is no rate |
//! | `anthropic` | four quotas, refilled continuously; 529 is overload |
//! | `gemini` | quotas in the body; a daily refusal lasts until midnight in California, whatever its `retryDelay`; a limit of 0 is no access |
//! | `github` | 403 or 429; the secondary limit is in the text; GraphQL refuses inside a 200 |
//! | `stripe` | a reason; a lock timeout has a code of its own |
//! | `slack`, `twilio` | refusals in the body: in a 200, or by a code |
//! | `aws` | one list of codes for all services, in a header, in JSON and in XML |
//! | `google` | a 403 with a reason, or details that name the quota |
//! | `notion`, `atlassian`, `discord` | a reason beside the wait |
//! | `shopify`, `shopify-graphql` | fill levels; GraphQL refuses inside a 200 |
//! | `salesforce`, `hubspot`, `helcim`, `x`, `twitter` | daily and shorter quotas at once |
//! | `gitlab`, `akamai`, `reddit`, `prisjakt` | known names with another meaning; the milliseconds of `prisjakt` cannot be detected |
//!
//! # Rules
//!
//! - The refusal is classified first: by the vendor's rows for status, headers and body, then by problem type, then by
//!   status. A rate is a daily quota if a quota of a day or longer is used up.
//! - A general dialect (`http`, `ietf`, `x-ratelimit`, `brave`, `whoop`) reads the bodies of all vendors, at exact places. Of
//!   a success it reads only what begins like a refusal; [`Dialect::body_need`] says how much is needed.
//! - `Retry-After` makes a refusal of 403, 408, 413, 423, 425 and 5xx. On other statuses it is a wait of this one call.
//! - A wait comes from `Retry-After-Ms`, then `Retry-After`, then the vendor's own field, then from the reset of quotas
//!   that are used up. The reset of a quota that passed is never a wait: gateways show the wrong one.
//! - Waits are at most [`WAIT_MAX`], after a daily quota [`DAILY_WAIT_MAX`].
//! - A number is a time in milliseconds since 1970 if it is above 10^12, in seconds if above 10^9, otherwise a duration in
//!   seconds. Times are compared with the `Date` of the same response; without one they are ignored.
//!
//! A vendor that refuses in its own way needs a function of the application:
//!
//! ```
//! # use http::{HeaderMap, StatusCode};
//! # use tollway_dialects::{Dialect, RefusalKind, VendorResponse};
//! # let headers = HeaderMap::new();
//! let body = br#"{"ok": false, "error": "ratelimited"}"#;
//! let response = VendorResponse { status: StatusCode::OK, headers: &headers, body };
//! let observed = Dialect::detect(&headers).observe_with(&response, |response| {
//!     let refused = response.body.windows(11).any(|part| part == b"ratelimited");
//!     refused.then_some(RefusalKind::Rate)
//! });
//! assert_eq!(observed.refusal, Some(RefusalKind::Rate));
//! ```
//!
//! # Where to look
//!
//! | module | what it does |
//! |---|---|
//! | `tables` | the dialects: one row for each header, refusal and wait |
//! | `dialect` | a dialect, its detection, and `observe` |
//! | `observation` | the result, and its bounds |
//! | `response`, `body`, `xml` | the fields of a response that rows name; members of a body |
//! | `body_need` | how much of a body has to be read |
//! | `headers`, `body_quotas` | quotas in headers and in bodies |
//! | `refusal`, `wait` | the kind of a refusal; the wait |
//! | `durations`, `times` | numbers and durations; points in time |
//! | `structured_fields`, `ratelimit_fields` | lists of RFC 9651; the IETF's two fields |
//! | `usage`, `usage_scanner` | tokens used; finds them in a stream |

#![forbid(unsafe_code)]

mod body;
mod body_need;
mod body_quotas;
mod dialect;
mod durations;
mod headers;
mod observation;
mod ratelimit_fields;
mod refusal;
mod response;
mod structured_fields;
mod tables;
mod times;
mod usage;
mod usage_scanner;
mod wait;
mod xml;

pub use body::BODY_BYTES_MAX;
pub use body_need::{BodyNeed, is_stream};
pub use dialect::Dialect;
pub use observation::{
    DAILY_WAIT_MAX, Observation, QuotaReset, QuotaUnit, RefusalKind, VendorQuota, WAIT_MAX,
};
pub use response::VendorResponse;
pub use usage::{TokenUsage, UsageReader};
