//! The workers in Rust. `worker.py` has the same three in Python.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tollway::Clock;
use tollway_pipeline::documents::{AutotagMessage, ExtractMessage};
use tollway_pipeline::handler::{Answer, Handed, Handler, Task, handler_fn};

use crate::adobe::{Adobe, Failure};
use crate::files::{FileError, Files};
use crate::messages::{FinishMessage, Keys};

/// What workers share.
#[derive(Clone)]
pub(crate) struct Workers {
    pub(crate) files: Files,
    pub(crate) adobe: Adobe,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Workers {
    /// The worker of a stage, if there is one.
    pub(crate) fn handler(&self, stage: &str) -> Option<Handler> {
        let workers = self.clone();
        Some(match stage {
            "autotag" => handler_fn(move |task| answered(workers.clone(), task, Self::autotag)),
            "extract" => handler_fn(move |task| answered(workers.clone(), task, Self::extract)),
            "finish" => handler_fn(move |task| answered(workers.clone(), task, Self::finish)),
            _ => return None,
        })
    }

    async fn autotag(self, task: Task) -> Result<Answer, Failure> {
        let message: AutotagMessage = read(&task)?;
        let (keys, name) = Keys::of_chunk(&message.chunk_key).map_err(dead)?;
        let autotagged_key = keys.autotagged(name);
        let chunk = self.files.read(&message.bucket, &message.chunk_key).await?;
        let tagged = self.adobe.operate("autotag", "tagged-pdf", chunk, &task.turn).await?;
        self.files.write(&message.bucket, &autotagged_key, tagged).await?;
        let handed = message.extract(autotagged_key, self.clock.now());
        Ok(Answer::hands_on([json_text(&handed)?]))
    }

    async fn extract(self, task: Task) -> Result<Answer, Failure> {
        let message: ExtractMessage = read(&task)?;
        let (keys, name) = Keys::of_chunk(&message.chunk_key).map_err(dead)?;
        let extracted_key = keys.extracted(name);
        let tagged = self.files.read(&message.bucket, &message.autotagged_key).await?;
        let extracted = self.adobe.operate("extractpdf", "content", tagged, &task.turn).await?;
        self.files.write(&message.bucket, &extracted_key, extracted).await?;
        let handed = FinishMessage {
            bucket: message.bucket,
            original_file_key: message.original_file_key,
            job_id: message.job_id,
        };
        // The outputs of all chunks of a PDF are one job.
        let join = Some(handed.job_id.clone());
        let outputs = vec![Handed { join, ..Handed::new(json_text(&handed)?) }];
        Ok(Answer::Done { outputs, result: None, cost: [].into() })
    }

    /// Once for each PDF: its table of contents and its images, out of all chunks.
    async fn finish(self, task: Task) -> Result<Answer, Failure> {
        let message: FinishMessage = read(&task)?;
        let keys = Keys::of_original(&message.original_file_key).map_err(dead)?;
        let (mut toc, mut images) = (Vec::new(), Vec::new());
        let names = self.files.names(&message.bucket, &keys.chunks()).await?;
        let chunks: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".pdf")).collect();
        for chunk in &chunks {
            let extracted = self.files.read(&message.bucket, &keys.extracted(chunk)).await?;
            let extracted: Value = serde_json::from_slice(&extracted).unwrap_or_default();
            for element in extracted["elements"].as_array().into_iter().flatten() {
                match element["Path"].as_str() {
                    Some("//Document/H1") => toc.push(json!({ "chunk": chunk, "title": element["Text"] })),
                    Some("//Document/Figure") => images.push(element["filePaths"][0].clone()),
                    _ => {}
                }
            }
        }
        let result =
            json!({ "job_id": message.job_id, "chunks": chunks.len(), "toc": toc, "images": images });
        self.files.write(&message.bucket, &keys.result(), result.to_string().into_bytes()).await?;
        Ok(Answer::done())
    }
}

async fn answered<F>(workers: Workers, task: Task, work: impl FnOnce(Workers, Task) -> F) -> Answer
where
    F: Future<Output = Result<Answer, Failure>>,
{
    work(workers, task).await.unwrap_or_else(|failure| *failure)
}

fn read<T: DeserializeOwned>(task: &Task) -> Result<T, Failure> {
    serde_json::from_str(&task.job.data)
        .map_err(|error| dead(format!("not a message of this stage: {error}")))
}

fn json_text(message: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(message).map_err(|error| dead(error.to_string()))
}

fn dead(error: String) -> Failure {
    Box::new(Answer::dead(error))
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::new(match error {
            FileError::Missing(error) => Answer::dead(error),
            FileError::Failed(error) => Answer::retry(error),
        })
    }
}
