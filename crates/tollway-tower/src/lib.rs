//! Rate limits for servers made of `tower` services: axum, hyper, tonic.
//!
//! [`RateLimitLayer`] limits requests by a policy, [`SubjectFrom`] finds the subject of each. Answers show what is left in
//! the headers that `tollway serve` writes, and a denied request gets 429 with the time to come back. With the
//! feature `consumers`, `ConsumersLayer` limits each caller by records of its own.
//!
//! ```
//! use tollway::Limiter;
//! use tollway_tower::{RateLimitLayer, SubjectFrom};
//!
//! let limiter = Limiter::builder().policy("api", ["100 requests / minute"])?.build();
//! let limit = RateLimitLayer::new(limiter.policy("api")?).subject(SubjectFrom::header("x-api-key"));
//! # let _ = limit;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod body;
#[cfg(feature = "consumers")]
mod consumers;
mod headers;
mod layer;
mod problem;
mod rules;
mod service;
mod subject;

pub use body::LimitedBody;
#[cfg(feature = "consumers")]
pub use consumers::ConsumersLayer;
pub use layer::RateLimitLayer;
pub use service::RateLimit;
pub use subject::SubjectFrom;
pub use tollway_inbound::address;
pub use tollway_inbound::headers::HeaderChoice;
