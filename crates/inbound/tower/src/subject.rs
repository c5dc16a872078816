//! Finds the subject of a request, in its head or in its address.

use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use tollway_inbound::address::{AddressRules, Peer};
use tollway_inbound::escapes::percent_decode;

use crate::problem::Problem;

/// Where the subject of a request is found.
///
/// Subjects from different sources never collide: an API key cannot equal an address. Header and address subjects are the
/// same as in `tollway serve`, so both may share a store.
///
/// Different texts are different subjects, unless [`normalised`](Self::normalised) maps them to one.
///
/// ```
/// use tollway_tower::SubjectFrom;
///
/// let tenant = SubjectFrom::path_segment(1).normalised(str::to_lowercase);
/// let key_or_tenant = SubjectFrom::header("x-api-key").or(tenant);
/// ```
#[derive(Clone)]
pub struct SubjectFrom {
    /// Sources in order; at least one.
    ways: Vec<Way>,
}

/// One source, and its normalisers in order.
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
    /// The value of a header, such as an API key. An empty one counts as missing; one that occurs twice gets 400.
    pub fn header(name: &str) -> Self {
        Self::of(Place::Header(name.to_ascii_lowercase()))
    }

    /// A path segment, counted from 0: in `/tenants/anna/orders`, `anna` is 1. It is percent-decoded, as in routers:
    /// `/tenants/%61nna` is `anna`, too. An invalid escape or invalid UTF-8 gets 400.
    pub fn path_segment(index: usize) -> Self {
        Self::of(Place::PathSegment(index))
    }

    /// An extension that another layer added to the request, such as the authenticated user.
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

    /// Computes the subject from the head of the request.
    pub fn function(read: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::of(Place::Function(Arc::new(read)))
    }

    /// The client's address. The rules say which forwarding headers are trusted; `peer` returns the remote address of the
    /// connection, which every server stores elsewhere:
    ///
    /// ```
    /// # use std::net::SocketAddr;
    /// # use axum::extract::ConnectInfo;
    /// use tollway_tower::SubjectFrom;
    /// use tollway_tower::address::AddressRules;
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

    /// One subject for all requests: a fallback when nothing else is found.
    pub fn fixed(subject: &str) -> Self {
        Self::of(Place::Fixed(subject.to_owned()))
    }

    /// Tries `other` if this finds nothing.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.ways.extend(other.ways);
        self
    }

    /// Maps different spellings of one subject to the same text, such as names in any case. Applies to the sources added so
    /// far.
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
    /// The subject from this source, if the request has one.
    fn find(&self, request: &Parts) -> Result<Option<String>, Problem> {
        match self {
            Self::Header(name) => header(name, request),
            Self::PathSegment(index) => path_segment(*index, request.uri.path()),
            Self::Function(read) => Ok(read(request)),
            Self::Address(rules, peer) => client_address(rules, peer(request), request).map(Some),
            Self::Fixed(subject) => Ok(Some(subject.clone())),
        }
    }

    /// The prefix of subjects from this source, which keeps them apart from others.
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
            Self::Function(_) => "a subject that the server can find".to_owned(),
            Self::Address(..) => "an address".to_owned(),
            Self::Fixed(_) => "nothing".to_owned(),
        }
    }
}

fn header(name: &str, request: &Parts) -> Result<Option<String>, Problem> {
    let mut values = request.headers.get_all(name).iter();
    let (Some(value), second) = (values.next(), values.next()) else { return Ok(None) };
    if second.is_some() {
        return Err(Problem::not_a_subject(format!("the header {name} occurs twice")));
    }
    if value.is_empty() {
        return Ok(None);
    }
    match std::str::from_utf8(value.as_bytes()) {
        Ok(value) => Ok(Some(value.to_owned())),
        Err(_) => Err(Problem::not_a_subject(format!("the header {name} is not text"))),
    }
}

/// An empty segment counts as missing. Invalid escapes are an error, because servers decode them differently.
fn path_segment(index: usize, path: &str) -> Result<Option<String>, Problem> {
    let segment = path.split('/').skip(1).nth(index).filter(|segment| !segment.is_empty());
    let wrong = || {
        let detail = format!("part number {index} of the path is not UTF-8 text with %-escapes");
        Problem::not_a_subject(detail)
    };
    segment.map(|segment| percent_decode(segment).ok_or_else(wrong)).transpose()
}

/// The client's address. A missing peer address is a mistake in the server's setup, not a client error.
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
    fn subjects_of_different_sources_never_collide() {
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
    fn a_missing_subject_is_400_and_a_missing_peer_is_500() {
        let missing = StatusCode::BAD_REQUEST;
        assert_eq!(found(&SubjectFrom::header("x-api-key"), get("/")), Err(missing));
        assert_eq!(found(&SubjectFrom::path_segment(1), get("/tenants//orders")), Err(missing));
        assert_eq!(found(&SubjectFrom::header("k"), get("/").header("k", &b"\xff"[..])), Err(missing));
        let twice = get("/").header("k", "anna").header("k", "anna");
        assert_eq!(found(&SubjectFrom::header("k"), twice), Err(missing));
        let empty = SubjectFrom::header("k").or(SubjectFrom::fixed("anna"));
        assert_eq!(found(&empty, get("/").header("k", "")).as_deref(), Ok("all:anna"));
        let nobody = SubjectFrom::address(AddressRules::default(), |_| None);
        assert_eq!(found(&nobody, get("/")), Err(StatusCode::INTERNAL_SERVER_ERROR));
    }

    /// T17: one invalid byte does not hide the address that the proxy appended.
    #[test]
    fn invalid_utf8_does_not_hide_the_forwarded_address() {
        use tollway_inbound::address::Trust;
        let rules = AddressRules { trust: Trust::Hops(1), ..AddressRules::default() };
        let address = SubjectFrom::address(rules, |_| Some(IpAddr::from([10, 0, 0, 9])));
        let request = get("/").header("x-forwarded-for", &b"\xff, 203.0.113.7"[..]);
        assert_eq!(found(&address, request).as_deref(), Ok("address:203.0.113.7"));
    }

    /// T18: paths that a router treats as equal are one subject.
    #[test]
    fn equivalent_path_spellings_are_one_subject() {
        let tenant = SubjectFrom::path_segment(1);
        for path in
            ["/tenants/anna", "/tenants/%61nna/orders", "/tenants/%61%6E%6e%61", "/tenants/anna?x=%62"]
        {
            assert_eq!(found(&tenant, get(path)).as_deref(), Ok("path:anna"), "{path}");
        }
        // Decoded once: a second decoding would give another subject.
        assert_eq!(found(&tenant, get("/tenants/%2561nna")).as_deref(), Ok("path:%61nna"));
        assert_eq!(found(&tenant, get("/tenants/a%2Fb")).as_deref(), Ok("path:a/b"));
        let or_all = tenant.or(SubjectFrom::fixed("all"));
        for path in ["/tenants/anna%", "/tenants/%zz", "/tenants/%ff", "/tenants/%c3"] {
            assert_eq!(found(&or_all, get(path)), Err(StatusCode::BAD_REQUEST), "{path}");
        }
    }

    /// T18: each source has its own normalisers, in order.
    #[test]
    fn normalised_texts_are_one_subject() {
        let trimmed = |text: &str| text.trim_matches('-').to_owned();
        let key = SubjectFrom::header("k").normalised(str::to_lowercase).normalised(trimmed);
        let from = key.or(SubjectFrom::path_segment(0));
        for key in ["anna", "ANNA", "-Anna--"] {
            assert_eq!(found(&from, get("/").header("k", key)).as_deref(), Ok("k:anna"));
        }
        assert_eq!(found(&from, get("/Anna-")).as_deref(), Ok("path:Anna-"));
    }
}
