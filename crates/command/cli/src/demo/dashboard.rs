//! The dashboard of the demo: its address is printed at once, and its link may change things.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tollway::core::{Name, Subject};
use tollway_dashboard::{Dashboard, PipelineSource};
use tollway_pipeline::run::alarm::AlarmRules;
use tollway_pipeline::source::Source;
use tollway_pipeline::{EngineUrl, PipelineConfig, StageConfig};
use tollway_server::{ListenerKind, Listeners, ProgramSamples, Server, ServerConfig, TokenRight};

use super::pipeline::Pipeline;
use crate::dashboard::{Link, page_url, usual_addresses};
use crate::failure::{Exit, Failure};

/// The name of its pipeline.
const PIPELINE: &str = "demo";

/// How often to look for Ctrl-C while it is kept open.
const TICK: Duration = Duration::from_millis(100);

/// Serves until it is dropped.
pub(super) struct Serving {
    pub(super) url: String,
    _stop: oneshot::Sender<()>,
}

/// Serves the dashboard of this pipeline. Its address has a token on a terminal only: elsewhere it would stay in a log.
pub(super) async fn serve(
    pipeline: &Pipeline,
    stages: Vec<StageConfig>,
    file: &Path,
    on_terminal: bool,
) -> Result<Serving, Failure> {
    let limiter = pipeline.limiter();
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut listeners = Listeners::default();
    let addresses = usual_addresses().chain([any_port]);
    let bound = listeners.bind_first_free(ListenerKind::Program, addresses).await;
    let link = on_terminal.then(|| Link::new(TokenRight::Write)).transpose()?;
    let url = bound.and_then(|address| match &link {
        Some(link) => link.url(&address, false),
        None => page_url(&address, false),
    });
    let url =
        url.ok_or_else(|| Failure::new(Exit::FAILED, "the dashboard of the demo finds no free port"))?;
    let samples: ProgramSamples = Arc::new(|| Box::pin(async { Ok(Vec::new()) }));
    let server = Server::for_program(limiter.clone(), &ServerConfig::default(), any_port, samples)?;
    let server = match &link {
        Some(link) => server.with_link(link.token())?,
        None => server,
    };
    let source = PipelineSource::of_engine(config(stages, file)?, Arc::clone(pipeline.engine()))
        .run_by(pipeline.runner());
    let builder = Dashboard::builder(limiter, "demo").changes(server.changes()).can_write(link.is_some());
    let dashboard = builder.pipeline(source).build();
    let server = server.with_admin_handler(dashboard.make_handler());
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(async move {
        let served = tokio::select! {
            served = server.serve(listeners, async { drop(stopped.await) }) => served,
            () = dashboard.run() => Ok(()),
        };
        if let Err(error) = served {
            tracing::warn!(%error, "the dashboard has ended");
        }
    });
    Ok(Serving { url, _stop: stop })
}

/// What a config file would say.
fn config(stages: Vec<StageConfig>, file: &Path) -> Result<PipelineConfig, Failure> {
    let name = |text: &str| Name::new(text).map_err(|error| Failure::new(Exit::FAILED, error));
    let first = stages.first().map(|stage| stage.name.clone());
    let first = first.ok_or_else(|| Failure::new(Exit::FAILED, "the demo has no stage"))?;
    Ok(PipelineConfig {
        name: name(PIPELINE)?,
        engine: EngineUrl::Sqlite(file.to_owned()),
        concurrency: None,
        subject: Subject::SHARED,
        stages,
        alarms: AlarmRules::default(),
        source: Source::new(first),
    })
}

/// What is left of a demo that has ended: its dashboard, for `--keep`. The runtime is last: the server ends with it.
pub(super) struct Kept {
    pub(super) serving: Option<Serving>,
    pub(super) interrupted: Arc<AtomicBool>,
    pub(super) _folder: TempDir,
    pub(super) _runtime: Runtime,
}

impl Kept {
    /// Waits for Ctrl-C.
    pub(super) fn wait(&self) {
        while self.serving.is_some() && !self.interrupted.load(Ordering::Relaxed) {
            thread::sleep(TICK);
        }
    }
}
