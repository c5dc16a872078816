//! Whom a request is counted for: found in what it shows, or in where it comes from.

use std::net::IpAddr;
use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use tollway_inbound::address::{AddressRules, Peer};

use crate::problem::Problem;

/// Where the subject of a request is found.
///
/// Subjects of different origins never meet: a key that somebody shows cannot be another's address. Those of headers and
/// addresses are the same that `tollway serve` counts for, so both may share a store.
///
/// ```
/// use tollway_tower::SubjectFrom;
///
/// let key_or_path = SubjectFrom::header("x-api-key").or(SubjectFrom::path_segment(1));
/// ```
#[derive(Clone)]
pub struct SubjectFrom {
    /// Tried one after the other; at least one.
    ways: Vec<Way>,
}

#[derive(Clone)]
enum Way {
    Header(String),
    PathSegment(usize),
    Function(Arc<Read>),
    Address(AddressRules, Arc<ReadPeer>),
    Fixed(String),
}

type Read = dyn Fn(&Parts) -> Option<String> + Send + Sync;
pub(crate) type ReadPeer = dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync;

/// What a way has come to.
enum Found {
    Subject(String),
    /// The request does not show it.
    Not,
    Problem(Problem),
}

impl SubjectFrom {
    /// What a header says, like an API key. The first line counts, if there are several.
    pub fn header(name: &str) -> Self {
        Self::of(Way::Header(name.to_ascii_lowercase()))
    }

    /// A part of the path, the first being 0: of `/tenants/anna/orders`, `anna` is 1.
    pub fn path_segment(index: usize) -> Self {
        Self::of(Way::PathSegment(index))
    }

    /// What another layer has put into the request, like the user that it has authenticated.
    ///
    /// ```
    /// #[derive(Clone)]
    /// struct User { name: String }
    ///
    /// let user = tollway_tower::SubjectFrom::extension(|user: &User| user.name.clone());
    /// ```
    pub fn extension<T: Send + Sync + 'static>(read: impl Fn(&T) -> String + Send + Sync + 'static) -> Self {
        Self::function(move |request| request.extensions.get::<T>().map(&read))
    }

    /// Whatever can be read of the head of a request.
    pub fn function(read: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::of(Way::Function(Arc::new(read)))
    }

    /// The client's address, by rules that say whose forwarding headers are believed. `peer` tells who is at the other end
    /// of the connection, which every server keeps somewhere else:
    ///
    /// ```
    /// # use std::net::SocketAddr;
    /// # use axum::extract::ConnectInfo;
    /// use tollway_inbound::address::AddressRules;
    /// use tollway_tower::SubjectFrom;
    ///
    /// // With axum, after `into_make_service_with_connect_info::<SocketAddr>()`.
    /// let address = SubjectFrom::address(AddressRules::default(), |request| {
    ///     request.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
    /// });
    /// ```
    pub fn address(
        rules: AddressRules,
        peer: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        Self::of(Way::Address(rules, Arc::new(peer)))
    }

    /// The same for everybody: what is left where nothing else was found.
    pub fn fixed(subject: &str) -> Self {
        Self::of(Way::Fixed(subject.to_owned()))
    }

    /// Another way, where this one finds nothing.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.ways.extend(other.ways);
        self
    }

    fn of(way: Way) -> Self {
        Self { ways: vec![way] }
    }

    pub(crate) fn find(&self, request: &Parts) -> Result<String, Problem> {
        for way in &self.ways {
            match way.find(request) {
                Found::Subject(subject) => return Ok(subject),
                Found::Problem(problem) => return Err(problem),
                Found::Not => {}
            }
        }
        let looked_for: Vec<String> = self.ways.iter().map(Way::describe).collect();
        Err(Problem::unknown_subject(&looked_for.join(" or ")))
    }
}

impl Way {
    fn find(&self, request: &Parts) -> Found {
        let found = match self {
            Self::Header(name) => return header(name, request),
            Self::Address(rules, peer) => {
                return match client_address(rules, peer(request), request) {
                    Ok(address) => Found::Subject(format!("address:{address}")),
                    Err(problem) => Found::Problem(problem),
                };
            }
            Self::PathSegment(index) => {
                path_segment(*index, request.uri.path()).map(|part| format!("path:{part}"))
            }
            Self::Function(read) => read(request).map(|subject| format!("by:{subject}")),
            Self::Fixed(subject) => Some(format!("all:{subject}")),
        };
        found.map_or(Found::Not, Found::Subject)
    }

    fn describe(&self) -> String {
        match self {
            Self::Header(name) => format!("a header {name}"),
            Self::PathSegment(index) => format!("a path with a part number {index}"),
            Self::Function(_) => "what the server looks for in it".to_owned(),
            Self::Address(..) => "an address".to_owned(),
            Self::Fixed(_) => "nothing".to_owned(),
        }
    }
}

fn header(name: &str, request: &Parts) -> Found {
    let Some(value) = request.headers.get(name) else { return Found::Not };
    match std::str::from_utf8(value.as_bytes()) {
        Ok(value) => Found::Subject(format!("{name}:{value}")),
        Err(_) => {
            let detail = format!("the header {name} is not text");
            Found::Problem(Problem::new(StatusCode::BAD_REQUEST, "bad-name", "not a subject", detail))
        }
    }
}

/// An empty part is none.
fn path_segment(index: usize, path: &str) -> Option<&str> {
    let segment = path.split('/').skip(1).nth(index);
    segment.filter(|segment| !segment.is_empty())
}

/// Where a request comes from. A server that does not know who is at the other end was put together wrong: no client can
/// do anything about it.
pub(crate) fn client_address(
    rules: &AddressRules,
    peer: Option<IpAddr>,
    request: &Parts,
) -> Result<String, Problem> {
    let lines = request.headers.get_all(rules.header.name()).iter();
    // A line that is not text has no address in it.
    let lines = lines.map(|line| line.to_str().unwrap_or_default());
    let client = peer.and_then(|peer| rules.client(Peer::Address(peer), lines));
    client.map(|client| rules.subject(client).to_string()).ok_or_else(Problem::unknown_peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(from: &SubjectFrom, request: http::request::Builder) -> Result<String, StatusCode> {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        from.find(&parts).map_err(|problem| problem.status())
    }

    fn get(path: &str) -> http::request::Builder {
        http::Request::get(path)
    }

    #[test]
    fn each_way_finds_its_own_and_they_never_meet() {
        let (anna, peer) = ("anna", "192.0.2.7".parse::<IpAddr>().unwrap());
        let address = SubjectFrom::address(AddressRules::default(), move |_| Some(peer));
        for (from, request, subject) in [
            (SubjectFrom::header("X-API-Key"), get("/").header("x-api-key", anna), "x-api-key:anna"),
            (SubjectFrom::path_segment(1), get("/tenants/anna/orders?x=1"), "path:anna"),
            (
                SubjectFrom::extension(|name: &String| name.clone()),
                get("/").extension(anna.to_owned()),
                "by:anna",
            ),
            (SubjectFrom::function(|request| Some(request.method.to_string())), get("/"), "by:GET"),
            (address.clone(), get("/").header("x-forwarded-for", "6.6.6.6"), "address:192.0.2.7"),
            (SubjectFrom::fixed(anna), get("/"), "all:anna"),
            (SubjectFrom::header("x-api-key").or(address), get("/"), "address:192.0.2.7"),
        ] {
            assert_eq!(found(&from, request).as_deref(), Ok(subject));
        }
    }

    #[test]
    fn a_request_without_a_subject_is_its_callers_fault_and_a_server_without_peers_its_own() {
        let missing = StatusCode::BAD_REQUEST;
        assert_eq!(found(&SubjectFrom::header("x-api-key"), get("/")), Err(missing));
        assert_eq!(found(&SubjectFrom::path_segment(1), get("/tenants//orders")), Err(missing));
        assert_eq!(found(&SubjectFrom::header("k"), get("/").header("k", &b"\xff"[..])), Err(missing));
        let nobody = SubjectFrom::address(AddressRules::default(), |_| None);
        assert_eq!(found(&nobody, get("/")), Err(StatusCode::INTERNAL_SERVER_ERROR));
    }
}
