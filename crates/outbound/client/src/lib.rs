//! An HTTP client for vendors with rate limits. It stays under the limits that are known, finds those that are not, waits
//! instead of failing, and shares all of that with every process of the same store.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tollway_client::ApiClient;
//!
//! let notion = ApiClient::for_api("notion")?;
//! let users = notion.get("/v1/users").send().await?.text().await?;
//! # drop(users); Ok(()) }
//! ```
//!
//! The api is a section `[apis.notion]` of the config file, or one of the profiles that Tollway ships.
//!
//! # Three ways in
//!
//! | you have | use |
//! |---|---|
//! | nothing yet | [`ApiClient`], on reqwest; [`blocking::ApiClient`] on a thread without a runtime |
//! | a `reqwest_middleware` client | `ApiMiddleware` |
//! | a tower service, such as hyper's client | [`ApiLayer`] |
//!
//! All of them run the same call on an [`ApiLimiter`]:
//!
//! 1. **Take** a permit of the endpoint's policy, the api's policy and a slot, waiting as long as the call's budget allows.
//! 2. **Begin**: right before the request is sent, ask whether the vendor has refused another process meanwhile.
//! 3. **Send**, and read what the response says about limits: status, headers, and the body of a refusal.
//! 4. **Feed back**: a refusal holds every process; the rate is cut once; quotas in headers lower what is left.
//! 5. **Settle** tokens from the `usage` of the answer, streamed or not; or **retry** within the budget.
//!
//! # Where to look
//!
//! | module | what it does |
//! |---|---|
//! | `limiter` | the limits of one api in this process |
//! | `gate` | calls of this process wait here, by priority |
//! | `in_flight` | how many calls a vendor runs at the same time, found from its refusals |
//! | `acquire`, `permits`, `queue_wait` | the permits of one attempt; whether its turn comes in time |
//! | `attempts` | one call: send, observe, retry |
//! | `answer`, `observe` | what an answer means, also to a call that another program sent |
//! | `reporter`, `feedback` | what answers say, told to the store; the controller's rate |
//! | `unfinished`, `last_report` | what goes on after a call, and what is told when a program ends |
//! | `token_quotas` | quotas of tokens in headers, as calls |
//! | `body` | the body of an answer: read ahead, usage counted as it streams |
//! | `client`, `request`, `tls`, `blocking` | the client on reqwest |
//! | `middleware`, `layer` | the other two ways in |
//! | `forward` | calls of other programs, for a gateway |
//! | `error` | why a call failed, with every attempt |

#![forbid(unsafe_code)]

mod acquire;
mod answer;
mod attempts;
mod body;
mod error;
mod feedback;
mod gate;
mod in_flight;
mod kept;
mod last_report;
mod layer;
mod limiter;
mod observe;
mod permits;
mod queue_wait;
mod reporter;
mod unfinished;

#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "forward")]
mod forward;
#[cfg(feature = "middleware")]
mod middleware;
#[cfg(feature = "client")]
mod request;
mod tls;
mod token_quotas;

pub use attempts::{CallOptions, CallSketch};
pub use body::ApiBody;
#[cfg(feature = "client")]
pub use client::{ApiClient, ApiClientBuilder};
pub use error::{Attempt, Attempts, CallError, CallFailure, ClientError};
#[cfg(feature = "forward")]
pub use forward::{ForwardBody, ForwardingClient};
pub use gate::Priority;
pub use layer::{ApiLayer, ApiService, CloneBody, SendOnce};
pub use limiter::{ApiLimiter, ApiSnapshot};
#[cfg(feature = "middleware")]
pub use middleware::ApiMiddleware;
pub use observe::Observed;
#[cfg(feature = "client")]
pub use request::ApiRequest;
pub use tls::use_ring;
pub use tollway_dialects::{RefusalKind, VendorResponse};
