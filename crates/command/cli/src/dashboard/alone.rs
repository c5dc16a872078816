//! `tollway dashboard`: a dashboard over what the config names, beside the processes that do the work.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;
use tollway_dashboard::Dashboard;
use tollway_server::{ListenerKind, Listeners, ProgramSamples, Server, ServerConfig, TokenRight};

use super::{Link, can_write, page_url, usual_addresses};
use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};
use crate::output::STRONG;
use crate::serve::log::{self, Format, Level};
use crate::serve::{self, StopSignals};

/// Open a dashboard over the config's store and pipelines
///
/// Shows every limit of the config as the store has it, and the pipelines, also while other processes run them. What only
/// those processes know, such as callers that wait and takes that were denied, is on the dashboard of `tollway serve` and
/// `tollway pipeline run`. Prints an address, on a terminal or with `--json` with a token that may read, and ends with Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway dashboard                                open the address that it prints
  tollway dashboard --write                        with the right to change limits and jobs
  tollway dashboard --listen 0.0.0.0:9090          for other machines; needs a token in [server.tokens]")]
pub(crate) struct Arguments {
    /// Where to listen [default: 127.0.0.1:9090, or the next free of ten ports]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Let the printed link change limits, and pause and redrive jobs
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let output = context.output();
    let usual = if output.is_watched() { Level::Warn } else { Level::Info };
    let usual = if output.is_quiet() { Level::Error } else { usual };
    log::begin(None, usual, Format::Text)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Failure::new(Exit::FAILED, format!("cannot start the async runtime: {error}")))?;
    runtime.block_on(show(arguments, context))
}

async fn show(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let config = WholeConfig::load(context.config_path()?)?;
    let store = context.store(config.limits())?;
    let limiter = serve::limiter(config.limits(), &store, [])?;
    serve::read_set_limits(&limiter).await;
    let server_config = config.server().cloned().unwrap_or_default();
    let link = link(arguments, context)?;
    let (listeners, address) = listen(arguments).await?;
    let samples: ProgramSamples = Arc::new(|| Box::pin(async { Ok(Vec::new()) }));
    let server = Server::for_program(limiter.clone(), &server_config, address, samples)?;
    let server = server.with_store_at(&store);
    let server = match &link {
        Some(link) => server.with_link(link.token())?,
        None => server,
    };
    let builder =
        Dashboard::builder(&limiter, "dashboard").store(&store).of_store().changes(server.changes());
    let builder = builder.can_write(can_write(&server_config, link.as_ref()));
    #[cfg(feature = "pipeline")]
    let builder = config.pipelines().iter().fold(builder, |builder, pipeline| {
        builder.pipeline(tollway_dashboard::PipelineSource::beside(
            pipeline.clone(),
            crate::pipeline::engine_opener(),
        ))
    });
    let dashboard = builder.build();
    let server = server.with_admin_handler(dashboard.make_handler());
    let mut signals = StopSignals::listen()?;
    print(&listeners, &server, link.as_ref(), context)?;
    mention_token(&server_config, link.as_ref(), context);
    mention_server(&server_config, context);
    tokio::select! {
        served = server.serve(listeners, async { signals.next().await }) => served?,
        () = dashboard.run() => {}
    }
    dashboard.close().await;
    Ok(Exit::DONE)
}

/// A token for those who see the terminal, or read the JSON. Elsewhere it would stay in a log.
fn link(arguments: &Arguments, context: &Context) -> Result<Option<Link>, Failure> {
    let output = context.output();
    if !output.is_json() && !output.is_interactive() {
        return Ok(None);
    }
    let right = if arguments.write { TokenRight::Write } else { TokenRight::Read };
    Ok(Some(Link::new(right)?))
}

async fn listen(arguments: &Arguments) -> Result<(Listeners, SocketAddr), Failure> {
    if let Some(address) = arguments.listen {
        return Ok((Listeners::bind_program(address).await?, address));
    }
    let mut listeners = Listeners::default();
    let free = listeners.bind_first_free(ListenerKind::Program, usual_addresses()).await;
    match (free, usual_addresses().next()) {
        (Some(_), Some(first)) => Ok((listeners, first)),
        _ => Err(Failure::new(Exit::FAILED, "no port from 9090 to 9099 is free")
            .advise("choose another one: --listen 127.0.0.1:9190")),
    }
}

fn print(
    listeners: &Listeners,
    server: &Server,
    link: Option<&Link>,
    context: &Context,
) -> Result<(), Failure> {
    let output = context.output();
    for (_, address) in listeners.addresses() {
        let tls = server.has_tls();
        let url = link.map_or_else(|| page_url(&address, tls), |link| link.url(&address, tls));
        let Some(url) = url else { continue };
        match output.is_json() {
            true => output.json(&json!({ "dashboard": url }))?,
            false => output.line(format_args!("dashboard      {STRONG}{url}{STRONG:#}"))?,
        }
    }
    output.flush()
}

/// Without a link, tokens are those of the config.
fn mention_token(config: &ServerConfig, link: Option<&Link>, context: &Context) {
    if link.is_none() && config.read_token.is_none() && !can_write(config, None) {
        context.output().note(
            "subjects, jobs and changes need a token: `read = \"file:/etc/tollway/read\"` and `write` in [server.tokens], \
             or the link that a terminal or `--json` gets",
        );
    }
}

/// A server of the same config knows more than its store.
fn mention_server(config: &ServerConfig, context: &Context) {
    if let Some(admin) = &config.admin {
        context.output().note(format_args!(
            "where `tollway serve` runs with this config, its own dashboard at {admin} also knows who waits"
        ));
    }
}
