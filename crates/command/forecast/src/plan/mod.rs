//! Forecasts how fast a policy's limits let calls through, and when a backlog of them is done.
//!
//! ```
//! use tollway_core::{Policy, Span, Timestamp};
//! use tollway_forecast::plan::{Finish, Forecast, Load, Scenario};
//!
//! let policy = Policy::new("adobe", ["200 requests / minute"])?;
//! let start = Timestamp::from_secs(1_800_000_000);
//! let load = Load { items: Some(1_000), calls_per_item: 2, start, latency: None, retention: None };
//!
//! let forecast = Forecast::new(Scenario::new(policy, &[])?, &load)?;
//! let a_minute = forecast.items_in_each(Span::from_mins(1), &load);
//! assert_eq!(a_minute.millionths(), 100_000_000);
//! // 200 calls go out at once, 1,800 in the nine minutes after.
//! assert_eq!(forecast.finish, Some(Finish::At(start.plus(Span::from_mins(9)))));
//! # Ok::<(), tollway_forecast::plan::PlanError>(())
//! ```
//!
//! Arithmetic over [`tollway_core`] types only: no I/O, no clock, no store. Every input is answered in bounded time, however
//! large its numbers.
//!
//! | module | what it does |
//! |---|---|
//! | `scenario` | a policy and the cost of one call; can replace one limit |
//! | `forecast` | the result: rate, bottleneck, finish, workers |
//! | `flow` | one limit under a constant load: its rate, and when it grants the n-th call |
//! | `windows`, `sliding` | the arithmetic of calendar windows and of sliding limits |
//! | `engine` | several limits together: the engine decides call by call |
//! | `rate` | rates as exact fractions, and rounded quantities |
//! | `error` | why there is no forecast |

mod engine;
mod error;
mod flow;
mod forecast;
mod rate;
mod scenario;
mod sliding;
mod windows;

pub use error::PlanError;
pub use forecast::{Finish, Forecast, LimitForecast, Load, Workers};
pub use rate::{Quantity, Rate};
pub use scenario::{Scenario, replace_limit};
