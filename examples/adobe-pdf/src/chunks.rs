//! Makes PDFs, cuts them into chunks, and says what AutoTag has to do.

use tollway::Timestamp;
use tollway_pipeline::documents::AutotagMessage;

use crate::BoxError;
use crate::files::{FileError, Files};
use crate::messages::Keys;
use crate::pdf;

/// The most chunks of a PDF.
const CHUNKS_MAX: usize = 7;

/// How many chunks the PDF of this number has: 1 to 7, 4 on average, like a million chunks of 250,000 PDFs.
pub(crate) fn chunks_of(number: usize) -> usize {
    number * 5 % CHUNKS_MAX + 1
}

/// Writes this many PDFs and their chunks. The messages of each PDF are together.
pub(crate) async fn make(
    files: &Files,
    pdfs: usize,
    now: Timestamp,
) -> Result<Vec<Vec<AutotagMessage>>, BoxError> {
    let mut messages = Vec::new();
    for number in 1..=pdfs {
        messages.push(make_one(files, number, now).await.map_err(|error| format!("{error:?}"))?);
    }
    Ok(messages)
}

async fn make_one(files: &Files, number: usize, now: Timestamp) -> Result<Vec<AutotagMessage>, FileError> {
    let job_id = format!("job-{number:03}");
    let (bucket, original_file_key) = (files.bucket(), format!("uploads/{job_id}/original.pdf"));
    let keys = Keys::of_original(&original_file_key).map_err(FileError::Missing)?;
    let chunks = 1..=chunks_of(number);
    let titles: Vec<String> = chunks.clone().map(|chunk| format!("Chapter {chunk} of {job_id}")).collect();
    files.write(bucket, &original_file_key, pdf::with_lines(&titles)).await?;
    let mut messages = Vec::new();
    for (chunk, title) in chunks.zip(titles) {
        let chunk_key = keys.chunk(&format!("chunk_{chunk:03}"));
        let lines = [title, "A paragraph.".to_owned(), format!("Figure: {job_id}-{chunk}")];
        files.write(bucket, &chunk_key, pdf::with_lines(&lines)).await?;
        messages.push(AutotagMessage {
            bucket: bucket.to_owned(),
            chunk_key,
            original_file_key: original_file_key.clone(),
            job_id: job_id.clone(),
            timestamp: now,
        });
    }
    Ok(messages)
}
