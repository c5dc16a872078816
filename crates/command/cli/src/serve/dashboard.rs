//! The dashboard of the server: where it listens, what its link may do, and what it shows.

use tollway::StoreUrl;
use tollway_config::ConfigFile;
use tollway_dashboard::Dashboard;
use tollway_server::{ListenAddress, ListenerKind, Listeners, Server, ServerConfig};

use crate::context::{Context, WholeConfig};
use crate::dashboard::{Link, Mode, can_write, usual_addresses};
use crate::failure::Failure;

/// Opens the administration on a terminal, if the config does not say where. A server without it serves all the same.
pub(super) async fn listen(listeners: &mut Listeners, config: &ServerConfig, mode: Mode, context: &Context) {
    if mode == Mode::Off || config.admin.is_some() || !context.output().is_interactive() {
        return;
    }
    if listeners.bind_first_free(ListenerKind::Administration, usual_addresses()).await.is_none() {
        tracing::warn!("no dashboard: no port from 9090 to 9099 is free; choose one with --admin");
    }
}

/// The dashboard of a server, if it has an address for it.
pub(super) struct ServerDashboard {
    pub(super) server: Server,
    pub(super) dashboard: Option<Dashboard>,
    /// The address to open, with its token, if there is a terminal to print it to.
    pub(super) url: Option<String>,
}

impl ServerDashboard {
    pub(super) fn of(
        server: Server,
        listeners: &Listeners,
        config: &ServerConfig,
        file: Option<&ConfigFile<WholeConfig>>,
        store: &StoreUrl,
        mode: Mode,
        context: &Context,
    ) -> Result<Self, Failure> {
        let Some(address) = administration(listeners).filter(|_| mode != Mode::Off) else {
            return Ok(Self { server, dashboard: None, url: None });
        };
        let link = context.output().is_interactive().then(|| Link::new(mode.right())).transpose()?;
        let server = match &link {
            Some(link) => server.with_link(link.token())?,
            None => server,
        };
        let url = link.as_ref().and_then(|link| link.url(&address, config.tls.is_some()));
        let builder = Dashboard::builder(server.limiter(), "serve").store(store).changes(server.changes());
        let builder = builder.can_write(can_write(config, link.as_ref()));
        let dashboard = builder.build();
        file.iter().for_each(|file| show_pipelines(&dashboard, file.config()));
        let server = server.with_admin_handler(dashboard.make_handler());
        Ok(Self { server, dashboard: Some(dashboard), url })
    }
}

/// Shows the pipelines of this config.
pub(super) fn show_pipelines(dashboard: &Dashboard, config: &WholeConfig) {
    #[cfg(feature = "pipeline")]
    dashboard.replace_pipelines({
        let opener = crate::pipeline::engine_opener();
        let beside = |config| tollway_dashboard::PipelineSource::beside(config, opener);
        config.pipelines().iter().cloned().map(beside).collect()
    });
    #[cfg(not(feature = "pipeline"))]
    let _ = (dashboard, config);
}

/// Runs it, or waits without end.
pub(super) async fn run(dashboard: Option<&Dashboard>) {
    match dashboard {
        Some(dashboard) => dashboard.run().await,
        None => std::future::pending().await,
    }
}

fn administration(listeners: &Listeners) -> Option<ListenAddress> {
    let addresses = listeners.addresses();
    let found = addresses.into_iter().find(|(kind, _)| *kind == ListenerKind::Administration);
    found.map(|(_, address)| address)
}
