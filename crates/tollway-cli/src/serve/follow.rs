//! Changes while the server runs: of the config file, seen by themselves or announced with SIGHUP.

use std::sync::Arc;

use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tollway::{Config, ConfigError, ConfigFile, Policy, RecordsUrl, StoreUrl, WATCH_INTERVAL};
use tollway_server::Server;

use super::setup::Follows;

/// Readings of the file that wait to be taken over: the watch is slower than that.
const READINGS_MAX: usize = 4;

/// Takes over what changes. Never ends.
pub(super) async fn follow(server: &Server, file: ConfigFile, follows: Follows, asked: &mut Signal) {
    let path = file.path().to_owned();
    let fixed = Fixed::of(file.config());
    let (send, mut readings) = mpsc::channel(READINGS_MAX);
    // The watch has a thread of its own, and ends when it is dropped.
    let _watch = file.watch(WATCH_INTERVAL, move |reading| drop(send.try_send(reading)));
    loop {
        let (reading, at_once) = tokio::select! {
            Some(reading) = readings.recv() => (reading, false),
            _ = asked.recv() => (Config::load(&path), true),
        };
        take_over(server, reading, &fixed, follows == Follows::Command || at_once);
    }
}

/// What a change of the file cannot change.
#[derive(PartialEq)]
struct Fixed {
    store: Option<StoreUrl>,
    records: Option<RecordsUrl>,
}

impl Fixed {
    fn of(config: &Config) -> Self {
        let records = config.consumers().map(|consumers| consumers.records.clone());
        Self { store: config.store().cloned(), records }
    }
}

/// A file that is wrong changes nothing.
fn take_over(server: &Server, reading: Result<Config, ConfigError>, fixed: &Fixed, policies: bool) {
    let config = match reading {
        Ok(config) => config,
        Err(error) => {
            return tracing::error!("the config file is wrong, and the old one stays in force: {error}");
        }
    };
    if Fixed::of(&config) != *fixed {
        return tracing::error!(
            "the store or the records of consumers have changed; that needs a restart, the old file stays in force"
        );
    }
    if let Some(Err(error)) = config.consumers().map(|consumers| server.reload_consumers(consumers)) {
        return tracing::error!("{error}; it stays as it was");
    }
    if let Err(error) = server.reload(&config.server().cloned().unwrap_or_default()) {
        return tracing::error!("[server] stays as it was: {error}");
    }
    let given = config.policies().iter().map(|policy: &Arc<Policy>| Policy::clone(policy));
    if policies && let Err(error) = server.limiter().replace_policies(given) {
        tracing::error!("the policies stay as they were: {error}");
    }
}
