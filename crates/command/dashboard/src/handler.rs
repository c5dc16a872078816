//! Answers requests: finds the route, checks the right, reads the query and the body.

use std::collections::HashMap;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Method, Request};
use serde_json::{Map, Value, json};
use tollway_inbound::escapes::percent_decode;
use tollway_server::{AdminHandler, AdminRight, Administrator, HandledFuture};

use crate::answer::{Answer, Problem, asset, events, json};
use crate::dashboard::Shared;
use crate::routes::{DashboardEndpoint, Found, Route, find, openapi};
use crate::{details, live, page};

/// Answers on the administration's worker thread.
pub(crate) struct Handler(Arc<Shared>);

/// A request whose right was checked.
pub(crate) struct Asked {
    pub(crate) parameters: Vec<String>,
    query: HashMap<String, String>,
    pub(crate) administrator: Administrator,
}

impl Asked {
    /// The parameter of the path with this index.
    pub(crate) fn parameter(&self, index: usize) -> &str {
        self.parameters.get(index).map_or("", String::as_str)
    }

    /// Whether the client may read what names subjects.
    pub(crate) fn may_read(&self) -> bool {
        self.administrator.right >= AdminRight::Read
    }

    /// The value of a query parameter.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    /// The value of a query parameter that is a number.
    pub(crate) fn number(&self, name: &str) -> Result<usize, Problem> {
        let Some(text) = self.query(name) else { return Ok(0) };
        text.parse().map_err(|_| Problem::bad_request(format!("the parameter {name} must be a number")))
    }
}

impl Handler {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }
}

impl AdminHandler for Handler {
    fn answer(&self, request: Request<Incoming>, administrator: Administrator) -> HandledFuture {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            if let Some(found) = page::find(request.uri().path())
                .filter(|_| matches!(*request.method(), Method::GET | Method::HEAD))
            {
                return asset(found, request.headers());
            }
            answer(&shared, request, administrator).await.unwrap_or_else(Problem::into_answer)
        })
    }

    fn openapi_paths(&self) -> Map<String, Value> {
        openapi()
    }
}

async fn answer(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    administrator: Administrator,
) -> Result<Answer, Problem> {
    let Found { route, parameters } = find(request.method(), request.uri().path())?;
    check_right(route, &administrator)?;
    let query = read_query(request.uri().query(), route.query)?;
    let asked = Asked { parameters, query, administrator };
    match route.operation {
        DashboardEndpoint::Live => {
            let viewer = shared.feed.watch().ok_or_else(too_many_viewers)?;
            Ok(events(live::body(viewer)))
        }
        DashboardEndpoint::Me => Ok(me(&asked.administrator)),
        DashboardEndpoint::Policies => details::policies::list(shared, &asked).await,
        DashboardEndpoint::Policy => details::policy::one(shared, &asked).await,
        DashboardEndpoint::PolicyHistory => details::policy::history(shared, &asked),
        DashboardEndpoint::PolicySubjects => details::subjects::of_policy(shared, &asked).await,
        DashboardEndpoint::Api => details::apis::one(shared, &asked),
        DashboardEndpoint::Incidents => details::incidents::list(shared).await,
        DashboardEndpoint::Incident => details::incidents::one(shared, &asked).await,
        #[cfg(feature = "pipeline")]
        DashboardEndpoint::Pipeline(operation) => {
            crate::pipelines::answer(operation, shared, &asked, request).await
        }
    }
}

/// What the client may do: the page shows only that.
fn me(administrator: &Administrator) -> Answer {
    let right = match administrator.right {
        AdminRight::Nothing => "nothing",
        AdminRight::Overview => "overview",
        AdminRight::Read => "read",
        AdminRight::Write => "write",
    };
    json(&json!({ "right": right, "who": administrator.to_string() }))
}

fn check_right(route: &Route, administrator: &Administrator) -> Result<(), Problem> {
    let Administrator { right, .. } = administrator;
    if *right >= route.needs {
        return Ok(());
    }
    if *right == AdminRight::Read {
        let detail = "this token may read but not change anything: set `write` in [server.tokens], or start with \
                      `--dashboard write` and open its link";
        return Err(Problem::new(403, "urn:tollway:may-not-write", "this needs the right to write", detail));
    }
    let detail = match route.needs {
        AdminRight::Nothing | AdminRight::Overview => {
            "this needs a token that may read: open the link that the program printed, or enter the token of `read` in \
             [server.tokens]"
        }
        _ => {
            "subjects, data of jobs and changes always need a token: open the link that the program printed, or set `read` \
             or `write` in [server.tokens], as in `read = \"file:/etc/tollway/read-token\"`"
        }
    };
    Err(Problem::new(401, "urn:tollway:no-token", "no valid token", detail))
}

fn too_many_viewers() -> Problem {
    let detail = "too many pages are open; close some, or wait";
    Problem::new(503, "urn:tollway:too-many-viewers", "too many viewers", detail)
}

/// Percent-decoded names and values; a name that the route does not know is an error.
fn read_query(query: Option<&str>, known: &[&str]) -> Result<HashMap<String, String>, Problem> {
    let mut pairs = HashMap::new();
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |text: &str| percent_decode(&text.replace('+', " "));
        let decoded = decode(name).zip(decode(value));
        let (name, value) =
            decoded.ok_or_else(|| Problem::bad_request("the query is not percent-encoded UTF-8"))?;
        if !known.contains(&name.as_str()) {
            let name: String = name.chars().take(80).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Problem::bad_request(format!("{name:?} is not a parameter here; there are {known}")));
        }
        if pairs.insert(name, value).is_some() {
            return Err(Problem::bad_request("a parameter occurs twice"));
        }
    }
    Ok(pairs)
}
