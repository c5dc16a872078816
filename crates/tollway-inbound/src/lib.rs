//! What everything that serves limits over HTTP shares: whom a request comes from, and headers that tell what is left.
//!
//! Pure: no sockets, no HTTP library, no clock. The server, and layers for other servers, hand in what they received and
//! are told what to answer.
//!
//! - [`address`]: the client's address out of forwarding headers, trusting none of them unless told to
//! - [`escapes`]: the text that a part of a URL means, and text in a header
//! - [`headers`]: `X-Rate-Limit-*`, `RateLimit`, `RateLimit-Policy` and `Retry-After` of a decision, and the body of a 429
//! - [`problem`]: what goes wrong, in the same words everywhere

pub mod address;
pub mod escapes;
pub mod headers;
pub mod problem;
