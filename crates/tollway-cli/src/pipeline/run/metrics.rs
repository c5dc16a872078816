//! `/metrics` of a running pipeline, for Prometheus.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tollway::Limiter;
use tollway::metrics::{Sample, prometheus_text};
use tollway_pipeline::PipelineConfig;
use tollway_pipeline::run::{Runner, metrics};

use crate::failure::{Exit, Failure};

/// Open connections: a few scrapers. Others wait.
const CONNECTIONS_MAX: usize = 16;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a scrape waits for the engine: shorter than scrapers wait.
const PROGRESS_WITHIN: Duration = Duration::from_secs(5);

/// How long to wait for the last scrape at the end.
const LAST_SCRAPE_WITHIN: Duration = Duration::from_secs(2);

/// Serves until it is dropped.
pub(super) struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) async fn serve(
    address: SocketAddr,
    config: &PipelineConfig,
    runner: Arc<Runner>,
    limiter: Limiter,
) -> Result<Serving, Failure> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::new(Exit::FAILED, format!("cannot serve metrics at {address}: {error}"))
            .advise("choose another address: --metrics 127.0.0.1:9464")
    })?;
    let address = listener.local_addr().unwrap_or(address);
    tracing::info!("metrics at http://{address}/metrics");
    let source = Arc::new(Source { pipeline: config.name.to_string(), runner, limiter });
    Ok(Serving(tokio::spawn(accept(listener, source))))
}

/// The runner alone, after its metrics are no longer served.
pub(super) async fn unshare(mut runner: Arc<Runner>) -> Option<Runner> {
    let within = tokio::time::Instant::now() + LAST_SCRAPE_WITHIN;
    loop {
        match Arc::try_unwrap(runner) {
            Ok(alone) => return Some(alone),
            Err(shared) if tokio::time::Instant::now() < within => {
                runner = shared;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(_) => return None,
        }
    }
}

struct Source {
    pipeline: String,
    runner: Arc<Runner>,
    limiter: Limiter,
}

impl Source {
    /// While the engine is away, that is all that is known of the pipeline.
    async fn samples(&self) -> Vec<Sample> {
        let mut samples = self.limiter.samples().await;
        let progress = match self.runner.engine_outage() {
            Some(_) => None,
            None => {
                tokio::time::timeout(PROGRESS_WITHIN, self.runner.progress()).await.ok().and_then(Result::ok)
            }
        };
        samples.extend(metrics::engine_samples(&self.pipeline, self.runner.engine_outage().as_ref()));
        samples.extend(progress.iter().flat_map(|progress| metrics::samples(&self.pipeline, progress)));
        samples
    }
}

async fn accept(listener: TcpListener, source: Arc<Source>) {
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    while let Ok(slot) = free.clone().acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let source = source.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| answer(source.clone(), request));
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
            // An error is the client's: it went away, or it does not speak HTTP.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            drop(slot);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(
    source: Arc<Source>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => (StatusCode::OK, prometheus_text(&source.samples().await)),
        _ => (StatusCode::NOT_FOUND, "there is only GET /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
