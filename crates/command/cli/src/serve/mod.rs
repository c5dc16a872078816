//! `tollway serve`: the server process.
//!
//! `arguments` is the command line, `setup` combines it with the config file, `reload` applies config changes at runtime,
//! `shutdown` handles SIGTERM and SIGINT, `for_commands` answers commands without a store, `file_descriptors` raises the descriptor limit, `startup_message` prints the
//! addresses, `dashboard` puts the dashboard together, `log` sets up logging.

mod arguments;
mod dashboard;
pub(crate) mod file_descriptors;
pub(crate) mod for_commands;
pub(crate) mod log;
mod reload;
mod setup;
mod shutdown;
mod startup_message;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tollway_consumers::{RecordsError, open_records};
use tollway_server::{Listeners, ServeError, Server, ServerConfig, needs_restart};

use crate::cloudwatch::Publishing;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::notices::Notices;
pub(crate) use arguments::Arguments;
use dashboard::ServerDashboard;
use setup::Setup;
#[cfg(any(feature = "pipeline", feature = "gateway"))]
pub(crate) use setup::send_incidents;
pub(crate) use setup::{limiter, read_set_limits};
pub(crate) use shutdown::StopSignals;
use startup_message::StoreState;

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let usual = if context.output().is_quiet() { log::Level::Error } else { log::Level::Info };
    log::begin(arguments.log_level, usual, arguments.log_format)?;
    let setup = Setup::new(arguments, context)?;
    let connections = file_descriptors::raise_limit(setup.config.connections);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Failure::new(Exit::FAILED, format!("cannot start the async runtime: {error}")))?;
    runtime.block_on(serve(setup, connections, arguments, context))
}

async fn serve(
    setup: Setup,
    connections: usize,
    arguments: &Arguments,
    context: &Context,
) -> Result<Exit, Failure> {
    let Setup { config, consumers, file, limiter, store, named_store, policy } = setup;
    let unreachable = setup::read_set_limits(&limiter).await;
    // Commands that name no store either ask this process.
    let _commands = (!named_store).then(|| for_commands::answer(&limiter));
    let cloudwatch = file.as_ref().and_then(|file| file.config().cloudwatch());
    let source = limiter.clone();
    let read = move || {
        let limiter = source.clone();
        async move { limiter.samples().await }
    };
    let notices = Notices::new("serve", &limiter)?;
    notices.check().await;
    let store_alarms = notices.watch_store(&limiter);
    let publishing = Publishing::start(cloudwatch, &limiter, read).await?;
    // What the file says stays in `config`, with which a reload compares.
    let fitting = ServerConfig { connections, ..config.clone() };
    let mut server = Server::new(limiter, &fitting).await?.with_store_at(&store);
    if let Some(consumers) = &consumers {
        server = server.with_consumers(open_records(&consumers.records.connection_url()?)?, consumers)?;
    }
    let mut listeners = Listeners::bind(&config).await?;
    dashboard::listen(&mut listeners, &config, arguments.dashboard, context).await;
    let ServerDashboard { server, dashboard, url } = ServerDashboard::of(
        server,
        &listeners,
        &config,
        file.as_ref(),
        &store,
        arguments.dashboard,
        context,
    )?;
    // Before the addresses are printed, so that no signal is missed.
    let signals = StopSignals::listen()?;
    let mut hangups = signal(SignalKind::hangup()).map_err(no_signals)?;
    let store = StoreState { url: &store, unreachable: unreachable.as_ref() };
    startup_message::print(&listeners, &config, &store, policy.as_deref(), url.as_deref(), context)?;
    let (stop, stopped) = oneshot::channel();
    let fixed = |read| needs_restart(&config, &arguments.over(read));
    tokio::select! {
        served = server.serve(listeners, async { drop(stopped.await) }) => served?,
        () = reload::follow_changes(&server, dashboard.as_ref(), file, fixed, &mut hangups) => {}
        () = signals.handle(&server, stop) => {}
        () = dashboard::run(dashboard.as_ref()) => {}
    }
    if let Some(dashboard) = dashboard {
        dashboard.close().await;
    }
    if let Some(publishing) = publishing {
        publishing.finish().await;
    }
    if let Some(task) = store_alarms {
        task.abort();
        let _ = task.await;
    }
    // What was granted while the store was away would be lost with this process.
    if let Err(error) = server.limiter().close().await {
        tracing::warn!("{error}");
    }
    notices.close().await;
    Ok(Exit::DONE)
}

pub(crate) fn no_signals(error: std::io::Error) -> Failure {
    Failure::new(Exit::FAILED, format!("cannot handle signals: {error}"))
}

impl From<RecordsError> for Failure {
    fn from(error: RecordsError) -> Self {
        Self::new(Exit::FAILED, format!("consumer records: {error}"))
            .advise("see `records` of [consumers] in the config")
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let exit = match &error {
            ServeError::Taken(_) | ServeError::Listen { .. } | ServeError::Machine(_) => Exit::FAILED,
            _ => Exit::CONFIG,
        };
        let text = error.to_string();
        match text.split_once("; ") {
            Some((message, advice)) => Self::new(exit, message).advise(advice),
            None => Self::new(exit, text),
        }
    }
}
