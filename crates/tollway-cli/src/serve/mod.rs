//! `tollway serve`: decisions for programs in any language.
//!
//! `setup` finds out what to serve, `follow` takes over changes while it runs, `descriptors` makes room for connections,
//! `welcome` says where it listens, `log` what happens meanwhile.

mod descriptors;
mod follow;
mod log;
mod setup;
mod welcome;

use tokio::signal::unix::{SignalKind, signal};
use tollway::ListenAddress;
use tollway_consumers::{RecordsError, open_records};
use tollway_server::{Listeners, ServeError, Server};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use setup::Setup;

/// Serve decisions over HTTP
///
/// Listens on 127.0.0.1:8080 unless the config or --listen says otherwise. Meters live in the config's store, or in
/// memory. Without a config file it serves one policy, `example`, to try. Stops on SIGTERM and SIGINT once running
/// requests are answered; reads the config again when it changes, and on SIGHUP also what it names: tokens and
/// certificates.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway serve
  tollway serve --config /etc/tollway.toml --listen 0.0.0.0:8080
  tollway serve --listen unix:/run/tollway.sock --admin 127.0.0.1:9090")]
pub(crate) struct Arguments {
    /// Where to listen for decisions: IP:PORT or unix:PATH [default: the config's, else 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<ListenAddress>,
    /// Where to listen for administration [default: the config's, else nowhere]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<ListenAddress>,
    /// How many threads decide [default: the config's, else one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    workers: Option<u16>,
    /// What is logged to standard error, and all that matters more [default: $TOLLWAY_LOG_LEVEL, else info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<log::Level>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    log::begin(arguments.log_level, context.output().is_quiet())?;
    let setup = Setup::new(arguments, context)?;
    descriptors::make_room(setup.config.connections);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::FAILED, format!("no runtime: {error}")))?;
    runtime.block_on(serve(setup, context))
}

async fn serve(setup: Setup, context: &Context) -> Result<Exit, Failure> {
    let Setup { config, consumers, file, limiter, store, policy } = setup;
    let mut server = Server::new(limiter, &config).await?.with_store_at(&store);
    if let Some(consumers) = &consumers {
        server = server.with_consumers(open_records(&consumers.records.expose())?, consumers)?;
    }
    let listeners = Listeners::bind(&config).await?;
    // Before anybody can know that it is there.
    let ended = signals([SignalKind::terminate(), SignalKind::interrupt()])?;
    let mut asked = signal(SignalKind::hangup()).map_err(no_signals)?;
    welcome::say(&listeners, &config, &store, policy.as_deref(), context)?;
    tokio::select! {
        served = server.serve(listeners, ended) => served?,
        () = follow::follow(&server, file, &mut asked) => {}
    }
    Ok(Exit::DONE)
}

/// Ready when one of these signals has come.
fn signals(kinds: [SignalKind; 2]) -> Result<impl Future<Output = ()>, Failure> {
    let mut waiting = kinds.into_iter().map(signal).collect::<Result<Vec<_>, _>>().map_err(no_signals)?;
    Ok(std::future::poll_fn(move |context| {
        let come = waiting.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
        if come { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    }))
}

fn no_signals(error: std::io::Error) -> Failure {
    Failure::new(Exit::FAILED, format!("signals cannot be received: {error}"))
}

impl From<RecordsError> for Failure {
    fn from(error: RecordsError) -> Self {
        Self::new(Exit::FAILED, format!("the records of consumers: {error}"))
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
