//! Where it listens, and what to try.

use serde_json::json;
use tollway::{ListenAddress, ServerConfig, StoreUrl};
use tollway_server::{Door, Listeners};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{FAINT, STRONG};

pub(super) fn say(
    listeners: &Listeners,
    config: &ServerConfig,
    store: &StoreUrl,
    policy: Option<&str>,
    context: &Context,
) -> Result<(), Failure> {
    let output = context.output();
    let addresses = listeners.addresses();
    let at = |door: Door| addresses.iter().find(|(known, _)| *known == door).map(|(_, address)| address);
    let (decisions, grpc, admin) = (at(Door::Decisions), at(Door::Grpc), at(Door::Administration));
    if output.is_json() {
        let text = |address: Option<&ListenAddress>| address.map(ToString::to_string);
        output.json(&json!({
            "listen": text(decisions),
            "grpc": text(grpc),
            "admin": text(admin),
            "store": store.to_string(),
        }))?;
    } else if !output.is_quiet() {
        let tls = config.tls.is_some();
        for (what, address) in [("decisions", decisions), ("gRPC", grpc), ("administration", admin)] {
            if let Some(address) = address {
                let place = place(address, tls);
                output.line(format_args!("{what:14} {STRONG}{place}{STRONG:#}"))?;
            }
        }
        output.line(format_args!("{:14} {FAINT}{store}{FAINT:#}", "store"))?;
        if let (Some(address), Some(policy)) = (decisions, policy) {
            output.line(format_args!("try            {}", curl(address, tls, policy)))?;
        }
    }
    output.flush()
}

fn place(address: &ListenAddress, tls: bool) -> String {
    match address {
        ListenAddress::Tcp(address) => format!("{}://{address}", if tls { "https" } else { "http" }),
        ListenAddress::Unix(_) => address.to_string(),
    }
}

/// A command that takes one request.
fn curl(address: &ListenAddress, tls: bool, policy: &str) -> String {
    let question = format!("-d '{{\"policy\": \"{policy}\", \"subject\": \"me\"}}'");
    match address {
        ListenAddress::Unix(path) => {
            format!("curl --unix-socket {} {question} http://localhost/v1/take", path.display())
        }
        ListenAddress::Tcp(_) => {
            let insecure = if tls { "-k " } else { "" };
            format!("curl {insecure}{question} {}/v1/take", place(address, tls))
        }
    }
}
