//! The handler process of `tollway pipeline run`: answers every job at once.

use std::io::{BufRead, Write};

use anyhow::{Context, Result};
use serde::Deserialize;

#[derive(Deserialize)]
struct Line {
    job: Job,
}

#[derive(Deserialize)]
struct Job {
    id: u64,
    stage: String,
}

/// Reads jobs from standard input, one JSON object a line, until it ends.
pub(crate) fn answer_jobs() -> Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Line { job: Job { id, stage } } =
            serde_json::from_str(&line?).context("a line of the pipeline")?;
        let outputs = if stage == super::ours::FIRST { r#"[{"data":{}}]"# } else { "[]" };
        writeln!(output, r#"{{"done":{id},"outputs":{outputs}}}"#)?;
        output.flush()?;
    }
    Ok(())
}
