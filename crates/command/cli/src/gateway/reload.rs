//! Applies changes of the config file while the gateway serves.

use tokio::sync::mpsc;
use tollway::StoreUrl;
use tollway_config::{ConfigFile, WATCH_INTERVAL};
use tollway_gateway::Gateway;
use tollway_server::{ServerConfig, needs_restart};

use crate::context::WholeConfig;

/// Capacity of the channel for changed configs: the watch is slower than that.
const READINGS_MAX: usize = 4;

/// Applies changes. Never returns.
pub(super) async fn follow_changes(
    gateway: &Gateway,
    file: Option<ConfigFile<WholeConfig>>,
    over: impl Fn(ServerConfig) -> ServerConfig,
) {
    let Some(file) = file else { return std::future::pending().await };
    let listener =
        |config: &WholeConfig| over(config.gateway().cloned().unwrap_or_else(ServerConfig::gateway));
    let in_force = listener(file.config());
    let store = file.config().limits().store().map(StoreUrl::connection_url);
    let (send, mut readings) = mpsc::channel(READINGS_MAX);
    // The watch runs in its own thread until dropped.
    let _watch = file.watch(WATCH_INTERVAL, move |reading| drop(send.try_send(reading)));
    while let Some(reading) = readings.recv().await {
        let applied = reading.map_err(|error| error.to_string()).and_then(|config| {
            if config.limits().store().map(StoreUrl::connection_url) != store {
                return Err(
                    "the store has changed, or its password; restart the gateway to apply it".to_owned()
                );
            }
            let listener = listener(&config);
            gateway.reload(config.limits(), &listener).map_err(|error| error.to_string())?;
            Ok(listener)
        });
        match applied {
            Ok(read) => {
                for key in needs_restart(&in_force, &read) {
                    tracing::warn!("`{key}` of [gateway] has changed; restart the gateway to apply it");
                }
                tracing::info!("config file reloaded");
            }
            Err(why) => {
                tracing::error!("invalid config file; keeping the previous config: {why}");
                gateway.limiter().config_is_wrong(why);
            }
        }
    }
    std::future::pending().await
}
