//! The gateway: a local HTTP address for every api, so that programs in any language call vendors within their limits.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tollway::{Limiter, config::Api};
//! use tollway_gateway::Gateway;
//! use tollway_server::{Listeners, ServerConfig};
//!
//! let openai = Api::profile("openai").ok_or("no such profile")?;
//! let limiter = Limiter::builder().with_api(openai)?.build();
//! let config = ServerConfig::gateway();
//! let gateway = Gateway::new(limiter, &config).await?;
//! // OPENAI_BASE_URL=http://127.0.0.1:4000/openai
//! gateway.serve(Listeners::bind_gateway(&config).await?, std::future::pending()).await?;
//! # Ok(()) }
//! ```
//!
//! It is a second way into `tollway-client`, on the listeners and connections of `tollway-server`. A request passes:
//!
//! 1. **`target`**: which api, and the vendor's URL. The path is never decoded; what could leave the base URL is refused.
//! 2. **`headers`**: those that end at a proxy are removed, also on the way back; the config's are added last.
//! 3. **`wishes`**: what `Tollway-*` headers and the timeouts of SDKs ask for. `accounts`: the account of its credential.
//! 4. **`request_body`**: kept for a retry up to a bound, else streamed. `estimate`: the tokens that it asks for.
//! 5. **`call`**: waits for its permits, calls the vendor, and passes the answer on as it comes. `keepalive` writes to
//!    callers that wait for a stream, `timing` says where the time went.
//!    `vendor_addresses` keeps names of vendors from leading to this machine or its network.
//! 6. **`refusal`**: what the gateway answers itself.
//!
//! A gateway that learns ([`Gateway::learning`]) limits nothing: `learn` watches, and writes what it saw as a config.
//!
//! `metrics` counts what came of calls, for the listener of `admin`. `gateway` puts this together, `exports` are the variables that point SDKs here, `bounds` has every bound.

#![forbid(unsafe_code)]

mod accounts;
mod bounds;
mod call;
mod estimate;
mod exports;
mod gateway;
mod headers;
mod keepalive;
mod learn;
mod metrics;
mod refusal;
mod request_body;
mod target;
mod timing;
mod vendor_addresses;
mod wishes;

pub use exports::{Export, exports};
pub use gateway::{Gateway, GatewayError};
pub use metrics::GATEWAY_METRICS;
