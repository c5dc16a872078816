//! Whether a process runs the pipeline of a command.

use tollway_pipeline::{EngineUrl, PipelineConfig, SocketEngine};

/// Whether another process runs this pipeline. None: its engine cannot tell, because any machine may.
pub(super) fn another_process_runs(config: &PipelineConfig) -> Option<bool> {
    match &config.engine {
        EngineUrl::Sqlite(file) => Some(SocketEngine::is_served(file)),
        EngineUrl::Postgres(_) | EngineUrl::Sqs(_) => None,
    }
}
