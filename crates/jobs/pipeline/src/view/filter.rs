//! Which jobs, as operators name them.

use serde::{Deserialize, Serialize};
use tollway_core::Name;

use super::ViewError;
use super::stages::known_stage;
use crate::bounds::PAGE_MAX;
use crate::{Administration, EngineError, Filter, Job, JobId, PipelineConfig, State};

/// Which jobs. Several fields match jobs that fit all of them; without any, every job matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobFilter {
    /// The job with this number.
    pub id: Option<u64>,
    /// Jobs with this key, in any stage.
    pub key: Option<String>,
    /// Jobs of this stage.
    pub stage: Option<String>,
    /// Jobs of this group.
    pub group: Option<String>,
    /// Jobs whose last error contains this text, in upper or lower case.
    pub error: Option<String>,
}

impl JobFilter {
    /// Whether every job matches.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it takes whole stages: no field looks at single jobs.
    pub fn takes_whole_stages(&self) -> bool {
        Self { stage: None, ..self.clone() }.is_empty()
    }

    /// The one job that it names, as text.
    pub fn one_job(&self) -> Option<String> {
        self.id.map(|id| id.to_string()).or_else(|| self.key.clone())
    }

    /// The engine's filter, for jobs in this state only if one is given. The stage must be in the config, or have jobs.
    pub async fn check(
        &self,
        state: Option<State>,
        config: &PipelineConfig,
        engine: &dyn Administration,
    ) -> Result<Filter, ViewError> {
        let stage: Option<Name> = match &self.stage {
            Some(name) => Some(known_stage(config, engine, name).await?),
            None => None,
        };
        let Self { id, key, group, error, .. } = self.clone();
        Ok(Filter { job: id.map(JobId::new), stage, state, group, key, error })
    }
}

/// The jobs that match, page by page, so that workers get their turn in between.
#[derive(Debug)]
pub struct JobPages {
    filter: Filter,
    after: Option<JobId>,
    is_last: bool,
}

impl JobPages {
    /// From the oldest on.
    pub fn new(filter: Filter) -> Self {
        Self { filter, after: None, is_last: false }
    }

    /// The next page, which may be empty. None: there are no more.
    pub async fn next(&mut self, engine: &dyn Administration) -> Result<Option<Vec<Job>>, EngineError> {
        if self.is_last {
            return Ok(None);
        }
        let found = engine.scan(self.filter.clone(), self.after, PAGE_MAX).await?;
        self.after = found.next;
        self.is_last = found.next.is_none();
        Ok(Some(found.items))
    }
}
