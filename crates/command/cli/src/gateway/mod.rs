//! `tollway gateway`: calls of vendors for programs in any language.
//!
//! `env` prints variables for a shell, `setup` makes the limiter and the listener's config, `startup_message` prints where
//! the apis are, `reload` applies a changed file.

mod env;
mod reload;
mod setup;
mod startup_message;

use tollway_gateway::{Gateway, GatewayError};
use tollway_server::{ListenAddress, Listeners, ServerConfig};

use crate::complete_names;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::notices::Notices;
use crate::serve::{self, StopSignals, file_descriptors, for_commands, log};
use setup::Setup;

/// Call APIs from any language within their limits: a base URL for each
///
/// Serves http://127.0.0.1:4000/NAME/... for every api of the config, and for the profiles that you name. A call waits for
/// its turn, at most 50 s, instead of being refused; a vendor's refusals are retried. All processes of the store share
/// limits and what was learned. Callers need no change but the base URL, which most SDKs read from a variable.
///
/// The config's `[gateway]` says where it listens and who may call; `[apis.NAME.gateway]` how long calls may wait, and whether
/// every credential has its own limits. The page docs/guide/gateway.md explains every key and header.
///
/// It makes no tunnels (CONNECT), does not choose models, caches nothing, and keeps no prompts.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  tollway gateway openai anthropic          profiles, without a config file
  eval \"$(tollway gateway env openai)\"      OPENAI_BASE_URL for the programs of this shell
  tollway gateway --config tollway.toml --listen 127.0.0.1:4001
  tollway gateway --learn -q openai > learned.toml    watch for a while, then press Ctrl-C
  curl http://127.0.0.1:4000/openai/models -H \"Authorization: Bearer $OPENAI_API_KEY\""
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Subcommand>,
    /// Profiles to serve besides the apis of the config; `tollway api list` lists them
    #[arg(add = complete_names::apis())]
    apis: Vec<String>,
    /// Limit nothing: watch, and print the config that the answers suggest, with the evidence, when it ends
    #[arg(long)]
    learn: bool,
    /// Where to listen: IP:PORT or unix:PATH [default: the config's, else 127.0.0.1:4000]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<ListenAddress>,
    /// Where to serve /metrics, /health and /ready [default: the config's, else nowhere]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<ListenAddress>,
    /// Number of worker threads [default: the config's, else one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    workers: Option<u16>,
    /// Lowest level to log on standard error [default: $TOLLWAY_LOG_LEVEL, else info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<log::Level>,
    /// How log lines are written on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    log_format: log::Format,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    Env(env::Arguments),
}

impl Arguments {
    /// Whether it serves, with a log of its own.
    pub(crate) fn serves(&self) -> bool {
        self.command.is_none()
    }

    /// The listener's config: the command line overrides the file.
    fn over(&self, config: ServerConfig) -> ServerConfig {
        let listen = self.listen.clone().unwrap_or(config.listen);
        let admin = self.admin.clone().or(config.admin);
        let workers = self.workers.map_or(config.workers, |workers| Some(workers.into()));
        ServerConfig { listen, admin, workers, ..config }
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    if let Some(Subcommand::Env(arguments)) = &arguments.command {
        return env::run(arguments, context);
    }
    let usual = if context.output().is_quiet() { log::Level::Error } else { log::Level::Info };
    log::begin(arguments.log_level, usual, arguments.log_format)?;
    let setup = Setup::new(arguments, context)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Failure::new(Exit::FAILED, format!("cannot start the async runtime: {error}")))?;
    runtime.block_on(serve(setup, arguments, context))
}

async fn serve(setup: Setup, arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let Setup { config, file, limiter, store, named_store } = setup;
    let connections = file_descriptors::raise_limit(config.connections);
    let unreachable = serve::read_set_limits(&limiter).await;
    // Commands that name no store either ask this process.
    let _commands = (!named_store).then(|| for_commands::answer(&limiter));
    let notices = Notices::new("gateway", &limiter)?;
    let store_alarms = notices.watch_store(&limiter);
    let fitting = ServerConfig { connections, ..config.clone() };
    let gateway = match arguments.learn {
        false => Gateway::new(limiter.clone(), &fitting).await?,
        true => Gateway::learning(limiter.clone(), &fitting).await?,
    };
    let gateway = gateway.with_store_at(&store);
    let listeners = Listeners::bind_gateway(&config).await?;
    // Before the addresses are printed, so that no signal is missed.
    let mut signals = StopSignals::listen()?;
    startup_message::print(&listeners, &config, &limiter, &store, unreachable.as_ref(), context)?;
    tokio::select! {
        served = gateway.serve(listeners, signals.next()) => served?,
        () = reload::follow_changes(&gateway, file, |config| arguments.over(config)) => {}
    }
    if let Some(task) = store_alarms {
        task.abort();
        let _ = task.await;
    }
    // What was granted while the store was away would be lost with this process.
    if let Err(error) = limiter.close().await {
        tracing::warn!("{error}");
    }
    notices.close().await;
    match gateway.learned() {
        Some(learned) if context.output().is_json() => {
            context.output().json(&serde_json::json!({ "learned": learned }))?;
        }
        Some(learned) => context.output().bytes(learned.as_bytes())?,
        None => {}
    }
    Ok(Exit::DONE)
}

impl From<GatewayError> for Failure {
    fn from(error: GatewayError) -> Self {
        if let GatewayError::Serve(error) = error {
            return error.into();
        }
        let text = error.to_string();
        match text.split_once("; ") {
            Some((message, advice)) => Self::new(Exit::CONFIG, message).advise(advice),
            None => Self::new(Exit::CONFIG, text),
        }
    }
}
