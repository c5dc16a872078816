//! Whom a request is counted for: found in what it shows, or in where it comes from.

use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use tollway_inbound::address::{AddressRules, Peer};
use tollway_inbound::escapes::percent_decode;

use crate::problem::Problem;

/// Where the subject of a request is found.
///
/// Subjects of different origins never meet: a client's key cannot be another client's address. Those of headers and
/// addresses are the same that `tollway serve` counts for, so both may share a store.
///
/// Text that differs is another subject, unless [`normalised`](Self::normalised) says what is the same.
///
/// ```
/// use tollway_tower::SubjectFrom;
///
/// let tenant = SubjectFrom::path_segment(1).normalised(str::to_lowercase);
/// let key_or_tenant = SubjectFrom::header("x-api-key").or(tenant);
/// ```
#[derive(Clone)]
pub struct SubjectFrom {
    /// Tried one after the other; at least one.
    ways: Vec<Way>,
}

/// One place to look, and what is done to what is found there, in this order.
#[derive(Clone)]
struct Way {
    place: Place,
    normalisers: Vec<Arc<Normalise>>,
}

#[derive(Clone)]
enum Place {
    Header(String),
    PathSegment(usize),
    Function(Arc<Read>),
    Address(AddressRules, Arc<ReadPeer>),
    Fixed(String),
}

type Normalise = dyn Fn(&str) -> String + Send + Sync;
type Read = dyn Fn(&Parts) -> Option<String> + Send + Sync;
pub(crate) type ReadPeer = dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync;

impl SubjectFrom {
    /// What a header says, like an API key. The first line counts, if there are several.
    pub fn header(name: &str) -> Self {
        Self::of(Place::Header(name.to_ascii_lowercase()))
    }

    /// A part of the path, the first being 0: of `/tenants/anna/orders`, `anna` is 1. Its %-escapes are replaced, as by
    /// routers: `/tenants/%61nna` is `anna`, too. A request with wrong ones, or with what is no UTF-8 behind
    /// them, is answered with 400.
    pub fn path_segment(index: usize) -> Self {
        Self::of(Place::PathSegment(index))
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
        Self::of(Place::Function(Arc::new(read)))
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
        Self::of(Place::Address(rules, Arc::new(peer)))
    }

    /// One subject for all requests: the last resort where nothing else was found.
    pub fn fixed(subject: &str) -> Self {
        Self::of(Place::Fixed(subject.to_owned()))
    }

    /// Another way, where this one finds nothing.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.ways.extend(other.ways);
        self
    }

    /// What is the same although it is written differently, like names without regard to case: `by` makes one of all
    /// ways to write what was found. For the places named so far.
    ///
    /// ```
    /// use tollway_tower::SubjectFrom;
    ///
    /// let user = SubjectFrom::header("x-user").normalised(|name| name.trim().to_lowercase());
    /// ```
    #[must_use]
    pub fn normalised(mut self, by: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let by: Arc<Normalise> = Arc::new(by);
        self.ways.iter_mut().for_each(|way| way.normalisers.push(Arc::clone(&by)));
        self
    }

    fn of(place: Place) -> Self {
        Self { ways: vec![Way { place, normalisers: Vec::new() }] }
    }

    pub(crate) fn find(&self, request: &Parts) -> Result<String, Problem> {
        for Way { place, normalisers } in &self.ways {
            if let Some(found) = place.find(request)? {
                let normal = normalisers.iter().fold(found, |found, normalise| normalise(&found));
                return Ok(format!("{}:{normal}", place.origin()));
            }
        }
        let looked_for: Vec<String> = self.ways.iter().map(|way| way.place.describe()).collect();
        Err(Problem::unknown_subject(&looked_for.join(" or ")))
    }
}

impl Place {
    /// What the request shows here, if anything.
    fn find(&self, request: &Parts) -> Result<Option<String>, Problem> {
        match self {
            Self::Header(name) => header(name, request),
            Self::PathSegment(index) => path_segment(*index, request.uri.path()),
            Self::Function(read) => Ok(read(request)),
            Self::Address(rules, peer) => client_address(rules, peer(request), request).map(Some),
            Self::Fixed(subject) => Ok(Some(subject.clone())),
        }
    }

    /// What subjects of here begin with, so that those of elsewhere are others.
    fn origin(&self) -> &str {
        match self {
            Self::Header(name) => name,
            Self::PathSegment(_) => "path",
            Self::Function(_) => "by",
            Self::Address(..) => "address",
            Self::Fixed(_) => "all",
        }
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

fn header(name: &str, request: &Parts) -> Result<Option<String>, Problem> {
    let Some(value) = request.headers.get(name) else { return Ok(None) };
    match std::str::from_utf8(value.as_bytes()) {
        Ok(value) => Ok(Some(value.to_owned())),
        Err(_) => Err(Problem::not_a_subject(format!("the header {name} is not text"))),
    }
}

/// An empty part is none. Wrong escapes are an error: servers differ in how they read them.
fn path_segment(index: usize, path: &str) -> Result<Option<String>, Problem> {
    let segment = path.split('/').skip(1).nth(index).filter(|segment| !segment.is_empty());
    let wrong = || {
        let detail = format!("part number {index} of the path is not UTF-8 text with %-escapes");
        Problem::not_a_subject(detail)
    };
    segment.map(|segment| percent_decode(segment).ok_or_else(wrong)).transpose()
}

/// Where a request comes from. A server that does not know who is at the other end was put together wrong: no client can
/// do anything about it.
pub(crate) fn client_address(
    rules: &AddressRules,
    peer: Option<IpAddr>,
    request: &Parts,
) -> Result<String, Problem> {
    let lines = request.headers.get_all(rules.header.name());
    let client = peer.and_then(|peer| rules.client(Peer::Address(peer), lines));
    client.map(|client| rules.subject(client).to_string()).ok_or_else(Problem::unknown_peer)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

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

    /// T17: one byte that is no text does not hide whom the proxy has seen.
    #[test]
    fn a_client_cannot_hide_behind_what_is_no_text() {
        use tollway_inbound::address::Trust;
        let rules = AddressRules { trust: Trust::Hops(1), ..AddressRules::default() };
        let address = SubjectFrom::address(rules, |_| Some(IpAddr::from([10, 0, 0, 9])));
        let request = get("/").header("x-forwarded-for", &b"\xff, 203.0.113.7"[..]);
        assert_eq!(found(&address, request).as_deref(), Ok("address:203.0.113.7"));
    }

    /// T18: paths that are the same to a router are the same subject here.
    #[test]
    fn a_part_of_the_path_is_one_subject_however_it_is_written() {
        let tenant = SubjectFrom::path_segment(1);
        for path in
            ["/tenants/anna", "/tenants/%61nna/orders", "/tenants/%61%6E%6e%61", "/tenants/anna?x=%62"]
        {
            assert_eq!(found(&tenant, get(path)).as_deref(), Ok("path:anna"), "{path}");
        }
        // Decoded once: a second time would make it another subject.
        assert_eq!(found(&tenant, get("/tenants/%2561nna")).as_deref(), Ok("path:%61nna"));
        assert_eq!(found(&tenant, get("/tenants/a%2Fb")).as_deref(), Ok("path:a/b"));
        let or_all = tenant.or(SubjectFrom::fixed("all"));
        for path in ["/tenants/anna%", "/tenants/%zz", "/tenants/%ff", "/tenants/%c3"] {
            assert_eq!(found(&or_all, get(path)), Err(StatusCode::BAD_REQUEST), "{path}");
        }
    }

    /// T18: each part has normalisers of its own, in their order.
    #[test]
    fn what_is_declared_the_same_is_one_subject() {
        let trimmed = |text: &str| text.trim_matches('-').to_owned();
        let key = SubjectFrom::header("k").normalised(str::to_lowercase).normalised(trimmed);
        let from = key.or(SubjectFrom::path_segment(0));
        for key in ["anna", "ANNA", "-Anna--"] {
            assert_eq!(found(&from, get("/").header("k", key)).as_deref(), Ok("k:anna"));
        }
        assert_eq!(found(&from, get("/Anna-")).as_deref(), Ok("path:Anna-"));
    }
}
