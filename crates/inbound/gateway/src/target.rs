//! Where a request goes: the api that its path names, and the vendor's URL.
//!
//! The path is passed on as it came, not decoded. `/openai/chat/completions` is `/chat/completions` under the api's
//! `base_url`; the base's own path may be repeated, as SDKs differ in whether their base has `/v1`.

use std::sync::Arc;

use http::{Method, Request, StatusCode, Uri, Version};
use tollway::Limiter;
use tollway::config::Api;
use url::Url;

use crate::refusal::Refusal;

/// The most apis that an error names.
const NAMED_MAX: usize = 16;

/// Where a request goes.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) api: Arc<Api>,
    pub(crate) uri: Uri,
}

impl Target {
    /// The target of a request; an error if it is not for an api of the limiter.
    pub(crate) fn of<B>(request: &Request<B>, limiter: &Limiter) -> Result<Self, Refusal> {
        let uri = request.uri();
        if request.method() == Method::CONNECT {
            return Err(Refusal::not_supported("the gateway makes no tunnels; call an api under its path"));
        }
        // HTTP/2 always has an authority, which was checked with `Host`.
        if uri.authority().is_some() && request.version() != Version::HTTP_2 {
            let detail = "the request target is a whole URL; ask for the path only, as in /openai/v1/models";
            return Err(Refusal::bad_request(detail));
        }
        let (name, rest) = split(uri.path());
        let api = limiter.api(name).ok_or_else(|| unknown_api(name, limiter))?;
        check_path(rest)?;
        let url = join(api.base_url(), rest, uri.query());
        let uri = url
            .and_then(|url| Uri::try_from(String::from(url)).ok())
            .ok_or_else(|| Refusal::bad_request("the path does not fit behind the base_url of the api"))?;
        Ok(Self { api, uri })
    }
}

/// The first segment, and the rest with its slash.
fn split(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_at(path.find('/').unwrap_or(path.len()))
}

fn unknown_api(name: &str, limiter: &Limiter) -> Refusal {
    let apis = limiter.apis();
    let known: Vec<String> =
        apis.iter().take(NAMED_MAX).map(|api| format!("/{}/", api.name().as_str())).collect();
    let name: String = name.chars().filter(|sign| !sign.is_control()).take(64).collect();
    let detail = format!("there is no api {name:?} in the config; there are {}", known.join(", "));
    Refusal::problem(StatusCode::NOT_FOUND, "urn:tollway:no-such-api", "no such api", detail)
}

/// Refuses a path that a vendor, or the URL parser, could read as one outside the base URL. Encoded slashes pass as they
/// are: they separate segments for this check only.
fn check_path(path: &str) -> Result<(), Refusal> {
    // As most paths are.
    if !path.contains(['%', '\\', ';']) && !path.contains("/.") {
        return Ok(());
    }
    if path.contains('\\') {
        return Err(Refusal::bad_request("the path has a backslash; write it as %5C"));
    }
    let path = path.to_ascii_lowercase().replace("%2f", "/").replace("%5c", "/").replace("%2e", ".");
    if path.split(['/', ';']).any(|segment| segment == "." || segment == "..") {
        return Err(Refusal::bad_request(
            "the path has a segment `.` or `..`; write the path that they lead to",
        ));
    }
    Ok(())
}

/// The URL of `path` under `base`; none if it would leave the base.
fn join(base: &str, path: &str, query: Option<&str>) -> Option<Url> {
    let base = base.trim_end_matches('/');
    // A base that is written as the parser writes it, as most are, need not be parsed for each call.
    let authority_end = base.find("://").map_or(base.len(), |colon| colon.saturating_add(3));
    let own_path = base.get(authority_end..).and_then(|rest| rest.find('/').and_then(|at| rest.get(at..)));
    let url = append(base, own_path.unwrap_or_default(), path, query)?;
    let rest = url.as_str().strip_prefix(base);
    if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?'])) {
        return Some(url);
    }
    let base_url = Url::parse(base).ok()?;
    let own_path = base_url.path().trim_end_matches('/');
    let url = append(base, own_path, path, query)?;
    let below =
        url.path().strip_prefix(own_path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    (place(&url) == place(&base_url) && below).then_some(url)
}

/// The base with the path behind it, which may repeat the base's own.
fn append(base: &str, own_path: &str, path: &str, query: Option<&str>) -> Option<Url> {
    let repeated = path.strip_prefix(own_path).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let mut text = format!("{base}{}", repeated.unwrap_or(path));
    if let Some(query) = query {
        text.push('?');
        text.push_str(query);
    }
    Url::parse(&text).ok()
}

/// What a URL says before its path.
fn place(url: &Url) -> (&str, Option<&str>, Option<u16>, &str, Option<&str>) {
    (url.scheme(), url.host_str(), url.port(), url.username(), url.password())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "https://api.example.com/v1";

    fn joined(path: &str) -> Option<String> {
        check_path(path).ok()?;
        join(BASE, path, None).map(String::from)
    }

    #[test]
    fn paths_are_joined_to_the_base_which_may_be_repeated() {
        for (path, url) in [
            ("", "/v1"),
            ("/", "/v1/"),
            ("/models", "/v1/models"),
            ("/v1/models", "/v1/models"),
            ("/v1", "/v1"),
            ("/v10/models", "/v1/v10/models"),
            ("/groups/a%2Fb/c%20d", "/v1/groups/a%2Fb/c%20d"),
            ("/fetch/https://other.example/x", "/v1/fetch/https://other.example/x"),
            ("//other.example/x", "/v1//other.example/x"),
            ("/@other.example", "/v1/@other.example"),
            ("/a:b@other.example:1/", "/v1/a:b@other.example:1/"),
            ("/..a/b..", "/v1/..a/b.."),
        ] {
            assert_eq!(joined(path), Some(format!("https://api.example.com{url}")), "{path}");
        }
    }

    #[test]
    fn paths_that_lead_out_of_the_base_are_refused() {
        for path in [
            "/..",
            "/../admin",
            "/a/../../b",
            "/./a",
            "/%2e%2e/a",
            "/.%2E/a",
            "/%2e",
            "/a%2f..%2fb",
            "/..%2fadmin",
            "/a%5c..%5cb",
            "/..\\admin",
            "/a\\b",
            "/..;/admin",
            "/a/..;x=1",
        ] {
            assert_eq!(joined(path), None, "{path}");
        }
    }

    #[test]
    fn a_base_may_be_written_in_any_way() {
        for (base, path, url) in [
            ("HTTPS://API.Example.com:443/v1/", "/v1/models", "https://api.example.com/v1/models"),
            ("https://api.example.com", "/v1/models", "https://api.example.com/v1/models"),
            ("https://api.example.com", "", "https://api.example.com/"),
            ("https://api.example.com/a b", "/models", "https://api.example.com/a%20b/models"),
            ("https://user@api.example.com/v1", "/models", "https://user@api.example.com/v1/models"),
        ] {
            assert_eq!(join(base, path, None).map(String::from).as_deref(), Some(url), "{base} {path}");
        }
        assert_eq!(join("HTTPS://API.Example.com/v1", "/../x", None), None);
    }

    #[test]
    fn a_base_without_a_path_cannot_be_left_either() {
        for path in ["@other.example/", ".other.example/", ":80/x", "//other.example/x"] {
            let url = join("https://api.example.com", path, None);
            assert!(
                url.as_ref()
                    .is_none_or(|url| url.host_str() == Some("api.example.com") && url.port().is_none()),
                "{url:?}"
            );
        }
    }
}
