//! Where it listens, and what to try.

use std::net::Ipv4Addr;

use serde_json::json;
use tollway::StoreUrl;
use tollway_server::{ListenAddress, ListenerKind, Listeners, ServerConfig, Token};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{FAINT, STRONG};

/// The doors in the order in which they are named, with their names for people and for programs.
const DOORS: [(ListenerKind, &str, &str); 4] = [
    (ListenerKind::Decisions, "decisions", "listen"),
    (ListenerKind::Grpc, "gRPC", "grpc"),
    (ListenerKind::Resp, "Redis protocol", "resp"),
    (ListenerKind::Administration, "administration", "admin"),
];

pub(super) fn say(
    listeners: &Listeners,
    config: &ServerConfig,
    store: &StoreUrl,
    policy: Option<&str>,
    context: &Context,
) -> Result<(), Failure> {
    let output = context.output();
    let addresses = listeners.addresses();
    let at =
        |door: ListenerKind| addresses.iter().find(|(known, _)| *known == door).map(|(_, address)| address);
    if output.is_json() {
        let mut said = json!({ "store": store.to_string() });
        for (door, _, key) in DOORS {
            said[key] = at(door).map(ToString::to_string).into();
        }
        output.json(&said)?;
    } else if !output.is_quiet() {
        let tls = config.tls.is_some();
        for (door, name, _) in DOORS {
            if let Some(address) = at(door) {
                let place = place(door, address, tls);
                output.line(format_args!("{name:14} {STRONG}{place}{STRONG:#}"))?;
            }
        }
        output.line(format_args!("{:14} {FAINT}{store}{FAINT:#}", "store"))?;
        let tries = DOORS.iter().filter_map(|(door, ..)| to_try(*door, at(*door)?, config, policy));
        for (index, command) in tries.enumerate() {
            output.line(format_args!("{:14} {command}", if index == 0 { "try" } else { "" }))?;
        }
    }
    output.flush()
}

fn place(door: ListenerKind, address: &ListenAddress, tls: bool) -> String {
    let scheme = match (door, tls) {
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

/// A command that takes one request through this door.
fn to_try(
    door: ListenerKind,
    address: &ListenAddress,
    config: &ServerConfig,
    policy: Option<&str>,
) -> Option<String> {
    let tls = config.tls.is_some();
    match door {
        ListenerKind::Decisions => policy.map(|policy| curl(address, tls, policy)),
        ListenerKind::Grpc => Some(ask_health(address, tls)),
        ListenerKind::Resp => Some(redis_cli(address, config)),
        ListenerKind::Administration => None,
    }
}

fn curl(address: &ListenAddress, tls: bool, policy: &str) -> String {
    let question = format!("-d '{{\"policy\": \"{policy}\", \"subject\": \"me\"}}'");
    match address {
        ListenAddress::Unix { path, .. } => {
            format!("curl --unix-socket {} {question} http://localhost/v1/take", path.display())
        }
        ListenAddress::Tcp(_) => {
            let insecure = if tls { "-k " } else { "" };
            format!("curl {insecure}{question} {}/v1/take", place(ListenerKind::Decisions, address, tls))
        }
    }
}

/// Asks the health service with an empty message, since everybody has curl: a question of Envoy's is not written by hand.
fn ask_health(address: &ListenAddress, tls: bool) -> String {
    let (options, url) = match (address, tls) {
        (ListenAddress::Unix { path, .. }, _) => (
            format!("--http2-prior-knowledge --unix-socket {}", path.display()),
            "http://localhost".to_owned(),
        ),
        (ListenAddress::Tcp(_), false) => {
            ("--http2-prior-knowledge".to_owned(), place(ListenerKind::Grpc, address, tls))
        }
        (ListenAddress::Tcp(_), true) => ("-k --http2".to_owned(), place(ListenerKind::Grpc, address, tls)),
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
