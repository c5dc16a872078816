//! A gateway that runs, and raw requests to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tollway::{Config, Limiter};
use tollway_gateway::Gateway;
use tollway_server::{ListenAddress, Listeners, ServerConfig};

/// Longer than anything here takes, also on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A gateway on a free port, until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) limiter: Limiter,
    _stop: oneshot::Sender<()>,
}

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The value of a header; empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map_or("", |(_, value)| value.trim())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The config of an api `test` at this address, with these keys.
pub(crate) fn api(vendor: SocketAddr, keys: &str) -> String {
    format!("[apis.test]\nbase_url = \"http://{vendor}/v1\"\n{keys}\n")
}

pub(crate) async fn gateway(config: &str) -> Running {
    gateway_with(config, |_| {}).await
}

pub(crate) async fn gateway_with(config: &str, change: impl FnOnce(&mut ServerConfig)) -> Running {
    let config = Config::parse(config).unwrap_or_else(|error| panic!("{error}"));
    let limiter = Limiter::builder().config(&config).unwrap().metrics().build();
    let mut server = ServerConfig { workers: Some(1), ..ServerConfig::gateway() };
    server.listen = ListenAddress::Tcp(([127, 0, 0, 1], 0).into());
    change(&mut server);
    let gateway = Gateway::new(limiter, &server).await.unwrap_or_else(|error| panic!("{error}"));
    let listeners = Listeners::bind_gateway(&server).await.unwrap();
    Running::serving(&Arc::new(gateway), listeners)
}

impl Running {
    pub(crate) fn serving(gateway: &Arc<Gateway>, listeners: Listeners) -> Self {
        let mut addresses = listeners.addresses().into_iter().map(|(_, address)| match address {
            ListenAddress::Tcp(address) => address,
            other => panic!("a TCP address: {other}"),
        });
        let (address, admin) = (addresses.next().unwrap(), addresses.next());
        let (stop, stopped) = oneshot::channel::<()>();
        let (gateway, limiter) = (Arc::clone(gateway), gateway.limiter().clone());
        tokio::spawn(async move { gateway.serve(listeners, async { drop(stopped.await) }).await });
        Self { address, admin, limiter, _stop: stop }
    }

    /// Another listener of the same gateway, which this one keeps running.
    pub(crate) fn at(&self, address: SocketAddr) -> Self {
        let (_stop, _) = oneshot::channel();
        Self { address, admin: None, limiter: self.limiter.clone(), _stop }
    }

    /// Sends these bytes, and reads until the connection is closed.
    pub(crate) async fn send(&self, bytes: impl AsRef<[u8]>) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes.as_ref()).await.unwrap();
        let mut answer = Vec::new();
        // A refused body may reset the connection after the answer.
        let _ = tokio::time::timeout(LONG, stream.read_to_end(&mut answer)).await.unwrap();
        parse(&answer)
    }

    /// A request without a body.
    pub(crate) async fn get(&self, path: &str, headers: &str) -> Reply {
        self.request("GET", path, headers, b"").await
    }

    pub(crate) async fn request(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Reply {
        let length =
            if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}{length}\r\n"
        );
        self.send([head.as_bytes(), body].concat()).await
    }
}

/// The first response in these bytes; its body without the framing of chunks.
pub(crate) fn parse(answer: &[u8]) -> Reply {
    let answer = answer.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(answer);
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap_or(answer.len());
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut reply = Reply { status, head, body: answer.get(end + 4..).unwrap_or_default().to_vec() };
    if reply.header("transfer-encoding") == "chunked" {
        reply.body = unchunked(&reply.body);
    }
    reply
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = bytes.windows(2).position(|part| part == b"\r\n") {
        let length = usize::from_str_radix(&String::from_utf8_lossy(&bytes[..end]), 16).unwrap_or(0);
        let Some(piece) = bytes.get(end + 2..end + 2 + length).filter(|piece| !piece.is_empty()) else {
            break;
        };
        whole.extend_from_slice(piece);
        bytes = bytes.get(end + 4 + length..).unwrap_or_default();
    }
    whole
}
