//! What operators see of a pipeline and what they do to it, as data: `status`, `why`, `dead`, the dashboard and `top` read
//! this, and none of them reads an engine by itself.
//!
//! - [`PipelineView`]: every stage, the pipeline's end, and what it takes from; [`GroupView`]: the jobs of one group.
//! - [`JobView`]: a job; [`JobFacts`] and [`Reason`]: why it is where it is; [`find`]: by number or key.
//! - [`DeadLetters`] and [`DeadLetterKinds`]: dead letters, one by one or counted; [`JobFilter`]: which.
//! - [`JobChange`]: redrive, drop, cancel or reprioritise all that match, at a rate; [`correct`]: edits a dead letter.
//! - [`set_paused`], [`set_concurrency`] and [`ConcurrencyView`]: stages.
//!
//! Values serialise to the JSON of the command. Sentences are made here, too, in one place; how they are laid out is up to
//! the reader.

mod change;
mod dead;
mod error;
mod filter;
mod find;
mod job;
mod pipeline;
mod quota;
mod rate;
mod reason;
mod stages;
pub(crate) mod text;
mod why;
mod wording;

pub use change::{ChangeSteps, JobChange, Matched};
pub use dead::{DeadLetterKind, DeadLetterKinds, DeadLetters, KINDS_MAX, KindOf, correct};
pub use error::ViewError;
pub use filter::{JobFilter, JobPages};
pub use find::{find, find_dead, only_dead, states_of};
pub use job::{AttemptView, JobView, one_line};
pub use pipeline::{EngineAwayView, GroupView, LiveView, PipelineView, StageJobs};
pub use quota::{LimitQuota, PolicyQuota};
pub use rate::JobRate;
pub use reason::Reason;
pub use stages::{
    ConcurrencyView, PausedStage, StageConcurrency, known_stage, not_in_config, set_concurrency, set_paused,
    stage_of,
};
pub use why::{GroupLeft, JobFacts, WhyView};
pub use wording::{Wording, shell_word};
