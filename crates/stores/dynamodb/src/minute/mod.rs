//! The layouts `minute` and `api-minute`: tables of a system that already runs, in which one item counts one minute. Both
//! count in the same items, by conditional writes, so that Tollway and a task in Python share one budget.
//!
//! | | `minute` | `api-minute` |
//! |---|---|---|
//! | key | `minute_key`, as in `2025-02-19-10-30` (UTC) | `api_type` and `minute`, minutes since 1970 |
//! | counts for | everybody: one budget | its `api_type`, which is the take's subject |
//! | a take's subject | in the log line only | required |
//!
//! Besides the key an item has `request_count`, and `ttl`, two minutes past the minute's end. Tollway adds `writer_0` to
//! `writer_63`, which prove that a write was applied whose answer was lost, and `pushed_out`, if they did not suffice.
//!
//! # A take
//!
//! `request_count` grows by the requested amount if it fits, in one conditional write, without a read before it. Takes of one
//! process go together; where not all fit, as many as do are written. A denial writes nothing and names the next minute.
//! The engine decides (`plan`); the condition says for which counts the decision holds, so that other programs that count
//! meanwhile do not matter while there is room.
//!
//! # What it is not
//!
//! There is no queue, no lease, no shadow and no memory of callers' ids. Only one limit of requests per minute
//! fits. Anything else is refused with a reason ([`check_policy`] reports it when a config is read).

mod count_cache;
mod counter;
mod environment;
mod fit;
mod link;
mod log;
mod minute_item;
mod plan;
mod proof;
mod store;
mod write;

pub use counter::{Layout, RATE_TABLE_API_MINUTE, RATE_TABLE_MINUTE, RATE_TABLE_VARIABLE};
pub use environment::table_of_environment;
pub use fit::check_policy;
pub use store::MinuteStore;
