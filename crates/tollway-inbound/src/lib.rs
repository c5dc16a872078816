//! What everything that serves limits shares: from a request to an admission, and from a decision to its answer.
//!
//! No sockets, no HTTP library, no clock. The server, and layers for other servers, hand in what they received and write
//! what they get back.
//!
//! - [`address`]: the client's address out of forwarding headers, trusting none of them unless configured
//! - [`Admission`], [`InboundTake`]: what a caller is before anything is taken, and the take itself
//! - [`ANONYMOUS_POLICY`], [`CONSUMERS_POLICY`]: the policies of callers
//! - [`escapes`]: percent-decoding of parts of a URL, percent-encoding of text in a header
//! - [`headers`]: `X-Rate-Limit-*`, `RateLimit`, `RateLimit-Policy` and `Retry-After` of a decision, and the body of a 429
//! - [`problem`]: errors, in the same words everywhere

pub mod address;
mod admission;
mod caller_policies;
pub mod escapes;
pub mod headers;
mod inbound_take;
pub mod problem;

pub use admission::Admission;
pub use caller_policies::{ANONYMOUS_POLICY, CONSUMERS_POLICY, check_anonymous_policy};
pub use inbound_take::{CountedCharge, InboundTake, PermitOrDenied, decision_of};
