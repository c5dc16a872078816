//! The table of all routes: path, operation, and the right that it needs.

use hyper::Method;
use serde_json::{Map, Value, json};
use tollway_inbound::escapes::percent_decode;
use tollway_server::AdminRight;

use crate::answer::Problem;

/// The operation of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DashboardEndpoint {
    Live,
    Me,
    Policies,
    Policy,
    PolicyHistory,
    PolicySubjects,
    Api,
    Incidents,
    Incident,
    #[cfg(feature = "pipeline")]
    Pipeline(crate::pipelines::PipelineEndpoint),
}

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Parts in braces are parameters.
    pub(crate) path: &'static str,
    pub(crate) operation: DashboardEndpoint,
    pub(crate) needs: AdminRight,
    /// The names of its query.
    pub(crate) query: &'static [&'static str],
    about: &'static str,
}

const fn get(
    path: &'static str,
    operation: DashboardEndpoint,
    needs: AdminRight,
    query: &'static [&'static str],
    about: &'static str,
) -> Route {
    Route { method: Method::GET, path, operation, needs, query, about }
}

#[cfg(feature = "pipeline")]
pub(crate) const fn change(
    method: Method,
    path: &'static str,
    operation: crate::pipelines::PipelineEndpoint,
    query: &'static [&'static str],
    about: &'static str,
) -> Route {
    let operation = DashboardEndpoint::Pipeline(operation);
    Route { method, path, operation, needs: AdminRight::Write, query, about }
}

#[cfg(feature = "pipeline")]
pub(crate) const fn read_jobs(
    path: &'static str,
    operation: crate::pipelines::PipelineEndpoint,
    needs: AdminRight,
    query: &'static [&'static str],
    about: &'static str,
) -> Route {
    get(path, DashboardEndpoint::Pipeline(operation), needs, query, about)
}

/// All but those of pipelines.
static ROUTES: [Route; 9] = [
    get(
        "/v1/live",
        DashboardEndpoint::Live,
        AdminRight::Overview,
        &[],
        "The state of the process as server-sent events: `snapshot` first, then `changes` once a second. At most 64 KiB each.",
    ),
    get(
        "/v1/view/me",
        DashboardEndpoint::Me,
        AdminRight::Nothing,
        &[],
        "What the client of this request may do.",
    ),
    get(
        "/v1/view/policies",
        DashboardEndpoint::Policies,
        AdminRight::Overview,
        &["search", "from"],
        "The limits of all policies, 50 policies at a time.",
    ),
    get(
        "/v1/view/policies/{policy}",
        DashboardEndpoint::Policy,
        AdminRight::Overview,
        &[],
        "One policy: its limits, those that operators set, and the last changes.",
    ),
    get(
        "/v1/view/policies/{policy}/history",
        DashboardEndpoint::PolicyHistory,
        AdminRight::Overview,
        &["span"],
        "The last hour or day of a policy's limits.",
    ),
    get(
        "/v1/view/policies/{policy}/subjects",
        DashboardEndpoint::PolicySubjects,
        AdminRight::Read,
        &[],
        "The subjects that this process saw most.",
    ),
    get(
        "/v1/view/apis/{api}",
        DashboardEndpoint::Api,
        AdminRight::Overview,
        &[],
        "One api: its rate, and whose the last refusals were.",
    ),
    get(
        "/v1/view/incidents",
        DashboardEndpoint::Incidents,
        AdminRight::Read,
        &[],
        "The last calls that a vendor refused although they had a permit.",
    ),
    get("/v1/view/incidents/{id}", DashboardEndpoint::Incident, AdminRight::Read, &[], "One of them."),
];

#[cfg(feature = "pipeline")]
use crate::pipelines::ROUTES as PIPELINE_ROUTES;

#[cfg(not(feature = "pipeline"))]
static PIPELINE_ROUTES: [Route; 0] = [];

/// All routes.
pub(crate) fn routes() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().chain(&PIPELINE_ROUTES)
}

/// A route with the values of its parameters.
pub(crate) struct Found {
    pub(crate) route: &'static Route,
    pub(crate) parameters: Vec<String>,
}

/// The route of a request.
pub(crate) fn find(method: &Method, path: &str) -> Result<Found, Problem> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let mut allowed = Vec::new();
    for route in routes() {
        let Some(parameters) = matches(route.path, path) else { continue };
        if route.method == method {
            return Ok(Found { route, parameters });
        }
        allowed.push(route.method.as_str());
    }
    if allowed.is_empty() {
        let path: String = path.chars().take(80).collect();
        let detail = format!("there is no path {path:?}; /openapi.json lists all");
        return Err(Problem::new(404, "urn:tollway:no-such-path", "no such path", detail));
    }
    let detail = format!("this path allows {}", allowed.join(", "));
    Err(Problem::new(405, "urn:tollway:wrong-method", "method not allowed", detail))
}

/// The values of the parameters, if the path has this form.
fn matches(form: &str, path: &str) -> Option<Vec<String>> {
    let (mut parts, mut parameters) = (path.split('/'), Vec::new());
    for part in form.split('/') {
        let given = parts.next()?;
        if part.starts_with('{') {
            parameters.push(percent_decode(given)?);
        } else if part != given {
            return None;
        }
    }
    parts.next().is_none().then_some(parameters)
}

/// The routes as `paths` of an OpenAPI document. Bodies are described in the guide: pages of the same version read them.
pub(crate) fn openapi() -> Map<String, Value> {
    let mut paths = Map::new();
    for route in routes() {
        let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = in_path.map(|name| parameter(name, "path", true));
        let in_query = route.query.iter().map(|name| parameter(name, "query", false));
        let media_type = match route.operation {
            DashboardEndpoint::Live => "text/event-stream",
            _ => "application/json",
        };
        let schema = match route.operation {
            DashboardEndpoint::Live => json!({ "type": "string" }),
            _ => json!({ "type": "object" }),
        };
        let mut described = json!({
            "operationId": operation_id(route),
            "summary": route.about,
            "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
            "responses": {
                "200": { "description": route.about, "content": { media_type: { "schema": schema } } },
                "default": { "description": "The request failed." },
            },
        });
        match route.needs {
            AdminRight::Nothing => {}
            AdminRight::Overview => described["security"] = json!([{}, { "token": [] }]),
            AdminRight::Read | AdminRight::Write => described["security"] = json!([{ "token": [] }]),
        }
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = described;
    }
    paths
}

fn operation_id(route: &Route) -> String {
    let words = route.path.split(['/', '{', '}']).filter(|word| !word.is_empty() && *word != "v1");
    let capital = |word: &str| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    };
    route.method.as_str().to_lowercase() + &words.map(capital).collect::<String>()
}

fn parameter(name: &str, place: &str, required: bool) -> Value {
    json!({ "name": name, "in": place, "required": required, "schema": { "type": "string" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_found_and_unique() {
        for route in routes() {
            let given = |part: &str| if part.starts_with('{') { "a%2Fb".to_owned() } else { part.to_owned() };
            let path = route.path.split('/').map(given).collect::<Vec<_>>().join("/");
            let found = find(&route.method, &path).ok().unwrap();
            assert!(std::ptr::eq(found.route, route), "{} {}", route.method, route.path);
            assert!(found.parameters.iter().all(|value| value == "a/b"));
        }
    }

    #[test]
    fn only_get_needs_no_right_to_write() {
        for route in routes() {
            assert_eq!(route.method == Method::GET, route.needs < AdminRight::Write, "{}", route.path);
        }
    }
}
