//! Which names a request may come under, and which web pages may send one.
//!
//! Every web page can make its visitor's browser send requests to this machine. The browser says so itself, in
//! `Sec-Fetch-Site` and `Origin`, unless the page's own name points here by now (DNS rebinding): then `Host` has that name.
//! [`may_call`] checks both, by the [`CallerCheck`] of the route.

use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{Request, Version};

use super::host_port::{HostPort, is_local};
use super::problem::Problem;
use super::query::shortened;
use crate::ServerConfig;
use crate::connection::Caller;
use crate::listener::Reach;
use crate::rules::Rules;
use crate::worker::Worker;

pub(super) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a route checks of the request's name and of a browser's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerCheck {
    /// The name: for what every web page may read.
    Host,
    /// The name, and that no foreign web page sends it.
    HostAndPage,
    /// Neither: a proxy hands its client's headers on. An unknown name is logged.
    Proxied,
}

/// The names and the web pages that the config allows.
pub(crate) struct AllowedCallers {
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Checks the name and the sender of a request.
pub(crate) fn may_call<B>(
    check: CallerCheck,
    rules: &Rules,
    worker: &Worker,
    caller: &Caller,
    request: &Request<B>,
) -> Result<(), Problem> {
    let allowed = &rules.callers;
    if let Some(host) = allowed.unknown_host(caller.reach, request) {
        if check != CallerCheck::Proxied {
            return Err(Problem::unknown_host(&shortened(host), &allowed.hosts, caller.listener.section()));
        }
        if worker.state.unknown_host_logged.is_due(&worker.state.limiter) {
            let host = shortened(host);
            tracing::warn!(
                ?host,
                "a proxy asks under a name that this server does not know; add it to `hosts` of [server], or let the proxy send Tollway's own"
            );
        }
    }
    match check {
        CallerCheck::HostAndPage if allowed.is_foreign_page(request) => {
            Err(Problem::foreign_page(caller.listener.section()))
        }
        _ => Ok(()),
    }
}

/// HTTP/1.1 needs one `Host`: with several, a proxy and this server could read different ones.
pub(crate) fn has_one_host<B>(request: &Request<B>) -> Result<(), Problem> {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => Err(Problem::bad_request("the header host occurs twice")),
        (None, None) if request.version() == Version::HTTP_11 => {
            Err(Problem::bad_request("the header host is missing"))
        }
        _ => Ok(()),
    }
}

impl AllowedCallers {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        Self { hosts: config.hosts.clone(), origins: config.allowed_origins.clone() }
    }

    /// The name of a request that this listener does not know. An IP address is always known, because no name was
    /// rebound to it.
    fn unknown_host<'r, B>(&self, reach: Reach, request: &'r Request<B>) -> Option<&'r str> {
        let checked = match reach {
            Reach::Unix => false,
            Reach::Loopback => true,
            Reach::Network => !self.hosts.is_empty(),
        };
        names(request).filter(|_| checked).find(|name| !self.knows(name))
    }

    fn knows(&self, name: &str) -> bool {
        let Some(HostPort { host, .. }) = HostPort::parse(name) else { return false };
        let same = |known: &String| known.eq_ignore_ascii_case(host.strip_suffix('.').unwrap_or(host));
        is_local(host) || self.hosts.iter().any(same)
    }

    /// Whether a browser sends this for a page of another site. Programs send neither header.
    fn is_foreign_page<B>(&self, request: &Request<B>) -> bool {
        let headers = request.headers();
        let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
        let foreign_site = sites.any(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"));
        let mut origins = headers.get_all(ORIGIN).iter().peekable();
        if origins.peek().is_none() {
            return foreign_site;
        }
        origins.any(|origin| {
            let allowed = self.allows(origin);
            !allowed && (foreign_site || !is_own_origin(origin, request))
        })
    }

    /// The origin of an allowed web page, which may also read the response.
    pub(super) fn allowed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        if self.origins.is_empty() {
            return None;
        }
        headers.get(ORIGIN).filter(|origin| self.allows(origin)).cloned()
    }

    fn allows(&self, origin: &HeaderValue) -> bool {
        self.origins.iter().any(|allowed| allowed.as_bytes().eq_ignore_ascii_case(origin.as_bytes()))
    }
}

/// Every name that a request has: in its target, or as HTTP/2's `:authority`, and in `Host`. A name that is not text is not
/// known, either.
fn names<B>(request: &Request<B>) -> impl Iterator<Item = &str> {
    let target = request.uri().authority().map(|authority| authority.as_str());
    let hosts = request.headers().get_all(HOST).iter().map(|host| host.to_str().unwrap_or("(not text)"));
    target.into_iter().chain(hosts)
}

/// Whether an origin has the host and port of the request. The scheme may differ: a proxy may have ended TLS.
fn is_own_origin<B>(origin: &HeaderValue, request: &Request<B>) -> bool {
    let Some((scheme, origin)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else {
        return false;
    };
    let usual = if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 };
    let place = |text| {
        let HostPort { host, port } = HostPort::parse(text)?;
        Some((host, port.unwrap_or(usual)))
    };
    let (Some((host, port)), Some((own_host, own_port))) =
        (place(origin), names(request).next().and_then(place))
    else {
        return false;
    };
    host.eq_ignore_ascii_case(own_host) && port == own_port
}
