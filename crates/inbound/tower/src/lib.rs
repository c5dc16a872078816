//! Rate limits for servers built from `tower` services: axum, hyper, tonic.
//!
//! [`RateLimitLayer`] limits requests by a policy, [`SubjectFrom`] finds the subject of each. Responses carry rate limit
//! headers, and a denied request gets 429 with `Retry-After` and a JSON body, which a program can replace. With the feature
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
mod consumers_layer;
mod headers;
mod layer;
mod options;
mod problem;
mod rules;
mod service;
mod subject;

pub use body::LimitedBody;
#[cfg(feature = "consumers")]
pub use consumers_layer::ConsumersLayer;
pub use layer::RateLimitLayer;
pub use service::RateLimit;
pub use subject::SubjectFrom;
#[cfg(feature = "consumers")]
pub use tollway_consumers as consumers;
pub use tollway_inbound::address;
pub use tollway_inbound::headers::HeaderChoice;
