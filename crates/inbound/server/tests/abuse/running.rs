//! The server as a separate process, so that its memory and file descriptors can be measured.

use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tollway_server::ListenerKind;

/// Long enough for anything that should happen at all.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A small store that fills up in the first third of the test.
const CONFIG: &str = r#"
[store]
url = "memory:?lines=20000"
[policies.api]
limits = ["1000000000 requests / hour"]
[server]
listen = "127.0.0.1:0"
grpc = "127.0.0.1:0"
resp = "127.0.0.1:0"
connections = 2000
connections_per_address = 150
"#;

/// A running `tollway serve`; dropping it stops it.
pub(crate) struct Running {
    process: Child,
    addresses: Value,
    _folder: tempfile::TempDir,
}

impl Running {
    /// Starts the command that `TOLLWAY_BINARY` names.
    pub(crate) fn start() -> Self {
        let binary = std::env::var_os("TOLLWAY_BINARY")
            .expect("TOLLWAY_BINARY is not set; scripts/abuse builds the command and sets it");
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("tollway.toml");
        std::fs::write(&config, CONFIG).unwrap();
        let mut command = Command::new(binary);
        command.args(["serve", "--json", "--config"]).arg(config).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
        Self { process, addresses: serde_json::from_str(&said).unwrap(), _folder: folder }
    }

    pub(crate) fn tcp(&self, kind: ListenerKind) -> SocketAddr {
        let key = match kind {
            ListenerKind::Decisions => "listen",
            ListenerKind::Grpc => "grpc",
            ListenerKind::Resp => "resp",
            ListenerKind::Administration | ListenerKind::Program | ListenerKind::Gateway => "admin",
        };
        self.addresses[key].as_str().unwrap().parse().unwrap()
    }

    /// A connection from this address. Without a bound address, all abusers would share one range of ports and exhaust it
    /// with closed connections.
    pub(crate) fn connect(&self, from: Ipv4Addr, kind: ListenerKind) -> io::Result<TcpStream> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind(SocketAddr::from((from, 0)))?;
            socket.connect(self.tcp(kind)).await?.into_std()
        })?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    /// Its resident memory.
    pub(crate) fn memory_kib(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the server runs");
        resident.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// How many files and sockets it has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
