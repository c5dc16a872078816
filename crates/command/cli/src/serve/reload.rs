//! Reloads the config file at runtime: when it changes, and on SIGHUP.

use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tollway::StoreUrl;
use tollway_config::{ConfigFile, WATCH_INTERVAL};
use tollway_consumers::RecordsUrl;
use tollway_dashboard::Dashboard;
use tollway_server::{Server, ServerConfig};

use super::dashboard::show_pipelines;
use crate::context::WholeConfig;

/// Capacity of the channel for changed configs: the watch is slower than that.
const READINGS_MAX: usize = 4;

/// Applies changes. `fixed` lists changed keys of `[server]` that need a restart. Never returns.
pub(super) async fn follow_changes(
    server: &Server,
    dashboard: Option<&Dashboard>,
    file: Option<ConfigFile<WholeConfig>>,
    fixed: impl Fn(ServerConfig) -> Vec<&'static str>,
    hangups: &mut Signal,
) {
    match file {
        Some(file) => follow_file(server, dashboard, file, fixed, hangups).await,
        None => loop {
            // Without a handler, SIGHUP would end the process.
            hangups.recv().await;
            tracing::warn!("SIGHUP: no config file to reload");
        },
    }
}

async fn follow_file(
    server: &Server,
    dashboard: Option<&Dashboard>,
    file: ConfigFile<WholeConfig>,
    fixed: impl Fn(ServerConfig) -> Vec<&'static str>,
    hangups: &mut Signal,
) {
    let path = file.path().to_owned();
    let storage = StorageUrls::of(file.config());
    let (send, mut readings) = mpsc::channel(READINGS_MAX);
    // The watch runs in its own thread until dropped.
    let _watch = file.watch(WATCH_INTERVAL, move |reading| drop(send.try_send(reading)));
    loop {
        let reading = tokio::select! {
            Some(reading) = readings.recv() => reading,
            // Also if the file is unchanged: a token or certificate that it names may have changed.
            _ = hangups.recv() => WholeConfig::load(&path),
        };
        let taken = reading.map_err(|error| error.to_string());
        match taken.and_then(|config| apply(server, &config, &storage).map(|()| config)) {
            Ok(config) => {
                let needs_restart = fixed(config.server().cloned().unwrap_or_default());
                if let Some(dashboard) = dashboard {
                    show_pipelines(dashboard, &config);
                }
                log_reload(&needs_restart);
            }
            Err(why) => {
                tracing::error!("invalid config file; keeping the previous config: {why}");
                server.limiter().config_is_wrong(why);
            }
        }
    }
}

fn log_reload(needs_restart: &[&str]) {
    for key in needs_restart {
        tracing::warn!("`{key}` of [server] has changed; restart the server to apply it");
    }
    let except = if needs_restart.is_empty() { "" } else { ", except keys that need a restart" };
    tracing::info!("config file reloaded{except}");
}

/// Applies all of the config or, on an error, nothing.
fn apply(server: &Server, config: &WholeConfig, storage: &StorageUrls) -> Result<(), String> {
    if StorageUrls::of(config) != *storage {
        return Err(
            "the store or the consumer records have changed, or a password of theirs; restart the server to apply it".to_owned()
        );
    }
    server.reload(config).map_err(|error| error.to_string())
}

/// The URLs of store and records, with their passwords, which may be kept in other files. A config that changes them is rejected as a whole.
#[derive(PartialEq)]
struct StorageUrls {
    store: Option<Result<String, String>>,
    records: Option<Result<String, String>>,
}

impl StorageUrls {
    fn of(config: &WholeConfig) -> Self {
        let url = |records: &RecordsUrl| records.connection_url().map_err(|error| error.to_string());
        let records = config.consumers().map(|consumers| url(&consumers.records));
        Self { store: config.limits().store().map(StoreUrl::connection_url), records }
    }
}
