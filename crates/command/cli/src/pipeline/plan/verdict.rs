//! Whether done jobs are kept until the backlog is done.

use tollway::Span;

use super::forecast::PipelineForecast;
use super::text;
use super::work::Work;
use crate::failure::{Exit, Failure};
use crate::humanize;

/// Stages that forget too early.
pub(super) struct TooShort {
    pub(super) stages: Vec<String>,
    /// The shortest of them.
    retention: Span,
    /// The queue keeps its messages no longer, whatever the config says.
    of_engine: bool,
    takes: Option<Span>,
}

/// None: every stage keeps its jobs long enough.
pub(super) fn of(work: &Work, forecast: &PipelineForecast) -> Option<TooShort> {
    let takes = forecast.takes[1];
    let short = |retention: Span| takes.is_none_or(|takes| retention < takes);
    let stages = work.stages.iter().filter(|stage| short(stage.retention));
    let retention = stages.clone().map(|stage| stage.retention).min()?;
    let of_engine = stages.clone().any(|stage| stage.retention < stage.config.retention);
    let stages = stages.map(|stage| stage.config.name.to_string()).collect();
    Some(TooShort { stages, retention, of_engine, takes })
}

impl TooShort {
    /// What would be enough, in whole days.
    pub(super) fn enough_days(&self) -> Option<u64> {
        Some(self.takes?.as_micros().div_ceil(Span::from_days(1).as_micros()))
    }

    pub(super) fn failure(&self) -> Failure {
        let stages = self.stages.join(" and ");
        let (kept, takes) = (humanize::span(self.retention), text::duration(self.takes));
        let message = format!("retention of {stages} is {kept}, and the backlog may take {takes}");
        if self.of_engine {
            return Failure::new(Exit::CONFIG, message).advise(
                "SQS would delete jobs that still wait: raise MessageRetentionPeriod of their queues, at most 14 days",
            );
        }
        let what = "done jobs would be forgotten before the end, and items enqueued again be done again";
        Failure::new(Exit::CONFIG, message).advise(match self.enough_days() {
            Some(days) => format!("set retention = \"{days}d\" or longer: {what}"),
            None => "raise the limit: no retention is long enough".to_owned(),
        })
    }
}
