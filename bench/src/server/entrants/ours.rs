//! Ours: the server that `tollway serve` runs, with its defaults, meters in memory and all doors on free ports.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tollway::Limiter;
use tollway_server::{ConfigWithServer, ListenAddress, ListenerKind, Listeners, Server};

use super::process::Process;

/// A file, because `tollway serve` reads one and watches it.
const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/server/entrants/ours.toml");

/// Where each protocol is served, in the order in which the process says it.
const DOORS: [ListenerKind; 3] = [ListenerKind::Decisions, ListenerKind::Grpc, ListenerKind::Resp];

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

/// What the process does, as the command with `--config`: a limiter of that file which counts what it decides and watches the
/// file, one thread that accepts and one for each core that decides. Only what it says first is in other words.
pub(in crate::server) fn serve() -> Result<()> {
    let config = ConfigWithServer::load(CONFIG)?;
    let limiter = Limiter::builder().metrics().file_blocking(CONFIG)?;
    let settings = config.server().context("the file has this section")?;
    let store = config.limits().store().cloned().unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::new(limiter, settings).await?.with_store_at(&store);
        let listeners = Listeners::bind(settings).await?;
        println!("{}", ports_of(&listeners).context("a door without a port")?.join(" "));
        Ok(server.serve(listeners, std::future::pending()).await?)
    })
}

/// In the order of [`DOORS`].
fn ports_of(listeners: &Listeners) -> Option<Vec<String>> {
    DOORS.iter().map(|door| Some(port_of(listeners, *door)?.to_string())).collect()
}

fn port_of(listeners: &Listeners, door: ListenerKind) -> Option<u16> {
    listeners.addresses().into_iter().find_map(|(one, address)| match address {
        ListenAddress::Tcp(address) if one == door => Some(SocketAddr::port(&address)),
        _ => None,
    })
}
