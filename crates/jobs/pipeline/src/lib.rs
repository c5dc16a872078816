//! Staged, durable jobs behind a vendor's quota.
//!
//! A [`Job`] waits in a stage until a worker claims it. When the worker finishes it, its outputs become jobs of the next
//! stage in the same transaction. An [`Engine`] keeps the jobs; [`SqliteEngine`] keeps them in one file, and
//! `PostgresEngine` (feature `postgres`) in a database that many machines share. The crate `tollway-sqs` keeps them in queues
//! of Amazon SQS.
//!
//! ```
//! use tollway_core::{Name, Span, Timestamp};
//! use tollway_pipeline::{ClaimRequest, Conclusion, Engine, Finished, NewJob, Output, SqliteEngine};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let folder = tempfile::tempdir()?;
//! let engine = SqliteEngine::open(&folder.path().join("pdf.db"))?;
//! let (autotag, extract) = (Name::new("autotag")?, Name::new("extract")?);
//! let now = Timestamp::from_secs(1_000);
//!
//! engine.enqueue(vec![NewJob::new(&autotag, "chunk-1", r#"{"bucket": "b"}"#)?], now).await?;
//! let request = ClaimRequest::new(&autotag, "worker-1", Span::from_mins(15));
//! let claimed = engine.claim(request, now).await?.remove(0);
//! let outputs = vec![Output::new(&extract, r#"{"bucket": "b", "tagged": true}"#)?];
//! let finished = engine.finish(claimed.claim, Conclusion::Done { outputs, result: None }, now).await?;
//! assert_eq!(finished, Finished::Committed { outputs: 1, joined: 0 });
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! A [`Runner`](run::Runner) claims jobs within the quota of a limiter, and hands them to [`handler`]s. A
//! [`Source`](source::Source) makes jobs of records: S3 notifications, messages of queues, lines of JSON or CSV.
//!
//! Where to look: [`Engine`] is the contract, [`engine`] is what its authors use, [`view`] is what operators see and do. The module
//! `conformance`, with the feature of that name, is the suite that every engine passes.

mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod documents;
pub mod engine;
pub mod handler;
mod job;
pub mod run;
pub mod source;
pub mod view;

pub use config::{
    CommandConfig, ConfigWithPipelines, EngineUrl, HandlerConfig, HttpConfig, PipelineConfig, SqsUrl,
    StageConfig, StageQueues, read_pipelines,
};
pub use engine::administration::{
    Change, Changed, Edit, Edited, Events, Filter, JobResult, Page, SAMPLES_KEPT, SAMPLES_RECENT, Sample,
    StageChange, StageCounts, StageMove, StageSettings,
};
pub use engine::error::{EngineError, EngineFault};
pub use engine::moving::{MOVED_MARK, MOVING_MARK, MovedJob, moving_to};
pub use engine::open::{EngineOpener, OpenSqs, OpenedEngine};
#[cfg(feature = "postgres")]
pub use engine::postgres::PostgresEngine;
pub use engine::socket::{SocketEngine, SocketServer};
pub use engine::sqlite::{Compaction, SqliteEngine};
pub use engine::{
    Capabilities, Claim, ClaimRequest, Claimed, Conclusion, Engine, EngineAnswer, EngineReply, EngineRequest,
    Enqueued, Finished, Output, Peek,
};
pub use job::attempt::{Attempt, Cause, Evidence};
pub use job::bounds;
pub use job::cost::JobCost;
pub use job::{Job, JobError, JobId, NewJob, State};
