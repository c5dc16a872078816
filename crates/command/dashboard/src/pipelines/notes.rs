//! The log of changes: its lines say which jobs, and what the page of the pipeline shows does not.

use std::fmt::Display;
use std::sync::Arc;

use tollway_pipeline::EngineError;
use tollway_server::Change;

use super::source::Pipeline;
use crate::CHANGES_TARGET;
use crate::answer::Problem;
use crate::dashboard::Shared;
use crate::handler::Asked;

/// Notes the changes of one operator to one pipeline.
pub(super) struct ChangeNotes {
    pub(super) shared: Arc<Shared>,
    pub(super) pipeline: Arc<Pipeline>,
    who: String,
}

impl ChangeNotes {
    pub(super) fn of(shared: &Arc<Shared>, pipeline: &Arc<Pipeline>, asked: &Asked) -> Self {
        Self {
            shared: Arc::clone(shared),
            pipeline: Arc::clone(pipeline),
            who: asked.administrator.to_string(),
        }
    }

    /// Logs that a change of jobs begins. Their filter may have keys, groups and errors, so that the page does not show it.
    pub(super) fn begins(&self, what: &str, filter: &str, jobs: u64) {
        let (who, pipeline) = (&self.who, self.pipeline.name());
        tracing::info!(target: CHANGES_TARGET, by = %who, pipeline, what, filter, jobs, "a change of jobs begins");
    }

    /// A change that was made.
    pub(super) fn made(&self, what: &str, from: &str, to: &str) {
        let (who, pipeline) = (&self.who, self.pipeline.name());
        tracing::info!(target: CHANGES_TARGET, by = %who, pipeline, what, from, to, "a pipeline was changed");
        self.keep(what, from, to);
    }

    /// A change that failed: the first of its parts may have been made. The page does not show the error.
    pub(super) fn failed(&self, what: &str, from: &str, to: &str, error: &dyn Display) {
        let (who, pipeline) = (&self.who, self.pipeline.name());
        tracing::warn!(
            target: CHANGES_TARGET, by = %who, pipeline, what, from, to, %error,
            "a change of a pipeline failed, perhaps after a part of it"
        );
        self.keep(what, from, &format!("{to}, then failed"));
    }

    /// Notes how a change ended.
    pub(super) fn ended<T>(
        &self,
        what: &str,
        from: &str,
        to: &str,
        ended: Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        match &ended {
            Ok(_) => self.made(what, from, to),
            Err(error) => self.failed(what, from, to, error),
        }
        ended
    }

    fn keep(&self, what: &str, from: &str, to: &str) {
        self.shared.changes.note(Change {
            at: self.shared.now(),
            who: self.who.clone(),
            target: self.pipeline.name().to_owned(),
            what: what.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
        });
    }
}

/// Makes a change and notes it in a task of its own: both happen also if the client closes its connection.
pub(super) async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    tokio::spawn(change).await.unwrap_or_else(|error| Err(Problem::failed(error.to_string())))
}
