//! The table of all routes: path, endpoint, required access, and what is checked of the caller.

use hyper::Method;
use tollway_inbound::paths::path_parameters;

use super::caller_check::CallerCheck;
use super::problem::Problem;
#[cfg(feature = "consumers")]
use crate::consumers::{JsonShape, Management, ROUTES as CONSUMER_ROUTES};
use crate::listener::ListenerKind;

/// The endpoint of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Take,
    Begin,
    Settle,
    Done,
    Return,
    Renew,
    Observe,
    Authorize,
    OpenApi,
    Health,
    Ready,
    Metrics,
    Policies,
    Usage,
    Reset,
    SetLimit,
    ClearLimit,
    RedisHealth,
    /// Management of consumers.
    #[cfg(feature = "consumers")]
    Manage(Management, JsonShape),
}

impl Endpoint {
    /// Whether orchestrators ask it to see that the server lives.
    pub(crate) fn is_health(self) -> bool {
        matches!(self, Self::Health | Self::Ready | Self::RedisHealth)
    }
}

/// The access that a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No token.
    Open,
    /// A token for decisions, if the config has one.
    Decide,
    /// A token for decisions; without one in the config, only programs on this machine.
    DecideHere,
    /// A token that may read.
    Read,
    /// A token that may write.
    Write,
}

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) listener: ListenerKind,
    pub(crate) method: Method,
    /// Parts in braces are parameters.
    pub(crate) path: &'static str,
    pub(crate) endpoint: Endpoint,
    pub(crate) access: Access,
    pub(crate) check: CallerCheck,
}

impl Route {
    /// Whether the response changes over time and could be cached on its way, since it answers a GET.
    pub(crate) fn changes(&self) -> bool {
        self.method == Method::GET && self.endpoint != Endpoint::OpenApi
    }
}

const fn decision(method: Method, path: &'static str, endpoint: Endpoint, check: CallerCheck) -> Route {
    let access = match endpoint {
        Endpoint::OpenApi => Access::Open,
        // What is reported holds back every process.
        Endpoint::Observe => Access::DecideHere,
        _ => Access::Decide,
    };
    Route { listener: ListenerKind::Decisions, method, path, endpoint, access, check }
}

pub(crate) const fn administration(
    method: Method,
    path: &'static str,
    endpoint: Endpoint,
    access: Access,
) -> Route {
    let check = CallerCheck::HostAndPage;
    Route { listener: ListenerKind::Administration, method, path, endpoint, access, check }
}

/// All but those of consumers, the most frequent first.
static ROUTES: [Route; 20] = [
    decision(Method::POST, "/v1/take", Endpoint::Take, CallerCheck::HostAndPage),
    decision(Method::GET, "/v1/authorize", Endpoint::Authorize, CallerCheck::Proxied),
    decision(Method::POST, "/v1/authorize", Endpoint::Authorize, CallerCheck::Proxied),
    decision(Method::POST, "/v1/begin", Endpoint::Begin, CallerCheck::HostAndPage),
    decision(Method::POST, "/v1/settle", Endpoint::Settle, CallerCheck::HostAndPage),
    decision(Method::POST, "/v1/done", Endpoint::Done, CallerCheck::HostAndPage),
    decision(Method::POST, "/v1/return", Endpoint::Return, CallerCheck::HostAndPage),
    decision(Method::POST, "/v1/renew", Endpoint::Renew, CallerCheck::HostAndPage),
    decision(Method::POST, "/v1/observe", Endpoint::Observe, CallerCheck::HostAndPage),
    decision(Method::GET, "/openapi.json", Endpoint::OpenApi, CallerCheck::Host),
    administration(Method::GET, "/health", Endpoint::Health, Access::Open),
    administration(Method::GET, "/ready", Endpoint::Ready, Access::Open),
    administration(Method::GET, "/openapi.json", Endpoint::OpenApi, Access::Open),
    administration(Method::GET, "/metrics", Endpoint::Metrics, Access::Read),
    administration(Method::GET, "/v1/policies", Endpoint::Policies, Access::Read),
    administration(Method::GET, "/v1/usage", Endpoint::Usage, Access::Read),
    administration(Method::POST, "/v1/reset", Endpoint::Reset, Access::Write),
    administration(Method::PUT, "/v1/policies/{policy}/limits/{limit}", Endpoint::SetLimit, Access::Write),
    administration(
        Method::DELETE,
        "/v1/policies/{policy}/limits/{limit}",
        Endpoint::ClearLimit,
        Access::Write,
    ),
    administration(Method::GET, "/health/redis", Endpoint::RedisHealth, Access::Open),
];

#[cfg(not(feature = "consumers"))]
static CONSUMER_ROUTES: [Route; 0] = [];

/// The routes of a listener.
pub(crate) fn routes(kind: ListenerKind) -> impl Iterator<Item = &'static Route> {
    let table = match kind {
        ListenerKind::Program => ListenerKind::Administration,
        kind => kind,
    };
    ROUTES.iter().chain(&CONSUMER_ROUTES).filter(move |route| route.listener == table)
}

/// Whether a route has this path, whatever its method.
pub(crate) fn has_path(kind: ListenerKind, path: &str) -> bool {
    routes(kind).any(|route| path_parameters(route.path, path).is_some())
}

/// A route with the values of its parameters.
pub(crate) struct Found {
    pub(crate) route: &'static Route,
    pub(crate) parameters: Vec<String>,
}

/// The route of a request.
pub(crate) fn find(kind: ListenerKind, method: &Method, path: &str) -> Result<Found, Problem> {
    // HEAD is answered like GET, without the body.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let mut allowed = Vec::new();
    for route in routes(kind) {
        let Some(parameters) = path_parameters(route.path, path) else { continue };
        if route.method == method {
            return Ok(Found { route, parameters });
        }
        allowed.push(route.method.as_str());
    }
    if allowed.is_empty() {
        let mut known: Vec<&str> = routes(kind).map(|route| route.path).collect();
        known.dedup();
        return Err(Problem::no_such_path(path, &known));
    }
    Err(Problem::wrong_method(&allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_found_and_unique() {
        for route in ROUTES.iter().chain(&CONSUMER_ROUTES) {
            let given = |part: &str| match part {
                "{policy}" | "{consumer_id}" => "a%2Fb".to_owned(),
                "{limit}" | "{rate_limiting_id}" | "{record_id}" | "{hour}" | "{time}" => "c".to_owned(),
                word => word.to_owned(),
            };
            let path = route.path.split('/').map(given).collect::<Vec<_>>().join("/");
            let found = find(route.listener, &route.method, &path).ok().unwrap();
            assert!(std::ptr::eq(found.route, route), "{} {}", route.method, route.path);
            let parameters = route.path.matches('{').count();
            assert_eq!(found.parameters, ["a/b", "c"][..parameters]);
        }
    }

    #[test]
    fn wrong_method_lists_the_allowed_methods() {
        for (path, method, allowed) in [
            ("/v1/take", Method::GET, "POST"),
            ("/v1/authorize", Method::DELETE, "GET, POST"),
            ("/v1/take", Method::HEAD, "POST"),
        ] {
            let problem = find(ListenerKind::Decisions, &method, path).err().unwrap();
            assert_eq!(problem.allow(), Some(allowed), "{method} {path}");
        }
    }

    #[test]
    fn administration_paths_are_404_on_the_decision_listener() {
        for path in ["/health", "/v1/policies", "/v1/usage", "/v1/reset", "/v1/policies/a/limits/b"] {
            let problem = find(ListenerKind::Decisions, &Method::GET, path).err().unwrap();
            assert_eq!(problem.status(), 404, "{path}");
        }
    }
}
