//! The startup message: addresses, store, and commands to try.

use std::net::Ipv4Addr;

use serde_json::json;
use tollway::{StoreError, StoreUrl};
use tollway_server::{ListenAddress, ListenerKind, Listeners, ServerConfig, Token};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{BAD, FAINT, STRONG};

/// What happens until the store is back; `when_store_fails` of each policy says which.
const UNREACHABLE: &str = "until it is back, takes are decided as `when_store_fails` of their policy says: by default \
                           each process grants its share of what was left";

/// The listeners in output order, with their names in text and in JSON.
const LISTENERS: [(ListenerKind, &str, &str); 4] = [
    (ListenerKind::Decisions, "decisions", "listen"),
    (ListenerKind::Grpc, "gRPC", "grpc"),
    (ListenerKind::Resp, "Redis protocol", "resp"),
    (ListenerKind::Administration, "administration", "admin"),
];

/// The store, and why it cannot be reached, if it cannot.
pub(super) struct StoreState<'a> {
    pub(super) url: &'a StoreUrl,
    pub(super) unreachable: Option<&'a StoreError>,
}

pub(super) fn print(
    listeners: &Listeners,
    config: &ServerConfig,
    store: &StoreState<'_>,
    policy: Option<&str>,
    dashboard: Option<&str>,
    context: &Context,
) -> Result<(), Failure> {
    let output = context.output();
    let addresses = listeners.addresses();
    let at = |listener: ListenerKind| {
        addresses.iter().find(|(known, _)| *known == listener).map(|(_, address)| address)
    };
    if output.is_json() {
        let mut message = json!({ "store": store.url.to_string() });
        if let Some(error) = store.unreachable {
            message["store_error"] = error.to_string().into();
        }
        for (listener, _, key) in LISTENERS {
            message[key] = at(listener).map(ToString::to_string).into();
        }
        output.json(&message)?;
    } else if !output.is_quiet() {
        let tls = config.tls.is_some();
        for (listener, name, _) in LISTENERS {
            if let Some(address) = at(listener) {
                let url = url(listener, address, tls);
                output.line(format_args!("{name:14} {STRONG}{url}{STRONG:#}"))?;
            }
        }
        if let Some(url) = dashboard {
            output.line(format_args!("{:14} {STRONG}{url}{STRONG:#}", "dashboard"))?;
        }
        output.line(format_args!("{:14} {FAINT}{}{FAINT:#}", "store", store.url))?;
        if let Some(error) = store.unreachable {
            for text in [&error.to_string(), UNREACHABLE] {
                output.sentence(&format!("{:15}", ""), BAD, text)?;
            }
        }
        let tries =
            LISTENERS.iter().filter_map(|(listener, ..)| example(*listener, at(*listener)?, config, policy));
        for (index, command) in tries.enumerate() {
            output.line(format_args!("{:14} {command}", if index == 0 { "try" } else { "" }))?;
        }
    }
    output.flush()
}

fn url(listener: ListenerKind, address: &ListenAddress, tls: bool) -> String {
    let scheme = match (listener, tls) {
        (ListenerKind::Resp, false) => "redis",
        (ListenerKind::Resp, true) => "rediss",
        (_, false) => "http",
        (_, true) => "https",
    };
    match address {
        ListenAddress::Tcp(address) => format!("{scheme}://{address}"),
        ListenAddress::Unix { .. } => address.to_string(),
    }
}

/// A command that sends one request to this listener.
fn example(
    listener: ListenerKind,
    address: &ListenAddress,
    config: &ServerConfig,
    policy: Option<&str>,
) -> Option<String> {
    let tls = config.tls.is_some();
    match listener {
        ListenerKind::Decisions => policy.map(|policy| curl(address, tls, policy)),
        ListenerKind::Grpc => Some(grpc_health(address, tls)),
        ListenerKind::Resp => Some(redis_cli(address, config)),
        ListenerKind::Administration | ListenerKind::Program | ListenerKind::Gateway => None,
    }
}

fn curl(address: &ListenAddress, tls: bool, policy: &str) -> String {
    let body = format!("-d '{{\"policy\": \"{policy}\"}}'");
    match address {
        ListenAddress::Unix { path, .. } => {
            format!("curl --unix-socket {} {body} http://localhost/v1/take", path.display())
        }
        ListenAddress::Tcp(_) => {
            let insecure = if tls { "-k " } else { "" };
            format!("curl {insecure}{body} {}/v1/take", url(ListenerKind::Decisions, address, tls))
        }
    }
}

/// Calls the health service with an empty message: an Envoy request is too long to write by hand.
fn grpc_health(address: &ListenAddress, tls: bool) -> String {
    let (options, url) = match (address, tls) {
        (ListenAddress::Unix { path, .. }, _) => (
            format!("--http2-prior-knowledge --unix-socket {}", path.display()),
            "http://localhost".to_owned(),
        ),
        (ListenAddress::Tcp(_), false) => {
            ("--http2-prior-knowledge".to_owned(), url(ListenerKind::Grpc, address, tls))
        }
        (ListenAddress::Tcp(_), true) => ("-k --http2".to_owned(), url(ListenerKind::Grpc, address, tls)),
    };
    format!(
        "printf '\\0\\0\\0\\0\\0' | curl -s {options} -H content-type:application/grpc --data-binary @- \
         {url}/grpc.health.v1.Health/Check | od -c"
    )
}

fn redis_cli(address: &ListenAddress, config: &ServerConfig) -> String {
    let token = match &config.resp_token {
        None => String::new(),
        Some(Token::Variable(name)) => format!("REDISCLI_AUTH=\"${name}\" "),
        Some(Token::File(path)) => format!("REDISCLI_AUTH=\"$(cat {})\" ", path.display()),
    };
    let place = match address {
        ListenAddress::Unix { path, .. } => format!("-s {}", path.display()),
        ListenAddress::Tcp(address) => {
            let tls = if config.tls.is_some() { " --tls --insecure" } else { "" };
            let host = if address.ip() == Ipv4Addr::LOCALHOST {
                String::new()
            } else {
                format!("-h {} ", address.ip())
            };
            format!("{host}-p {}{tls}", address.port())
        }
    };
    format!("{token}redis-cli {place} CL.THROTTLE me 4 5 60")
}
