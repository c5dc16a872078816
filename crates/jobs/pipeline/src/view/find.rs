//! Finds jobs by their number or key.

use super::ViewError;
use crate::{Administration, Filter, Job, JobId, State};

/// How many jobs of one key are found: a key can be in every stage.
const FOUND_MAX: usize = 20;

/// The job of this number, or else all with this key.
pub async fn find(engine: &dyn Administration, id_or_key: &str) -> Result<Vec<Job>, ViewError> {
    if let Ok(id) = id_or_key.parse() {
        let filter = Filter { job: Some(JobId::new(id)), ..Filter::default() };
        let found = engine.scan(filter, None, 1).await?.items;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let filter = Filter { key: Some(id_or_key.to_owned()), ..Filter::default() };
    let found = engine.scan(filter, None, FOUND_MAX).await?.items;
    match found.is_empty() {
        false => Ok(found),
        true => Err(ViewError::not_found(
            format!("there is no job with the number or key {id_or_key:?}"),
            "done jobs are forgotten after their stage's retention; is it another pipeline's?",
        )),
    }
}

/// The dead letter of this number or key.
pub async fn find_dead(engine: &dyn Administration, id_or_key: &str) -> Result<Job, ViewError> {
    only_dead(find(engine, id_or_key).await?, id_or_key)
}

/// The only one of these jobs that is a dead letter.
pub fn only_dead(mut found: Vec<Job>, id_or_key: &str) -> Result<Job, ViewError> {
    let states = states_of(&found);
    found.retain(|job| job.state == State::Dead);
    match (found.pop(), found.is_empty()) {
        (Some(job), true) => Ok(job),
        (Some(_), false) => Err(ViewError::Ambiguous {
            message: format!("several dead letters have the key {id_or_key:?}"),
            advice: "give the number; `tollway pipeline dead list --key KEY` shows it".to_owned(),
        }),
        (None, _) => Err(ViewError::refused(
            format!("{id_or_key:?} is no dead letter: {states}"),
            "`tollway pipeline why` explains a job in any state",
        )),
    }
}

/// `ready in extract, done in autotag`.
pub fn states_of(jobs: &[Job]) -> String {
    let one = |job: &Job| format!("{} in {}", job.state, job.stage);
    jobs.iter().map(one).collect::<Vec<_>>().join(", ")
}
