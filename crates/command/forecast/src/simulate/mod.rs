//! Replays a traffic log under a policy, by the engine that decides in production, and counts what it grants and denies.
//!
//! ```
//! use std::io::Cursor;
//! use std::ops::ControlFlow;
//! use tollway_core::{Policy, Span};
//! use tollway_forecast::simulate::{Fields, Log, Replay, TrialPolicy};
//!
//! let csv = "time,subject\n1800000000,anna\n1800000001,anna\n1800000002,anna\n";
//! let policy = TrialPolicy::new("api", &Policy::new("api", ["2 requests / minute"])?)?;
//! let log = Log::read(Box::new(Cursor::new(csv)), None, Fields::default())?;
//! let replay = Replay::new(vec![policy], log.units(), Span::ZERO)?;
//!
//! let summary = replay.run(&log, || false, |_progress| ControlFlow::Continue(()))?;
//! let counts = &summary.trials[0].counts;
//! assert_eq!((counts.granted, counts.denied), (2, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A log of any length takes bounded memory, and nothing is written anywhere: the accounts live in a memory store that
//! ends with the replay. Lines, their number of bytes and the log as a whole are bounded by [`LINE_BYTES_MAX`],
//! [`LINE_BYTES_SKIPPED_MAX`] and [`LOG_BYTES_MAX`].
//!
//! | module | what it does |
//! |---|---|
//! | `log` | reads JSON lines, CSV and access logs as calls, on a thread of its own |
//! | `trial_policy` | makes a policy ready for a trial: without slots, with another limit in place of one |
//! | `replay` | decides each call under each policy, and counts: `engine` asks, `trial` counts, `ranking`, `spread` and `timeline` do so in bounded memory |
//! | `error` | why a log cannot be replayed |

mod error;
mod log;
mod replay;
mod trial_policy;

pub use error::SimulateError;
pub use log::{
    Batch, CostSource, Fields, LINE_BYTES_MAX, LINE_BYTES_SKIPPED_MAX, LOG_BYTES_MAX, Log, LogFormat,
    LoggedCall, Source, TIME_NAMES, Unreadable,
};
pub use replay::{
    Bar, COUNTERS_KEPT, CallDecision, CallOutcome, LimitCounts, Peak, Progress, Ranking, Replay, Spread,
    Summary, Timeline, Traffic, Trial, TrialCounts,
};
pub use trial_policy::{TrialPolicy, replace_limit};
