//! A stand-in for the vendor's REST API, which counts requests by the clock's minute and refuses those above the limit.
//!
//! ```text
//! POST /assets                    {"mediaType": "application/pdf"}      {"assetID": ..., "uploadUri": ...}
//! PUT  uploadUri                  the file
//! POST /operation/autotag         {"assetID": ...}                      {"status": "done", "tagged-pdf": {"downloadUri": ...}}
//! POST /operation/extractpdf      {"assetID": ...}                      {"status": "done", "content": {"downloadUri": ...}}
//! GET  downloadUri                the result
//! ```
//!
//! Operations count against the limit; files do not. The real API answers an operation with the address of a job to poll.
//! Here the answer comes when the operation is done.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tollway::{Clock, Limiter, Span};
use tollway_vendor::server::{VendorAnswer, VendorDialect};
use tollway_vendor::{CallCost, Terms, Vendor, WindowStart};

use crate::vendor_log::VendorLog;
use crate::{BoxError, pdf};

/// The longest body of a request.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The most files that it keeps; the oldest is dropped for a new one.
const ASSETS_MAX: usize = 10_000;

/// A running stand-in; it stops when dropped.
pub(crate) struct VendorApi {
    address: SocketAddr,
    serving: JoinHandle<io::Result<()>>,
}

/// How it behaves.
pub(crate) struct VendorSettings<'a> {
    pub(crate) listen: SocketAddr,
    /// What it allows: `200 requests / minute`.
    pub(crate) limit: &'a str,
    /// How long an operation takes.
    pub(crate) latency: Span,
    /// A line of JSON for every operation goes to the end of this file.
    pub(crate) log: &'a Path,
}

struct StandIn {
    dialect: &'static VendorDialect,
    clock: Arc<dyn Clock>,
    latency: Span,
    url: String,
    state: Mutex<StandInState>,
}

struct StandInState {
    vendor: Vendor,
    log: VendorLog,
    assets: BTreeMap<u64, Vec<u8>>,
    next_asset: u64,
}

impl VendorApi {
    pub(crate) async fn start(settings: VendorSettings<'_>) -> Result<Self, BoxError> {
        let clock = Arc::clone(Limiter::builder().build().clock());
        let mut terms = Terms::new(Vec::new());
        terms.add_limit(settings.limit, WindowStart { phase: Span::ZERO, now: clock.now() })?;
        let log = VendorLog::open(settings.log)?;
        let listener = TcpListener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        let vendor = Vendor::new(terms, 1);
        let stand_in = Arc::new(StandIn {
            dialect: VendorDialect::by_name("http").ok_or("no dialect of plain HTTP")?,
            clock,
            latency: settings.latency,
            url: format!("http://{address}"),
            state: Mutex::new(StandInState { vendor, log, assets: BTreeMap::new(), next_asset: 1 }),
        });
        let app = Router::new().fallback(answer).with_state(stand_in);
        let serving = tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { address, serving })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers until the server fails.
    pub(crate) async fn serve(mut self) -> Result<(), BoxError> {
        Ok((&mut self.serving).await??)
    }
}

impl Drop for VendorApi {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A response that is no success.
type Refusal = (StatusCode, &'static str);

async fn answer(State(stand_in): State<Arc<StandIn>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return refusal((StatusCode::PAYLOAD_TOO_LARGE, "the body is too long"));
    };
    let parts: Vec<&str> = head.uri.path().trim_matches('/').split('/').collect();
    let answered = match (&head.method, &parts[..]) {
        (&Method::POST, ["assets"]) => Ok(json_response(&stand_in.new_asset(Vec::new(), "uploadUri"))),
        (&Method::PUT, ["assets", number]) => stand_in.upload(number, body.to_vec()),
        (&Method::GET, ["assets", number]) => stand_in.download(number),
        (&Method::POST, ["operation", operation @ ("autotag" | "extractpdf")]) => {
            stand_in.operate(operation, &body).await
        }
        _ => Err((StatusCode::NOT_FOUND, "there is no such endpoint")),
    };
    answered.unwrap_or_else(refusal)
}

impl StandIn {
    fn lock(&self) -> MutexGuard<'_, StandInState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a file. Its address has the given name.
    fn new_asset(&self, bytes: Vec<u8>, address: &str) -> Value {
        let mut state = self.lock();
        let number = state.next_asset;
        state.next_asset += 1;
        if state.assets.len() == ASSETS_MAX {
            state.assets.pop_first();
        }
        state.assets.insert(number, bytes);
        json!({ "assetID": format!("urn:aaid:{number}"), address: format!("{}/assets/{number}", self.url) })
    }

    fn upload(&self, number: &str, bytes: Vec<u8>) -> Result<Response, Refusal> {
        let mut state = self.lock();
        let asset = number.parse().ok().and_then(|number: u64| state.assets.get_mut(&number));
        *asset.ok_or((StatusCode::NOT_FOUND, "there is no such asset"))? = bytes;
        Ok(Response::new(Body::empty()))
    }

    fn download(&self, number: &str) -> Result<Response, Refusal> {
        let state = self.lock();
        let asset = number.parse().ok().and_then(|number: u64| state.assets.get(&number).cloned());
        Ok(Response::new(Body::from(asset.ok_or((StatusCode::NOT_FOUND, "there is no such asset"))?)))
    }

    /// Decides at once, and answers when the operation is done.
    async fn operate(&self, operation: &str, body: &[u8]) -> Result<Response, Refusal> {
        let request: Value =
            serde_json::from_slice(body).map_err(|_| (StatusCode::BAD_REQUEST, "the body is not JSON"))?;
        let said = self.decide(operation);
        if !said.status.is_success() {
            let mut response = Response::new(Body::from(said.body.unwrap_or_default()));
            (*response.status_mut(), *response.headers_mut()) = (said.status, said.headers);
            return Ok(response);
        }
        tokio::time::sleep(self.latency.into()).await;
        let number = request["assetID"].as_str().and_then(|id| id.rsplit(':').next()?.parse::<u64>().ok());
        let asset = number.and_then(|number| self.lock().assets.remove(&number));
        let asset = asset.ok_or((StatusCode::NOT_FOUND, "there is no such asset"))?;
        let (result, name) = match operation {
            "autotag" => (pdf::tag(&asset), "tagged-pdf"),
            _ => (pdf::extract(&asset), "content"),
        };
        let result = result.map_err(|message| (StatusCode::BAD_REQUEST, message))?;
        Ok(json_response(&json!({ "status": "done", name: self.new_asset(result, "downloadUri") })))
    }

    /// Whether the limit allows a request, and its line in the log.
    fn decide(&self, operation: &str) -> VendorAnswer {
        let mut state = self.lock();
        let ruling = state.vendor.rule(self.clock.now(), CallCost::default());
        state.vendor.finish_call();
        let said = self.dialect.answer(&ruling);
        if let Err(error) = state.log.write(ruling.at, operation, said.status.as_u16()) {
            let _ = writeln!(io::stderr(), "the vendor's log cannot be written: {error}");
        }
        said
    }
}

fn json_response(body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn refusal((status, message): Refusal) -> Response {
    let mut response = json_response(&json!({ "error": { "message": message } }));
    *response.status_mut() = status;
    response
}
