//! A changed config file, and SIGHUP, while a pipeline runs.

use std::path::PathBuf;

use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tollway::{ConfigError, Limiter};
use tollway_config::{ConfigFile, ConfigWatch, WATCH_INTERVAL};
use tollway_pipeline::run::Runner;
use tollway_pipeline::{EngineUrl, PipelineConfig};
use tollway_server::ServerConfig;

use super::super::session::Which;
use crate::context::WholeConfig;

/// Capacity of the channel for changed configs: the watch is slower than that.
const READINGS_MAX: usize = 4;

/// Follows the config file.
pub(super) struct Follower<'a> {
    which: &'a Which,
    path: PathBuf,
    /// The engine with its password, which may be kept in another file.
    engine: Result<String, String>,
    /// The section of the listener, which stays as it is.
    server: ServerConfig,
    readings: mpsc::Receiver<Result<WholeConfig, ConfigError>>,
    /// Watches in its own thread until dropped; none if there is no thread to be had.
    _watch: Option<ConfigWatch>,
}

impl<'a> Follower<'a> {
    pub(super) fn new(file: ConfigFile<WholeConfig>, which: &'a Which, engine: &EngineUrl) -> Self {
        let path = file.path().to_owned();
        let server = file.config().server().cloned().unwrap_or_default();
        let (send, readings) = mpsc::channel(READINGS_MAX);
        let watch = file.watch(WATCH_INTERVAL, move |reading| drop(send.try_send(reading)));
        if let Err(error) = &watch {
            tracing::warn!("the config file is not watched, and only SIGHUP reloads it: {error}");
        }
        Self { which, path, engine: engine.connection_url(), server, readings, _watch: watch.ok() }
    }

    /// Waits for a changed file, or for SIGHUP.
    pub(super) async fn next(&mut self, hangups: &mut Signal) -> Result<WholeConfig, ConfigError> {
        tokio::select! {
            Some(reading) = self.readings.recv() => reading,
            // Also if the file is unchanged: handlers may have changed.
            _ = hangups.recv() => WholeConfig::load(&self.path),
        }
    }

    /// Goes on with the new config, or with the old one if it is wrong. Answers with the config in force, if it is new.
    pub(super) async fn apply(
        &self,
        reading: Result<WholeConfig, ConfigError>,
        runner: &Runner,
        limiter: &Limiter,
        engine: &EngineUrl,
    ) -> Option<PipelineConfig> {
        match self.try_apply(reading, runner, limiter, engine).await {
            Ok(config) => {
                tracing::info!("config reloaded; new jobs go to freshly started handlers");
                Some(config)
            }
            Err(error) => {
                tracing::error!("the config is not reloaded, and the previous one stays in force: {error}");
                limiter.config_is_wrong(error);
                None
            }
        }
    }

    async fn try_apply(
        &self,
        reading: Result<WholeConfig, ConfigError>,
        runner: &Runner,
        limiter: &Limiter,
        engine: &EngineUrl,
    ) -> Result<PipelineConfig, String> {
        let config = reading.map_err(|error| error.to_string())?;
        let pipeline = self.which.find(config.pipelines()).map_err(|failure| failure.message().to_owned())?;
        if pipeline.engine != *engine {
            return Err("the pipeline's engine has changed: restart it to apply that".to_owned());
        }
        if pipeline.engine.connection_url() != self.engine {
            return Err("the engine's password has changed: restart the pipeline to apply that".to_owned());
        }
        runner.reload(pipeline).await.map_err(|error| error.to_string())?;
        limiter.replace_config(config.limits());
        if config.server().cloned().unwrap_or_default() != self.server {
            tracing::warn!(
                "[server] has changed; restart the pipeline to apply it to its metrics and its dashboard"
            );
        }
        Ok(pipeline.clone())
    }
}
