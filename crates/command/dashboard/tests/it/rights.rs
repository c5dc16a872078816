//! Who may see and change what: by token, by route, and by the page that asks.

use serde_json::Value;
use tollway_server::{Token, TokenRight};

use crate::client::ask;
use crate::running::{Running, Setup};

const CONFIG: &str = "[policies.a]\nlimits = ['9 requests / hour']";

/// The routes that `/openapi.json` describes, beside those of the server: method, path, and what they need.
fn routes(document: &Value) -> Vec<(String, String, Need)> {
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        if !["/v1/live", "/v1/view/", "/v1/pipelines/"].iter().any(|start| path.starts_with(start)) {
            continue;
        }
        for (method, described) in methods.as_object().unwrap() {
            let security = described["security"].as_array().map_or(0, Vec::len);
            let need = match (security, method.as_str()) {
                (0, _) => Need::Nothing,
                (2, _) => Need::Overview,
                (_, "get") => Need::Read,
                _ => Need::Write,
            };
            let given = path.split('/').map(|part| if part.starts_with('{') { "a" } else { part });
            routes.push((method.to_uppercase(), given.collect::<Vec<_>>().join("/"), need));
        }
    }
    routes
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Nothing,
    Overview,
    Read,
    Write,
}

/// T22: every route is closed to those who lack its right, on a server without and with tokens; the link opens what it may.
#[test]
fn every_route_asks_for_its_right() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "read-read-read-read").unwrap();
    let guarded = || {
        let mut setup = Setup::of(CONFIG);
        setup.config.read_token = Some(Token::File(file.path().to_owned()));
        setup
    };
    let of_config = "authorization: Bearer read-read-read-read\r\n";
    for (setup, without) in [(Setup::of(CONFIG), Need::Overview), (guarded(), Need::Nothing)] {
        let is_guarded = without == Need::Nothing;
        let server = setup.start();
        let routes = routes(&server.get("/openapi.json").json());
        assert!(routes.len() >= 20, "{routes:?}");
        for (method, path, need) in routes {
            if path == "/v1/live" {
                // Its answer has no end.
                let answer = if is_guarded { ask(server.admin, &method, &path, "", "").status } else { 401 };
                assert_eq!(answer, 401);
                continue;
            }
            let refused = |headers: &str| {
                let status = ask(server.admin, &method, &path, headers, "").status;
                assert_ne!(status, 500, "{method} {path}");
                matches!(status, 401 | 403)
            };
            assert_eq!(refused(""), need > without, "{method} {path} without a token");
            assert_eq!(refused(&server.link), need > Need::Read, "{method} {path} with the link");
            if is_guarded {
                assert_eq!(
                    refused(of_config),
                    need > Need::Read,
                    "{method} {path} with a token that may read"
                );
            }
        }
    }
}

/// T22: the token is compared whole, counts in a header only, and is in no answer.
#[test]
fn only_the_token_of_the_link_opens() {
    let server = Running::of(CONFIG);
    let token = server.link.trim().strip_prefix("authorization: Bearer ").unwrap().to_owned();
    assert_eq!(token.len(), 32, "128 bits");
    let me =
        |headers: &str, query: &str| ask(server.admin, "GET", &format!("/v1/view/me{query}"), headers, "");
    let right = |headers: &str| me(headers, "").json()["right"].clone();
    assert_eq!((right(""), right(&server.link)), ("overview".into(), "read".into()));
    let last = if token.ends_with('0') { '1' } else { '0' };
    for wrong in
        [token[..31].to_owned(), format!("{}{last}", &token[..31]), format!("{token}0"), token.to_uppercase()]
    {
        if wrong != token {
            assert_eq!(me(&format!("authorization: Bearer {wrong}\r\n"), "").status, 401, "{wrong}");
        }
    }
    assert_eq!(me(&format!("cookie: t={token}\r\n"), "").json()["right"], "overview");
    assert_eq!(me("", &format!("?t={token}")).status, 400);
    assert!(!server.get("/").body.contains(&token) && !server.get("/v1/view/me").body.contains(&token));
}

/// T22: a link that may read changes nothing, also at the server's own routes; one that may write does, and it is noted.
#[test]
fn reading_is_all_that_a_link_may_unless_it_says_write() {
    let limit = "/v1/policies/a/limits/requests_per_hour";
    let reading = Running::of(CONFIG);
    for (method, path, body) in [
        ("PUT", limit, r#"{"to":"5"}"#),
        ("DELETE", limit, ""),
        ("POST", "/v1/reset", r#"{"policy":"a"}"#),
        ("POST", "/v1/pipelines/p/pause", "{}"),
    ] {
        assert_eq!(reading.send(method, path, body).status, 403, "{method} {path}");
    }
    assert_eq!(reading.limiter.policies()[0].limits()[0].amount(), 9);
    let writing = Setup::of(CONFIG).writing().start();
    assert_eq!(writing.send("PUT", limit, r#"{"to":"5"}"#).status, 200);
    let view = writing.get("/v1/view/policies/a").json();
    let change = &view["changes"][0];
    assert_eq!((&change["who"], &change["what"]), (&"link at 127.0.0.1".into(), &"requests_per_hour".into()));
    assert_eq!((&change["from"], &change["to"]), (&"9 requests / hour".into(), &"5 requests / hour".into()));
    assert_eq!((&view["settings"][0]["amount"], &view["rows"][0]["amount"]), (&5.into(), &5.into()));
}

/// T22: a token of the config that may write may also write here; one for decisions opens nothing.
#[test]
fn tokens_of_the_config_have_their_rights() {
    let folder = tempfile::tempdir().unwrap();
    let token = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("{name}-{name}-{name}")).unwrap();
        Token::File(path)
    };
    let mut setup = Setup::of(CONFIG);
    setup.config.write_token = Some(token("writes"));
    setup.config.decisions_token = Some(token("decides"));
    setup.link = TokenRight::Read;
    let server = setup.start();
    let right = |token: &str| {
        let headers = if token.is_empty() {
            String::new()
        } else {
            format!("x-tollway-token: {token}-{token}-{token}\r\n")
        };
        ask(server.admin, "GET", "/v1/view/me", &headers, "").json()["right"].clone()
    };
    assert_eq!([right("writes"), right("decides"), right("")], ["write", "nothing", "nothing"]);
}

/// T22: pages of other sites and names that were pointed here get nothing; a link from elsewhere opens the page.
#[test]
fn foreign_pages_and_names_are_refused() {
    let server = Running::of(CONFIG);
    let ask = |path: &str, headers: &str| ask(server.admin, "GET", path, headers, "").status;
    for path in ["/v1/view/me", "/v1/view/policies", "/v1/live", "/"] {
        for headers in [
            "host: evil.test\r\n",
            "host: evil.test\r\norigin: http://evil.test\r\n",
            "host: localhost\r\norigin: http://evil.test\r\n",
            "host: localhost\r\nsec-fetch-site: cross-site\r\n",
            "host: localhost\r\nhost: localhost\r\n",
        ] {
            let status = ask(path, headers);
            assert!(matches!(status, 400 | 403 | 421), "{path} {headers:?}: {status}");
        }
    }
    let own = "host: localhost\r\norigin: http://localhost\r\nsec-fetch-site: same-origin\r\n";
    assert_eq!(ask("/v1/view/me", own), 200);
    let link = "host: localhost\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n";
    assert_eq!(ask("/", &format!("{link}sec-fetch-dest: document\r\n")), 200);
    assert_eq!(ask("/", &format!("{link}sec-fetch-dest: iframe\r\n")), 403);
    assert_eq!(ask("/v1/view/policies", &format!("{link}sec-fetch-dest: document\r\n")), 403);
}

/// T22: what a browser may do with the answers is in every one of them, and nothing but pages is HTML.
#[test]
fn every_answer_says_what_a_browser_may_do_with_it() {
    let server = Running::of(CONFIG);
    for path in
        ["/", "/v1/view/policies", "/v1/view/policies/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "/nothing"]
    {
        let answer = server.get(path);
        assert!(answer.has("x-content-type-options: nosniff"), "{answer:?}");
        assert!(answer.has("referrer-policy: no-referrer"), "{answer:?}");
        assert!(answer.head.contains("default-src 'none'; script-src 'self'"), "{answer:?}");
        assert!(!answer.head.contains("unsafe"), "{answer:?}");
        assert_eq!(answer.head.contains("text/html"), path == "/", "{answer:?}");
    }
}
