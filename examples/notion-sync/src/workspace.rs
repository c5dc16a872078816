//! A stand-in for Notion: the simulated vendor decides about every call and words the refusals as Notion does; accepted
//! calls are answered with data of the shape that Notion's pages document.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tollway::{Clock, Limiter, Span, Timestamp};
use tollway_vendor::server::VendorDialect;
use tollway_vendor::{CallCost, Outcome, Terms, Vendor};

use crate::BoxError;

const USERS: usize = 7;
const DATABASES: [&str; 3] = ["policies", "risks", "vendors"];
const BLOCKS_OF_A_PAGE: usize = 3;

/// The items in one page of a list. Notion's are up to 100.
const PAGE_SIZE: usize = 5;

/// The longest body of a request that is read.
const BODY_BYTES_MAX: usize = 1 << 16;

/// How long an answer takes.
const LATENCY: Span = Span::from_millis(100);

/// A running stand-in; it stops when dropped.
pub(crate) struct Workspace {
    stand_in: Arc<StandIn>,
    url: String,
    serving: JoinHandle<io::Result<()>>,
}

struct StandIn {
    dialect: &'static VendorDialect,
    clock: Arc<dyn Clock>,
    state: Mutex<VendorState>,
    /// Pages in each database.
    pages: usize,
}

struct VendorState {
    vendor: Vendor,
    calls: Vec<(Timestamp, Outcome)>,
}

impl Workspace {
    /// Starts it on a free port, with so many pages in each database.
    pub(crate) async fn start(terms: Terms, pages: usize) -> Result<Self, BoxError> {
        let dialect = VendorDialect::by_name("notion").ok_or("no such dialect")?;
        let clock = machine_clock();
        let state = Mutex::new(VendorState { vendor: Vendor::new(terms, 1), calls: Vec::new() });
        let stand_in = Arc::new(StandIn { dialect, clock, state, pages });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let app = Router::new().fallback(answer).with_state(Arc::clone(&stand_in));
        let serving = tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { stand_in, url, serving })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// How many calls were accepted, and how many refused.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.stand_in.lock();
        let accepted = state.calls.iter().filter(|(_, outcome)| *outcome == Outcome::Accepted).count();
        (accepted, state.calls.len() - accepted)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The clock of the machine, by which the vendor counts.
pub(crate) fn machine_clock() -> Arc<dyn Clock> {
    Arc::clone(Limiter::builder().build().clock())
}

async fn answer(State(stand_in): State<Arc<StandIn>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return of(StatusCode::PAYLOAD_TOO_LARGE, Body::empty());
    };
    let said = stand_in.decide();
    tokio::time::sleep(LATENCY.into()).await;
    if !said.status.is_success() {
        let mut response = of(said.status, Body::from(said.body.unwrap_or_default()));
        response.headers_mut().extend(said.headers);
        return response;
    }
    match stand_in.data(head.uri.path(), cursor(head.uri.query(), &body)) {
        Some(data) => of(StatusCode::OK, Body::from(data.to_string())),
        None => of(StatusCode::NOT_FOUND, Body::from(json!({ "object": "error" }).to_string())),
    }
}

fn of(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Where a list goes on: in the query of a GET, in the body of a POST.
fn cursor(query: Option<&str>, body: &Bytes) -> usize {
    let mut pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let in_query = pairs.find(|(name, _)| name == "start_cursor").map(|(_, value)| value.into_owned());
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let cursor = in_query.or_else(|| body["start_cursor"].as_str().map(str::to_owned));
    cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0)
}

impl StandIn {
    fn lock(&self) -> std::sync::MutexGuard<'_, VendorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the limit allows a call, in the vendor's words.
    fn decide(&self) -> tollway_vendor::server::VendorAnswer {
        let mut state = self.lock();
        let ruling = state.vendor.rule(self.clock.now(), CallCost::default());
        state.calls.push((ruling.at, ruling.outcome));
        self.dialect.answer(&ruling)
    }

    /// One page of the list at this path.
    fn data(&self, path: &str, from: usize) -> Option<Value> {
        let parts: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
        Some(match parts[..] {
            ["users"] => list(USERS, from, |n| json!({ "object": "user", "id": format!("user-{n}") })),
            ["search"] => {
                list(DATABASES.len(), from, |n| json!({ "object": "database", "id": DATABASES[n] }))
            }
            ["databases", id, "query"] if DATABASES.contains(&id) => {
                list(self.pages, from, |n| json!({ "object": "page", "id": format!("{id}-{n}") }))
            }
            ["blocks", page, "children"] => list(BLOCKS_OF_A_PAGE, from, |n| {
                let text = json!([{ "plain_text": format!("Paragraph {n} of {page}.") }]);
                json!({ "object": "block", "type": "paragraph", "paragraph": { "rich_text": text } })
            }),
            _ => return None,
        })
    }
}

fn list(length: usize, from: usize, item: impl Fn(usize) -> Value) -> Value {
    let to = from.saturating_add(PAGE_SIZE).min(length);
    let results: Vec<Value> = (from..to).map(item).collect();
    let has_more = to < length;
    json!({
        "object": "list",
        "results": results,
        "has_more": has_more,
        "next_cursor": has_more.then(|| to.to_string()),
    })
}
