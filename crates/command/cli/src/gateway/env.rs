//! `tollway gateway env`: the variables that point SDKs at the gateway.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::Value;
use tollway::Config;
use tollway_gateway::exports;
use tollway_server::{ListenAddress, ServerConfig};

use crate::api;
use crate::complete_names;
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Print the variables that point SDKs at the gateway, for `eval`
///
/// The address is that of `[gateway]` in the config, else http://127.0.0.1:4000. Nothing is started.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  eval \"$(tollway gateway env openai)\"
  tollway gateway env openai anthropic
  tollway gateway env openai --url http://gateway.internal:4000")]
pub(super) struct Arguments {
    /// Apis of the config, or profiles
    #[arg(required = true, add = complete_names::apis())]
    apis: Vec<String>,
    /// The address of the gateway, if this machine reaches it under another one
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let whole = match context.config_path_if_any()? {
        Some(path) => crate::context::WholeConfig::load(path)?,
        None => crate::context::WholeConfig::default(),
    };
    let listener = whole.gateway().cloned().unwrap_or_else(ServerConfig::gateway);
    let address = match &arguments.url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => address(&listener.listen, listener.tls.is_some()).ok_or_else(no_address)?,
    };
    let config: &Config = whole.limits();
    let mut found = Vec::new();
    for name in &arguments.apis {
        found.extend(exports(&api::find(config, name)?, &address));
    }
    let output = context.output();
    if output.is_json() {
        let variables = found.into_iter().map(|export| (export.variable, Value::from(export.url)));
        output.json(&Value::Object(variables.collect()))?;
    } else {
        for export in found {
            output.line(format_args!("{export}"))?;
        }
    }
    Ok(Exit::DONE)
}

/// The address for programs of this machine; none of a unix socket, which SDKs cannot call.
pub(super) fn address(listen: &ListenAddress, tls: bool) -> Option<String> {
    let ListenAddress::Tcp(address) = listen else { return None };
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let scheme = if tls { "https" } else { "http" };
    Some(format!("{scheme}://{}", SocketAddr::new(ip, address.port())))
}

fn no_address() -> Failure {
    Failure::new(Exit::CONFIG, "the gateway listens on a unix socket, which no variable can name")
        .advise("give `listen` of [gateway] an IP address and a port, or name one with --url")
}
