//! The outcome of every document, from the file of the pipeline and the vendor's own log.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tollway_pipeline::State;

use super::documents::{STAGES, number, stage_index};
use super::pipeline::JobRecords;
use super::tally::ServedCalls;

/// The outcome of the documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Audit {
    /// Documents whose last stage is committed, and for which the vendor served a call in each stage.
    pub(super) done: u64,
    /// Documents that are dead letters.
    pub(super) dead: u64,
    /// Documents that still wait or run, because the demo was interrupted.
    pub(super) open: u64,
    /// Documents that are none of these.
    pub(super) lost: u64,
    /// Completions beyond the first one of a document in a stage.
    pub(super) committed_twice: u64,
    /// All completions.
    pub(super) completions: u64,
}

/// Follows every document from 1 to `documents`.
pub(super) fn audit(documents: u64, records: &JobRecords, served: &ServedCalls) -> Audit {
    let mut completed: BTreeMap<(usize, u64), u64> = BTreeMap::new();
    for (stage, result) in &records.completions {
        if let Some(document) = number(&result.key) {
            *completed.entry((*stage, document)).or_default() += 1;
        }
    }
    let in_state = |is: fn(State) -> bool| -> BTreeSet<u64> {
        let jobs =
            records.jobs.iter().filter(|job| stage_index(job.stage.as_str()).is_some() && is(job.state));
        jobs.filter_map(|job| number(&job.key)).collect()
    };
    let dead = in_state(|state| state == State::Dead);
    let open = in_state(|state| !state.has_left() && state != State::Dead);
    let mut audit = Audit {
        completions: records.completions.len() as u64,
        committed_twice: completed.values().map(|times| times - 1).sum(),
        ..Audit::default()
    };
    for document in 1..=documents {
        let is_done = completed.contains_key(&(STAGES.len() - 1, document))
            && (0..STAGES.len()).all(|stage| served.of(stage, document) > 0);
        match () {
            () if is_done => audit.done += 1,
            () if dead.contains(&document) => audit.dead += 1,
            () if open.contains(&document) => audit.open += 1,
            () => audit.lost += 1,
        }
    }
    audit
}

#[cfg(test)]
mod tests {
    use tollway::Timestamp;
    use tollway::core::Name;
    use tollway_pipeline::{Job, JobCost, JobId, JobResult};

    use super::*;
    use crate::demo::documents::name;

    const AT: Timestamp = Timestamp::from_secs(1_800_000_000);

    fn job(stage: usize, document: u64, state: State) -> Job {
        Job {
            id: JobId::new(document),
            stage: Name::new(STAGES[stage]).unwrap(),
            key: key(stage, document),
            group: None,
            data: "{}".to_owned(),
            priority: 0,
            cost: JobCost::OF_STAGE,
            state,
            due_at: AT,
            claim_number: 1,
            worker: String::new(),
            failures: 0,
            crashes: 0,
            rate_limited: 0,
            error: String::new(),
            created_at: AT,
            changed_at: AT,
        }
    }

    fn key(stage: usize, document: u64) -> String {
        name(document) + if stage == 0 { "" } else { ">autotag.0" }
    }

    fn completion(stage: usize, document: u64) -> (usize, JobResult) {
        let key = key(stage, document);
        let job = JobId::new(document);
        (stage, JobResult { job, key, group: None, number: 1, finished_at: AT, outputs: 1, result: None })
    }

    /// Document 1 is done, 2 a dead letter, 3 waits in the second stage, 4 was handed on and is nowhere, 5 was never kept.
    #[test]
    fn every_document_is_accounted_for() {
        let states = [(0, 1, State::Done), (1, 1, State::Done), (0, 2, State::Done), (1, 2, State::Dead)];
        let more = [(0, 3, State::Done), (1, 3, State::Ready), (0, 4, State::Done)];
        let records = JobRecords {
            jobs: states
                .into_iter()
                .chain(more)
                .map(|(stage, document, state)| job(stage, document, state))
                .collect(),
            completions: vec![
                completion(0, 1),
                completion(1, 1),
                completion(0, 2),
                completion(0, 3),
                completion(0, 4),
            ],
        };
        let mut served = ServedCalls::default();
        for document in 1..=4 {
            served.add(0, document);
        }
        served.add(1, 1);
        let found = audit(5, &records, &served);
        let wanted = Audit { done: 1, dead: 1, open: 1, lost: 2, committed_twice: 0, completions: 5 };
        assert_eq!(found, wanted);
    }

    #[test]
    fn second_completion_of_a_document_is_counted() {
        let completions =
            vec![completion(0, 1), completion(0, 1), completion(1, 1), completion(1, 1), completion(1, 1)];
        let records = JobRecords { jobs: Vec::new(), completions };
        assert_eq!(audit(1, &records, &ServedCalls::default()).committed_twice, 3);
    }

    /// A completion that the vendor knows nothing of is not believed.
    #[test]
    fn completion_without_a_call_is_not_done() {
        let records = JobRecords { jobs: Vec::new(), completions: vec![completion(0, 1), completion(1, 1)] };
        let mut served = ServedCalls::default();
        served.add(0, 1);
        assert_eq!((audit(1, &records, &served).done, audit(1, &records, &served).lost), (0, 1));
        served.add(1, 1);
        assert_eq!(audit(1, &records, &served).done, 1);
    }
}
