//! Minimal HTTP client for the status of a server.

use std::borrow::Cow;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

/// Timeout for a request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest response that is read; the expected ones have a few hundred bytes.
const RESPONSE_BYTES_MAX: u64 = 64 << 10;

/// The administration address of a server: `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server(String);

/// A JSON response.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl FromStr for Server {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Self, &'static str> {
        const WRITE: &str = "write the administration address, e.g. http://127.0.0.1:9090";
        let text = if url.contains("://") { Cow::Borrowed(url) } else { format!("http://{url}").into() };
        let parsed = Url::parse(&text).map_err(|_| WRITE)?;
        if parsed.scheme() == "https" {
            return Err("TLS is not supported here; compare its config instead: --compare CONFIG");
        }
        // `Url` drops the scheme's default port, but an address without a port is probably a mistake.
        let is_80 = text.trim_end_matches('/').ends_with(":80");
        let port = parsed.port().or_else(|| is_80.then_some(80)).ok_or(WRITE)?;
        let host = parsed.host_str().ok_or(WRITE)?;
        let alone = Url::parse(&format!("http://{host}:{port}")).map_err(|_| WRITE)?;
        if parsed != alone {
            return Err(WRITE);
        }
        Ok(Self(format!("{host}:{port}")))
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}", self.0)
    }
}

impl Server {
    pub(super) async fn get(&self, path: &str, token: Option<&str>) -> io::Result<Response> {
        match tokio::time::timeout(TIMEOUT, self.ask(path, token)).await {
            Ok(response) => response,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn ask(&self, path: &str, token: Option<&str>) -> io::Result<Response> {
        let mut stream = TcpStream::connect(&self.0).await?;
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{token}\r\n", self.0);
        stream.write_all(request.as_bytes()).await?;
        let mut response = Vec::new();
        stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut response).await?;
        read(&String::from_utf8_lossy(&response)).ok_or_else(|| io::Error::other("the response is not HTTP"))
    }
}

fn read(response: &str) -> Option<Response> {
    let (head, body) = response.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some(Response { status, body: serde_json::from_str(body).unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_address_is_host_and_port() {
        for url in ["http://127.0.0.1:9090", "http://127.0.0.1:9090/", "127.0.0.1:9090"] {
            assert_eq!(url.parse::<Server>().unwrap().to_string(), "http://127.0.0.1:9090");
        }
        for url in ["http://[::1]:9090", "http://localhost:80", "localhost:80"] {
            assert!(url.parse::<Server>().unwrap().to_string().ends_with(url.trim_start_matches("http://")));
        }
        for url in [
            "",
            "http://",
            "http://host",
            "http://host:x",
            "http://host:1/path",
            "http://host:1?query",
            "http://me:secret@host:1",
            "ftp://host:1",
            "https://host:1",
        ] {
            assert!(url.parse::<Server>().is_err(), "{url}");
        }
    }

    #[test]
    fn response_is_status_and_json() {
        let response = read("HTTP/1.1 200 OK\r\nx: y\r\n\r\n{\"a\": 1}").unwrap();
        assert_eq!((response.status, &response.body["a"]), (200, &1.into()));
        assert!(read("hello").is_none() && read("HTTP/1.1 x\r\n\r\n").is_none());
    }
}
