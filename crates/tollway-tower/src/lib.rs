//! Rate limits for servers built from `tower` services: axum, hyper, tonic.
//!
//! [`RateLimitLayer`] limits requests by a policy, [`SubjectFrom`] finds the subject of each. Responses carry the same rate
//! limit headers as those of `tollway serve`, and a denied request gets 429 with `Retry-After`. With the feature
//! `consumers`, `ConsumersLayer` limits each caller by its own records.
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
