//! Connections to vendors: TCP, with TLS for https, directly or through the proxy that the environment names.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector, dns};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use reqwest::dns::{Addrs, Resolve, Resolving};
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::error::BoxError;

/// How long a connection may take, with TLS. A vendor that takes longer is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be silent before TCP asks whether the vendor is there, and how long between two such questions.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 3;

/// How long what was sent may stay unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// TCP, and TLS for addresses that begin with https.
type MaybeTls = HttpsConnector<HttpConnector<Names>>;

type Connecting<S> = Pin<Box<dyn Future<Output = Result<S, BoxError>> + Send>>;

/// Connects to vendors, with TLS for https.
#[derive(Clone)]
pub(super) struct VendorConnector(HttpsConnector<Route>);

/// The way to a vendor, without its TLS.
#[derive(Clone)]
struct Route {
    tcp: HttpConnector<Names>,
    proxies: Arc<Matcher>,
    to_proxy: MaybeTls,
}

/// A connection to a vendor, or to the proxy before it.
pub(super) struct RoutedStream {
    stream: MaybeHttpsStream<TokioIo<TcpStream>>,
    /// Whether requests have to name the vendor, because a proxy reads them.
    is_read_by_proxy: bool,
}

/// Finds the addresses of names.
#[derive(Clone)]
struct Names(Arc<dyn Resolve>);

impl VendorConnector {
    /// With the certificates of the system.
    pub(super) fn new(resolver: Arc<dyn Resolve>, proxies: Arc<Matcher>) -> Result<Self, rustls::Error> {
        let mut tcp = HttpConnector::new_with_resolver(Names(resolver));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX));
        let to_proxy = ClientConfig::with_platform_verifier()?;
        let mut to_vendor = to_proxy.clone();
        to_vendor.alpn_protocols = vec![b"http/1.1".to_vec()];
        let to_proxy = HttpsConnector::from((tcp.clone(), to_proxy));
        Ok(Self(HttpsConnector::from((Route { tcp, proxies, to_proxy }, to_vendor))))
    }
}

impl Service<Uri> for VendorConnector {
    type Response = MaybeHttpsStream<RoutedStream>;
    type Error = BoxError;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, vendor: Uri) -> Self::Future {
        let connecting = self.0.call(vendor);
        Box::pin(async { tokio::time::timeout(CONNECT_TIMEOUT, connecting).await? })
    }
}

impl Service<Uri> for Route {
    type Response = RoutedStream;
    type Error = BoxError;
    type Future = Connecting<RoutedStream>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, vendor: Uri) -> Self::Future {
        let Some(proxy) = self.proxies.intercept(&vendor) else {
            let connecting = self.tcp.call(vendor);
            return Box::pin(async {
                let stream = MaybeHttpsStream::Http(connecting.await?);
                Ok(RoutedStream { stream, is_read_by_proxy: false })
            });
        };
        if vendor.scheme() == Some(&Scheme::HTTPS) {
            let mut tunnel = Tunnel::new(proxy.uri().clone(), self.to_proxy.clone());
            if let Some(credential) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(credential.clone());
            }
            let connecting = tunnel.call(vendor);
            return Box::pin(async {
                Ok(RoutedStream { stream: connecting.await?, is_read_by_proxy: false })
            });
        }
        let connecting = self.to_proxy.call(proxy.uri().clone());
        Box::pin(async { Ok(RoutedStream { stream: connecting.await?, is_read_by_proxy: true }) })
    }
}

impl Service<dns::Name> for Names {
    type Response = Addrs;
    type Error = BoxError;
    type Future = Resolving;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: dns::Name) -> Resolving {
        match name.as_str().parse() {
            Ok(name) => self.0.resolve(name),
            Err(error) => Box::pin(std::future::ready(Err(BoxError::from(error)))),
        }
    }
}

impl Connection for RoutedStream {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.is_read_by_proxy)
    }
}

impl Read for RoutedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for RoutedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
