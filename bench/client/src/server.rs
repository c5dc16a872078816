//! A server that answers every request with the same few bytes.

use std::convert::Infallible;
use std::sync::mpsc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// What it answers.
pub(crate) const BODY: &[u8] = br#"{"object":"list","results":[],"has_more":false}"#;

/// Starts it on a thread of its own, and returns its URL.
pub(crate) fn start() -> String {
    let (send, url) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            send.send(format!("http://{}", listener.local_addr().unwrap())).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
                tokio::spawn(connection);
            }
        });
    });
    url.recv().unwrap()
}

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let response = Response::builder().header("content-type", "application/json");
    Ok(response.body(Full::new(Bytes::from_static(BODY))).unwrap())
}
