//! `/metrics` and the dashboard of a running pipeline, served like those of `tollway serve`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tollway::{Limiter, StoreUrl};
use tollway_dashboard::{Dashboard, PipelineSource};
use tollway_pipeline::run::{Runner, metrics};
use tollway_pipeline::{Engine, PipelineConfig};
use tollway_server::{
    ListenAddress, Listeners, ProgramSamples, ServeError, Server, ServerConfig, TokenRight,
};

use crate::context::Context;
use crate::dashboard::{Link, can_write};
use crate::failure::{Exit, Failure};

/// How long a scrape waits for the engine: shorter than scrapers wait.
const PROGRESS_WITHIN: Duration = Duration::from_secs(5);

/// How long to wait for the last scrape at the end.
const LAST_SCRAPE_WITHIN: Duration = Duration::from_secs(2);

/// Serves until it is dropped.
pub(super) struct Serving {
    dashboard: Dashboard,
    engine: Arc<dyn Engine>,
    _stop: oneshot::Sender<()>,
}

impl Serving {
    /// Shows the pipeline with a config that was reloaded.
    pub(super) fn reload(&self, config: &PipelineConfig, runner: &Arc<Runner>) {
        let source = PipelineSource::of_engine(config.clone(), Arc::clone(&self.engine)).run_by(runner);
        self.dashboard.replace_pipelines(vec![source]);
    }
}

/// What is served.
pub(super) struct Served<'r> {
    /// It has the tokens that other machines need.
    pub(super) server: &'r ServerConfig,
    pub(super) config: &'r PipelineConfig,
    pub(super) store: &'r StoreUrl,
    pub(super) engine: &'r Arc<dyn Engine>,
    pub(super) runner: &'r Arc<Runner>,
    pub(super) limiter: &'r Limiter,
}

pub(super) async fn serve(
    address: SocketAddr,
    served: &Served<'_>,
    context: &Context,
) -> Result<Serving, Failure> {
    let Served { server: server_config, config, store, engine, runner, limiter } = *served;
    let samples = samples(config.name.to_string(), runner);
    let server = Server::for_program(limiter.clone(), server_config, address, samples)?;
    let listeners = Listeners::bind_program(address).await.map_err(|error| cannot_listen(address, &error))?;
    let link = context.output().is_watched().then(|| Link::new(TokenRight::Read)).transpose()?;
    let server = match &link {
        Some(link) => server.with_link(link.token())?,
        None => server,
    };
    for (_, address) in listeners.addresses() {
        let scheme = if server.has_tls() { "https" } else { "http" };
        tracing::info!("metrics at {scheme}://{address}/metrics");
        if let Some(url) = link.as_ref().and_then(|link| link.url(&address, server.has_tls())) {
            context.output().note(format_args!("dashboard: {url}"));
        }
    }
    let pipeline = PipelineSource::of_engine(config.clone(), Arc::clone(engine)).run_by(runner);
    let builder = Dashboard::builder(limiter, "pipeline run").store(store).changes(server.changes());
    let builder = builder.can_write(can_write(server_config, link.as_ref())).pipeline(pipeline);
    let dashboard = builder.build();
    let server = server.with_admin_handler(dashboard.make_handler());
    let (stop, stopped) = oneshot::channel::<()>();
    let shown = dashboard.clone();
    tokio::spawn(async move {
        let served = tokio::select! {
            served = server.serve(listeners, async { drop(stopped.await) }) => served,
            () = dashboard.run() => Ok(()),
        };
        dashboard.close().await;
        if let Err(error) = served {
            tracing::warn!(%error, "metrics are no longer served");
        }
    });
    Ok(Serving { dashboard: shown, engine: Arc::clone(engine), _stop: stop })
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
pub(crate) async fn unshare(mut runner: Arc<Runner>) -> Option<Runner> {
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
