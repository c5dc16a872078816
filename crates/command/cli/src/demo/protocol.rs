//! The lines between a pipeline and a worker, as the workers of the demo use them: one JSON object a line.

use serde::{Deserialize, Serialize};

use super::documents::Document;

/// What a worker reads.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Input {
    /// A job to do.
    Job(Job),
    /// The call of this job may go out.
    Go(u64),
}

/// A job. A pipeline sends more fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) stage: String,
    pub(super) data: Document,
}

/// What a worker says about the job with this id.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum WorkerMessage {
    /// It is about to call the vendor.
    Begin {
        /// The job.
        begin: u64,
    },
    /// It is done.
    Done {
        /// The job.
        done: u64,
        /// What it hands on.
        outputs: Vec<Output>,
    },
    /// It failed.
    Retry {
        /// The job.
        retry: u64,
        /// Why.
        error: String,
    },
    /// The vendor refused the call.
    RateLimited {
        /// The job.
        rate_limited: u64,
        /// Seconds until a retry may succeed.
        after: u64,
    },
}

/// What a job hands on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Output {
    pub(super) data: Document,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_pipeline_are_read() {
        let line = r#"{"job":{"id":7,"key":"doc-0001","stage":"autotag","try":1,"deadline":1.5,"data":{"document":"doc-0001","page_size":"A4"}}}"#;
        let Ok(Input::Job(job)) = serde_json::from_str(line) else { panic!("{line}") };
        assert_eq!((job.id, job.stage.as_str(), job.data), (7, "autotag", Document::new(1, 500)));
        assert!(matches!(serde_json::from_str(r#"{"go":7}"#), Ok(Input::Go(7))));
    }

    #[test]
    fn answers_are_those_of_the_protocol() {
        let text = |said| serde_json::to_string(&said).unwrap();
        assert_eq!(text(WorkerMessage::Begin { begin: 7 }), r#"{"begin":7}"#);
        assert_eq!(text(WorkerMessage::Retry { retry: 7, error: "e".into() }), r#"{"retry":7,"error":"e"}"#);
        assert_eq!(
            text(WorkerMessage::RateLimited { rate_limited: 7, after: 3 }),
            r#"{"rate_limited":7,"after":3}"#
        );
        let done = WorkerMessage::Done { done: 7, outputs: vec![Output { data: Document::new(1, 500) }] };
        assert_eq!(text(done), r#"{"done":7,"outputs":[{"data":{"document":"doc-0001","page_size":"A4"}}]}"#);
    }
}
