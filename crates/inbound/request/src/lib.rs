//! What every limit-serving frontend shares: from a request to an admission, and from a decision to a response.
//!
//! No sockets, no HTTP library, no clock. The server, and layers for other servers, pass in what they received and write the
//! result.
//!
//! - [`address`]: the client's address from forwarding headers, none of which is trusted unless configured
//! - [`Admission`], [`InboundTake`]: how a caller is admitted, and the take itself
//! - [`ANONYMOUS_POLICY`], [`CONSUMERS_POLICY`]: the policies of callers
//! - [`escapes`]: percent-decoding of parts of a URL, percent-encoding of text in a header
//! - [`headers`]: `X-Rate-Limit-*`, `X-RateLimit-*`, `RateLimit`, `RateLimit-Policy` and `Retry-After` of a decision, and
//!   the body of a 429
//! - [`paths`]: the parameters in the path of a route
//! - [`problem`]: error bodies that all protocols share

pub mod address;
mod admission;
mod caller_policies;
pub mod escapes;
pub mod headers;
mod inbound_take;
pub mod paths;
pub mod problem;

pub use admission::Admission;
pub use caller_policies::{ANONYMOUS_POLICY, CONSUMERS_POLICY, check_anonymous_policy};
pub use inbound_take::{CountedCharge, InboundTake, PermitOrDenied, decision_of};
