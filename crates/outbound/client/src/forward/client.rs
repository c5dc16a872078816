//! The HTTP client for calls of other programs: hyper's, with connections that stay open.
//!
//! It is the one under reqwest, without what reqwest puts above it for requests that a program writes itself: it would copy
//! the headers twice and parse the address three times for each call, although no redirect is followed.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, PROXY_AUTHORIZATION};
use http::uri::Scheme;
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use reqwest::dns::Resolve;

use super::body::ForwardBody;
use super::connection::VendorConnector;
use crate::attempts::{Exchange, SendError};
use crate::error::ClientError;
use crate::tls::use_ring;

/// How long an idle connection is kept: shorter than most vendors keep it, so that a call does not meet its end.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// An HTTP client for [`ApiLimiter::forward`](crate::ApiLimiter::forward). It follows no redirects, decodes no bodies, and
/// uses the proxies that the environment names. Clones share its connections.
#[derive(Clone)]
pub struct ForwardingClient {
    http: Client<VendorConnector, ForwardBody>,
    proxies: Arc<Matcher>,
}

impl ForwardingClient {
    /// One that connects to the addresses that `resolver` finds.
    pub fn new(resolver: Arc<dyn Resolve>) -> Result<Self, ClientError> {
        Self::with_proxies(resolver, Matcher::from_env())
    }

    fn with_proxies(resolver: Arc<dyn Resolve>, proxies: Matcher) -> Result<Self, ClientError> {
        use_ring();
        let proxies = Arc::new(proxies);
        let connector = VendorConnector::new(resolver, Arc::clone(&proxies))
            .map_err(|error| ClientError::Http(error.into()))?;
        let http = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .build(connector);
        Ok(Self { http, proxies })
    }

    /// Sends a request as it is, without limits.
    pub async fn send(&self, mut request: Request<ForwardBody>) -> Result<Response<Incoming>, Error> {
        request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        // A tunnel to https tells the proxy its credential when it is made.
        if request.uri().scheme() == Some(&Scheme::HTTP)
            && let Some(proxy) = self.proxies.intercept(request.uri())
            && let Some(credential) = proxy.basic_auth()
        {
            request.headers_mut().entry(PROXY_AUTHORIZATION).or_insert(credential.clone());
        }
        self.http.request(request).await
    }
}

/// A request on its way, several times if it has to be.
pub(super) struct ForwardExchange<'c> {
    pub(super) http: &'c ForwardingClient,
    pub(super) request: Option<Request<ForwardBody>>,
}

impl Exchange for ForwardExchange<'_> {
    type Body = Incoming;

    fn can_repeat(&self) -> bool {
        self.request.is_some()
    }

    async fn send(&mut self) -> Option<Result<Response<Incoming>, SendError>> {
        let request = self.request.take()?;
        self.request = copy(&request);
        let sent = self.http.send(request).await;
        Some(sent.map_err(|error| SendError { unsent: error.is_connect(), error: error.into() }))
    }
}

/// The same request; none if its body is a stream.
fn copy(request: &Request<ForwardBody>) -> Option<Request<ForwardBody>> {
    let mut copy = Request::new(ForwardBody::Whole(request.body().whole()?.clone()));
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::mpsc;

    use bytes::Bytes;
    use reqwest::dns::{Name, Resolving};

    use super::*;

    /// What a proxy read first, and what came after its answer.
    type Seen = mpsc::Receiver<Vec<u8>>;

    fn proxy(answer: &'static str) -> (SocketAddr, Seen) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, (send, seen)) = (listener.local_addr().unwrap(), mpsc::channel());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; 4_096];
            let length = stream.read(&mut bytes).unwrap();
            send.send(bytes[..length].to_vec()).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            let length = stream.read(&mut bytes).unwrap_or(0);
            let _ = send.send(bytes[..length].to_vec());
        });
        (address, seen)
    }

    struct NoNames;

    impl Resolve for NoNames {
        fn resolve(&self, _name: Name) -> Resolving {
            Box::pin(std::future::ready(Err("the proxy finds the vendor".into())))
        }
    }

    async fn send(proxies: Matcher, uri: &str) -> Result<Response<Incoming>, Error> {
        let client = ForwardingClient::with_proxies(Arc::new(NoNames), proxies).unwrap();
        client.send(Request::get(uri).body(ForwardBody::Whole(Bytes::new())).unwrap()).await
    }

    #[tokio::test]
    async fn a_proxy_reads_requests_of_http() {
        let (address, seen) = proxy("HTTP/1.1 204 No Content\r\n\r\n");
        let proxies = Matcher::builder().all(format!("http://user:word@{address}")).build();
        let response = send(proxies, "http://vendor.test/v1/models?a=b").await.unwrap();
        assert_eq!(response.status(), 204);
        let head = String::from_utf8(seen.recv().unwrap()).unwrap();
        assert!(head.starts_with("GET http://vendor.test/v1/models?a=b HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("host: vendor.test\r\n"), "{head}");
        assert!(head.contains("proxy-authorization: Basic dXNlcjp3b3Jk\r\n"), "{head}");
    }

    #[tokio::test]
    async fn https_goes_through_a_tunnel() {
        let (address, seen) = proxy("HTTP/1.1 200 OK\r\n\r\n");
        let proxies = Matcher::builder().https(format!("http://user:word@{address}")).build();
        let error = send(proxies, "https://vendor.test/v1/models").await.unwrap_err();
        assert!(error.is_connect(), "{error}");
        let head = String::from_utf8(seen.recv().unwrap()).unwrap();
        assert!(head.starts_with("CONNECT vendor.test:443 HTTP/1.1\r\n"), "{head}");
        assert!(head.to_lowercase().contains("proxy-authorization: basic dxnlcjp3b3jk\r\n"), "{head}");
        let hello = seen.recv().unwrap();
        assert_eq!(hello.first(), Some(&0x16), "TLS begins behind the proxy");
    }

    #[tokio::test]
    async fn names_without_a_proxy_are_looked_up_here() {
        let (address, seen) = proxy("");
        let proxies = Matcher::builder().all(format!("http://{address}")).no("vendor.test").build();
        let error = send(proxies, "http://vendor.test/").await.unwrap_err();
        assert!(error.is_connect(), "{error}");
        assert!(seen.try_recv().is_err());
    }
}
