//! Listening sockets: bound by the caller of the server, so that a test can use any free port.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tollway_inbound::address::Peer;

use crate::bounds::BACKLOG;
use crate::socket::Accepted;
use crate::socket_file::{SocketFile, bind_unix};
use crate::{ListenAddress, ServeError, ServerConfig};

/// What a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// Decisions; no token is needed.
    Decisions,
    /// Administration, with a token.
    Administration,
    /// Decisions for Envoy, gRPC only; no token is needed.
    Grpc,
    /// Decisions in the Redis protocol, optionally with a token.
    Resp,
    /// Administration of a program that serves nothing else; with a token unless it is local.
    Program,
    /// Calls of vendors, which [`HttpHandler`](crate::HttpHandler) answers; optionally with a token.
    Gateway,
}

impl ListenerKind {
    /// The section of the config that its names and web pages are in.
    pub(crate) fn section(self) -> &'static str {
        if self == Self::Gateway { "[gateway]" } else { "[server]" }
    }

    /// Whether it closes after the decisions, and has connections of its own.
    pub(crate) fn is_administration(self) -> bool {
        matches!(self, Self::Administration | Self::Program)
    }
}

/// The listening sockets of a server.
#[derive(Debug, Default)]
pub struct Listeners(pub(crate) Vec<(ListenerKind, Listener)>);

impl Listeners {
    /// Binds every address that the config names. Must be called on a tokio runtime with I/O.
    pub async fn bind(config: &ServerConfig) -> Result<Self, ServeError> {
        let mut listeners = vec![(ListenerKind::Decisions, Listener::bind(&config.listen).await?)];
        if let Some(admin) = &config.admin {
            listeners.push((ListenerKind::Administration, Listener::bind(admin).await?));
        }
        if let Some(grpc) = &config.grpc {
            listeners.push((ListenerKind::Grpc, Listener::bind(grpc).await?));
        }
        if let Some(resp) = &config.resp {
            listeners.push((ListenerKind::Resp, Listener::bind(resp).await?));
        }
        Ok(Self(listeners))
    }

    /// Binds the address of a program's administration ([`Server::for_program`](crate::Server::for_program)).
    pub async fn bind_program(address: SocketAddr) -> Result<Self, ServeError> {
        let listener = Listener::bind(&ListenAddress::Tcp(address)).await?;
        Ok(Self(vec![(ListenerKind::Program, listener)]))
    }

    /// Binds the address of a gateway ([`Server::for_gateway`](crate::Server::for_gateway)).
    pub async fn bind_gateway(config: &ServerConfig) -> Result<Self, ServeError> {
        Ok(Self(vec![(ListenerKind::Gateway, Listener::bind(&config.listen).await?)]))
    }

    /// Opens a listener at the first address that is free, if any is; returns it. For an administration whose address the
    /// config does not name.
    pub async fn bind_first_free(
        &mut self,
        kind: ListenerKind,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Option<ListenAddress> {
        for address in addresses {
            if let Ok(listener) = Listener::bind(&ListenAddress::Tcp(address)).await {
                let address = listener.address();
                self.0.push((kind, listener));
                return Some(address);
            }
        }
        None
    }

    /// The address of each listener.
    pub fn addresses(&self) -> Vec<(ListenerKind, ListenAddress)> {
        self.0.iter().map(|(kind, listener)| (*kind, listener.address())).collect()
    }
}

/// Who can reach a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Processes of this machine, over a unix socket.
    Unix,
    /// Processes of this machine, over TCP. Its browsers, too, and so every web page they show.
    Loopback,
    /// Other machines.
    Network,
}

/// One listening socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener, SocketAddr),
    /// The file is removed before the socket is closed: until then no other process can bind it.
    Unix(SocketFile, UnixListener),
}

impl Listener {
    async fn bind(address: &ListenAddress) -> Result<Self, ServeError> {
        let bound = match address {
            ListenAddress::Tcp(address) => bind_tcp(*address),
            ListenAddress::Unix { path, mode } => {
                bind_unix(path, *mode).await.map(|(file, listener)| Self::Unix(file, listener))
            }
        };
        bound.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => ServeError::Taken(address.clone()),
            _ => ServeError::Listen { address: address.clone(), error },
        })
    }

    pub(crate) fn address(&self) -> ListenAddress {
        match self {
            Self::Tcp(_, address) => ListenAddress::Tcp(*address),
            Self::Unix(file, _) => ListenAddress::Unix { path: file.path().to_owned(), mode: None },
        }
    }

    pub(crate) fn reach(&self) -> Reach {
        match self {
            Self::Unix(..) => Reach::Unix,
            Self::Tcp(_, address) if address.ip().to_canonical().is_loopback() => Reach::Loopback,
            Self::Tcp(..) => Reach::Network,
        }
    }

    /// Accepts the next connection and detaches it from this runtime, so that a worker thread can take it over.
    pub(crate) async fn accept(&self) -> io::Result<(Accepted, Peer)> {
        match self {
            Self::Tcp(listener, _) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Accepted::Tcp(stream.into_std()?), Peer::Address(peer.ip())))
            }
            Self::Unix(_, listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Accepted::Unix(stream.into_std()?), Peer::Unix))
            }
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<Listener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Otherwise a restart fails for a minute, while old connections are in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    Ok(Listener::Tcp(listener, address))
}
