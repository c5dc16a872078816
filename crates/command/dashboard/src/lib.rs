//! The dashboard: what the limits, apis and pipelines of a process do, as pages, as JSON and as one stream of events.
//!
//! A [`Dashboard`] answers requests of the administration listener of `tollway-server`. Where to look:
//!
//! - data: `snapshot` is what `/v1/live` sends, `sentence` the one sentence above it
//! - reading: `rows` are the limits that were used, with one bounded read a second; `history` keeps the most used ones
//! - sending: `feed` makes one snapshot a second for all viewers, while there is one; `live` is the stream of one viewer
//! - asking: `routes` is the table of all paths, `handler` answers them, `details` are the views behind the first screen
//! - `page` is the shell of the pages and their assets

mod alarms;
mod answer;
mod dashboard;
mod details;
mod events;
mod feed;
mod handler;
mod history;
mod live;
mod page;
#[cfg(feature = "pipeline")]
mod pipelines;
mod routes;
mod rows;
mod sentence;
mod settings;
pub mod snapshot;

/// The target of log lines about changes of pipelines. The server's lines about changes have their modules' targets.
pub const CHANGES_TARGET: &str = "tollway_dashboard::changes";

pub use dashboard::{Dashboard, DashboardBuilder};
pub use events::Events;
#[cfg(feature = "pipeline")]
pub use pipelines::PipelineSource;
