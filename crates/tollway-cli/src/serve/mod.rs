//! `tollway serve`: decisions for programs in any language.
//!
//! `arguments` are what the command line says, `setup` finds out what to serve, `follow` takes over changes while it runs,
//! `stop` listens for signals to end, `descriptors` makes room for connections, `welcome` says where it listens, `log` what
//! happens meanwhile.

mod arguments;
mod descriptors;
mod follow;
mod log;
mod setup;
mod stop;
mod welcome;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tollway_consumers::{RecordsError, open_records};
use tollway_server::{Listeners, ServeError, Server, needs_restart};

use crate::context::Context;
use crate::failure::{Exit, Failure};
pub(crate) use arguments::Arguments;
use setup::Setup;
use stop::StopSignals;

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    log::begin(arguments.log_level, context.output().is_quiet())?;
    let setup = Setup::new(arguments, context)?;
    descriptors::make_room(setup.config.connections);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::FAILED, format!("no runtime: {error}")))?;
    runtime.block_on(serve(setup, arguments, context))
}

async fn serve(setup: Setup, arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let Setup { config, consumers, file, limiter, store, policy } = setup;
    let mut server = Server::new(limiter, &config).await?.with_store_at(&store);
    if let Some(consumers) = &consumers {
        server = server.with_consumers(open_records(&consumers.records.expose())?, consumers)?;
    }
    let listeners = Listeners::bind(&config).await?;
    // Before anybody can know that it is there.
    let signals = StopSignals::listen()?;
    let mut asked = signal(SignalKind::hangup()).map_err(no_signals)?;
    welcome::say(&listeners, &config, &store, policy.as_deref(), context)?;
    let (tell, told) = oneshot::channel();
    let fixed = |read| needs_restart(&config, &arguments.over(read));
    tokio::select! {
        served = server.serve(listeners, async { drop(told.await) }) => served?,
        () = follow::follow(&server, file, fixed, &mut asked) => {}
        () = signals.obey(&server, tell) => {}
    }
    Ok(Exit::DONE)
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
