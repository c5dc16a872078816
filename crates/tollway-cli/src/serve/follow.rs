//! Changes while the server runs: of the config file, seen by themselves or announced with SIGHUP.

use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tollway::StoreUrl;
use tollway_config::{ConfigFile, WATCH_INTERVAL};
use tollway_consumers::RecordsUrl;
use tollway_server::{Server, ServerConfig};

use crate::context::WholeConfig;

/// Readings of the file that wait to be taken over: the watch is slower than that.
const READINGS_MAX: usize = 4;

/// Takes over what changes; `fixed` names what has changed of `[server]` and stays as it was. Never ends.
pub(super) async fn follow(
    server: &Server,
    file: Option<ConfigFile<WholeConfig>>,
    fixed: impl Fn(ServerConfig) -> Vec<&'static str>,
    asked: &mut Signal,
) {
    match file {
        Some(file) => follow_file(server, file, fixed, asked).await,
        None => loop {
            // Unheard, it would end the process.
            asked.recv().await;
            tracing::warn!("SIGHUP: there is no config file, so nothing is read again");
        },
    }
}

async fn follow_file(
    server: &Server,
    file: ConfigFile<WholeConfig>,
    fixed: impl Fn(ServerConfig) -> Vec<&'static str>,
    asked: &mut Signal,
) {
    let path = file.path().to_owned();
    let places = Places::of(file.config());
    let (send, mut readings) = mpsc::channel(READINGS_MAX);
    // The watch has a thread of its own, and ends when it is dropped.
    let _watch = file.watch(WATCH_INTERVAL, move |reading| drop(send.try_send(reading)));
    loop {
        let reading = tokio::select! {
            Some(reading) = readings.recv() => reading,
            // Also where the file is as it was: what it names may have changed, like a token or a certificate.
            _ = asked.recv() => WholeConfig::load(&path),
        };
        let taken = reading.map_err(|error| error.to_string());
        match taken.and_then(|config| take_over(server, &config, &places).map(|()| config)) {
            Ok(config) => say_in_force(&fixed(config.server().cloned().unwrap_or_default())),
            Err(why) => {
                tracing::error!("the config file cannot be used, and the old one stays in force: {why}");
                server.limiter().config_is_wrong(why);
            }
        }
    }
}

fn say_in_force(but_for: &[&str]) {
    for key in but_for {
        tracing::warn!("`{key}` of [server] has changed: it needs a restart, and is what it was until then");
    }
    let all = if but_for.is_empty() { "" } else { ", all but that" };
    tracing::info!("the config file was read again and is in force{all}");
}

/// All of it, or nothing.
fn take_over(server: &Server, config: &WholeConfig, places: &Places) -> Result<(), String> {
    if Places::of(config) != *places {
        return Err("the store or the records of consumers have changed, which needs a restart".to_owned());
    }
    server.reload(config).map_err(|error| error.to_string())
}

/// Where meters and records are. A file that changes it is refused whole.
#[derive(PartialEq)]
struct Places {
    store: Option<StoreUrl>,
    records: Option<RecordsUrl>,
}

impl Places {
    fn of(config: &WholeConfig) -> Self {
        let records = config.consumers().map(|consumers| consumers.records.clone());
        Self { store: config.limits().store().cloned(), records }
    }
}
