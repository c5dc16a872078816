//! `/metrics` of a running pipeline, for Prometheus: served like those of `tollway serve`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tollway::Limiter;
use tollway_pipeline::PipelineConfig;
use tollway_pipeline::run::{Runner, metrics};
use tollway_server::{ListenAddress, Listeners, ProgramSamples, ServeError, Server, ServerConfig};

use crate::failure::{Exit, Failure};

/// How long a scrape waits for the engine: shorter than scrapers wait.
const PROGRESS_WITHIN: Duration = Duration::from_secs(5);

/// How long to wait for the last scrape at the end.
const LAST_SCRAPE_WITHIN: Duration = Duration::from_secs(2);

/// Serves until it is dropped.
pub(super) struct Serving {
    _stop: oneshot::Sender<()>,
}

/// `server` has the tokens that other machines need.
pub(super) async fn serve(
    address: SocketAddr,
    server: &ServerConfig,
    config: &PipelineConfig,
    runner: &Arc<Runner>,
    limiter: Limiter,
) -> Result<Serving, Failure> {
    let samples = samples(config.name.to_string(), runner);
    let server = Server::for_program(limiter, server, address, samples)?;
    let listeners = Listeners::bind_program(address).await.map_err(|error| cannot_listen(address, &error))?;
    for (_, address) in listeners.addresses() {
        let scheme = if server.has_tls() { "https" } else { "http" };
        tracing::info!("metrics at {scheme}://{address}/metrics");
    }
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(async move {
        if let Err(error) = server.serve(listeners, async { drop(stopped.await) }).await {
            tracing::warn!(%error, "metrics are no longer served");
        }
    });
    Ok(Serving { _stop: stop })
}

fn cannot_listen(address: SocketAddr, error: &ServeError) -> Failure {
    let why = match error {
        ServeError::Taken(_) => "another process listens there".to_owned(),
        ServeError::Listen { error, .. } => error.to_string(),
        other => other.to_string(),
    };
    Failure::new(Exit::FAILED, format!("cannot serve metrics at {}: {why}", ListenAddress::Tcp(address)))
        .advise("choose another address: --metrics 127.0.0.1:9464")
}

fn samples(pipeline: String, runner: &Arc<Runner>) -> ProgramSamples {
    // The runner is ended by its last owner, which this must not be.
    let runner = Arc::downgrade(runner);
    Arc::new(move || {
        let (pipeline, runner) = (pipeline.clone(), runner.upgrade());
        Box::pin(async move {
            let runner = runner.ok_or_else(|| "the pipeline is ending".to_owned())?;
            // While the engine is away, that is all that is known of the pipeline.
            let progress = match runner.engine_outage() {
                Some(_) => None,
                None => timeout(PROGRESS_WITHIN, runner.progress()).await.ok().and_then(Result::ok),
            };
            let mut samples = metrics::engine_samples(&pipeline, runner.engine_outage().as_ref());
            samples.extend(progress.iter().flat_map(|progress| metrics::samples(&pipeline, progress)));
            Ok(samples)
        })
    })
}

/// The runner alone, after the last scrape.
pub(super) async fn unshare(mut runner: Arc<Runner>) -> Option<Runner> {
    let within = tokio::time::Instant::now() + LAST_SCRAPE_WITHIN;
    loop {
        match Arc::try_unwrap(runner) {
            Ok(alone) => return Some(alone),
            Err(shared) if tokio::time::Instant::now() < within => {
                runner = shared;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(_) => return None,
        }
    }
}
