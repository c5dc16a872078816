//! Ours: the server that `tollway serve` runs, with its defaults, meters in memory and all doors on free ports.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tollway::{Config, Limiter, ListenAddress};
use tollway_server::{Door, Listeners, Server};

use super::process::Process;

/// Under `plenty` whatever is asked is granted, under `two` only two a day. Envoy's domains are called like the policies.
const CONFIG: &str = r#"
[policies.plenty]
limits = ["10000 requests / hour bucket burst 1000000000"]

[policies.two]
limits = ["2 requests / day bucket"]

[server]
listen = "127.0.0.1:0"
grpc = "127.0.0.1:0"
resp = "127.0.0.1:0"

[[server.descriptors]]
domain = "plenty"
keys = ["user"]
policy = "plenty"
subject = "{user}"

[[server.descriptors]]
domain = "two"
keys = ["user"]
policy = "two"
subject = "{user}"
"#;

/// Where each protocol is served, in the order in which the process says it.
const DOORS: [Door; 3] = [Door::Decisions, Door::Grpc, Door::Resp];

pub(in crate::server) struct Ours {
    process: Process,
    pub(in crate::server) http: u16,
    pub(in crate::server) grpc: u16,
    pub(in crate::server) resp: u16,
}

impl Ours {
    pub(in crate::server) fn start() -> Result<Self> {
        let (process, ports) = Process::serve("tollway")?;
        let [http, grpc, resp] = ports.try_into().ok().context("a port for each protocol")?;
        Ok(Self { process, http, grpc, resp })
    }

    pub(in crate::server) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// What the process does: as the command, it accepts on one thread and decides on one for each core.
pub(in crate::server) fn serve() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let config = Config::parse(CONFIG)?;
        let policies = config.policies().iter().map(|policy| policy.as_ref().clone());
        let limiter =
            policies.into_iter().try_fold(Limiter::builder(), |all, policy| all.with_policy(policy))?.build();
        let settings = config.server().context("the text has this section")?;
        let listeners = Listeners::bind(settings).await?;
        let ports = DOORS.map(|door| port_of(&listeners, door).map(|port| port.to_string()));
        println!(
            "{}",
            ports.into_iter().collect::<Option<Vec<_>>>().context("a door without a port")?.join(" ")
        );
        let server = Server::new(limiter, settings).await?;
        Ok(server.serve(listeners, std::future::pending()).await?)
    })
}

fn port_of(listeners: &Listeners, door: Door) -> Option<u16> {
    listeners.addresses().into_iter().find_map(|(one, address)| match address {
        ListenAddress::Tcp(address) if one == door => Some(SocketAddr::port(&address)),
        _ => None,
    })
}
