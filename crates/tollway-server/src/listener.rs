//! Sockets that are listened at: bound by whoever starts the server, so that a test can ask for any free port.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixStream};
use tollway::{ListenAddress, ServerConfig};
use tollway_inbound::address::Peer;

use crate::ServeError;
use crate::bounds::BACKLOG;
use crate::socket::Accepted;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Decisions: for everybody who can reach it.
    Decisions,
    /// Administration: for those with a token.
    Administration,
    /// Decisions for Envoy, over gRPC and nothing else: for everybody who can reach it.
    Grpc,
    /// Decisions in the Redis protocol: for everybody who can reach it, or those with a token of its own.
    Resp,
}

/// The sockets of a server.
#[derive(Debug)]
pub struct Listeners(pub(crate) Vec<(Door, Listener)>);

impl Listeners {
    /// Those that the config names. Must be called on a tokio runtime with I/O.
    pub async fn bind(config: &ServerConfig) -> Result<Self, ServeError> {
        let mut listeners = vec![(Door::Decisions, Listener::bind(&config.listen).await?)];
        if let Some(admin) = &config.admin {
            listeners.push((Door::Administration, Listener::bind(admin).await?));
        }
        if let Some(grpc) = &config.grpc {
            listeners.push((Door::Grpc, Listener::bind(grpc).await?));
        }
        if let Some(resp) = &config.resp {
            listeners.push((Door::Resp, Listener::bind(resp).await?));
        }
        Ok(Self(listeners))
    }

    /// Where they listen.
    pub fn addresses(&self) -> Vec<(Door, ListenAddress)> {
        self.0.iter().map(|(door, listener)| (*door, listener.address())).collect()
    }
}

/// One socket that is listened at.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, SocketFile),
}

/// Removes the file of a unix socket in the end, so that nobody takes it for one that is listened at.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    async fn bind(address: &ListenAddress) -> Result<Self, ServeError> {
        let bound = match address {
            ListenAddress::Tcp(address) => bind_tcp(*address),
            ListenAddress::Unix(path) => bind_unix(path.clone()).await,
        };
        bound.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => ServeError::Taken(address.clone()),
            _ => ServeError::Listen { address: address.clone(), error },
        })
    }

    pub(crate) fn address(&self) -> ListenAddress {
        match self {
            Self::Tcp(_, address) => ListenAddress::Tcp(*address),
            Self::Unix(_, file) => ListenAddress::Unix(file.0.clone()),
        }
    }

    /// The next connection, taken out of this runtime: another thread will go on with it.
    pub(crate) async fn accept(&self) -> io::Result<(Accepted, Peer)> {
        match self {
            Self::Tcp(listener, _) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Accepted::Tcp(stream.into_std()?), Peer::Address(peer.ip())))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Accepted::Unix(stream.into_std()?), Peer::Unix))
            }
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<Listener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Without it, a server that was just stopped could not be started again for a minute.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    Ok(Listener::Tcp(listener, address))
}

/// A file that nobody listens at any more is left over from a server that was killed, and is replaced.
async fn bind_unix(path: PathBuf) -> io::Result<Listener> {
    match UnixStream::connect(&path).await {
        Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(&path)?,
        Err(_) => {}
    }
    Ok(Listener::Unix(UnixListener::bind(&path)?, SocketFile(path)))
}
