//! Web pages that a browser on this machine shows: none spends a quota or reads the administration, and proxies are not
//! affected.

use tollway_server::{ListenAddress, ListenerKind};

use crate::client::{Answer, Client};
use crate::nginx_process::Nginx;
use crate::running::{Running, Setup};

const POLICIES: &str = r#"
    [policies.api]
    limits = ["100 requests / hour from first call"]
"#;
const TAKE: &str = r#"{"policy":"api"}"#;

/// What a browser adds to a request of a page from elsewhere.
const CROSS_SITE: &str =
    "origin: http://evil.example\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n";

/// The decision routes with what each checks: names, and also foreign pages.
const DECISIONS: [(&str, &str, bool); 8] = [
    ("POST", "/v1/take", true),
    ("POST", "/v1/begin", true),
    ("POST", "/v1/settle", true),
    ("POST", "/v1/done", true),
    ("POST", "/v1/return", true),
    ("POST", "/v1/renew", true),
    ("POST", "/v1/observe", true),
    ("GET", "/openapi.json", false),
];

const ADMINISTRATION: [(&str, &str); 6] = [
    ("GET", "/health"),
    ("GET", "/ready"),
    ("GET", "/metrics"),
    ("GET", "/v1/usage?policy=api"),
    ("POST", "/v1/reset"),
    ("PUT", "/v1/policies/api/limits/requests_per_hour"),
];

/// One request with these headers and no others.
fn send(client: &mut Client, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    client
        .write(format!("{method} {path} HTTP/1.1\r\ncontent-length: {length}\r\n{headers}\r\n{body}"))
        .unwrap();
    client.answer().unwrap()
}

fn kind(answer: &Answer) -> String {
    answer.json()["type"].as_str().unwrap_or_default().to_owned()
}

fn remaining(server: &Running) -> u64 {
    let usage = server.admin().get("/v1/usage?policy=api", "").json();
    usage["limits"][0]["remaining"].as_u64().unwrap()
}

/// T22: on loopback a name that a web page could have pointed here is refused, on every route but that of proxies, and the
/// refusal has the line to add.
#[test]
fn rebound_name_is_refused_on_loopback() {
    let server = Running::of(POLICIES);
    for host in
        ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "a b"]
    {
        let host = format!("host: {host}\r\n");
        for (method, path, _) in DECISIONS {
            let refused = send(&mut server.client(), method, path, &host, TAKE);
            assert_eq!(
                (refused.status, kind(&refused).as_str()),
                (403, "urn:tollway:unknown-host"),
                "{path}"
            );
        }
        for (method, path) in ADMINISTRATION {
            let refused = send(&mut server.admin(), method, path, &host, "");
            assert_eq!(
                (refused.status, kind(&refused).as_str()),
                (403, "urn:tollway:unknown-host"),
                "{path}"
            );
        }
    }
    let refused = send(&mut server.client(), "POST", "/v1/take", "host: api.corp.example\r\n", TAKE);
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(r#"`hosts = ["api.corp.example"]` in [server]"#), "{detail}");
    let absolute =
        "POST http://evil.example/v1/take HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n";
    let mut client = server.client();
    client.write(absolute).unwrap();
    assert_eq!(client.answer().unwrap().status, 403, "the target's name counts, too");
    assert_eq!(remaining(&server), 100);
}

#[test]
fn names_that_no_web_page_can_have_are_known() {
    let server = Running::of(&format!("{POLICIES}[server]\nhosts = ['Tollway.Corp.example']"));
    let port = server.tcp(ListenerKind::Decisions).port();
    let hosts =
        ["127.0.0.1", "10.0.0.7:80", "[::1]", "localhost", "LOCALHOST:1", "a.localhost", "tollway", ""];
    for host in
        hosts.iter().chain(&["tollway.corp.example", "TOLLWAY.corp.example:443", "tollway.corp.example."])
    {
        for host in [(*host).to_owned(), format!("{}:{port}", host.split(':').next().unwrap())] {
            if host.starts_with("[:") && !host.starts_with("[::") {
                continue;
            }
            let taken = send(&mut server.client(), "POST", "/v1/take", &format!("host: {host}\r\n"), TAKE);
            assert_eq!(taken.status, 200, "{host}: {taken:?}");
        }
    }
}

/// HTTP/1.1 without `Host`, or with two, is 400 everywhere; HTTP/1.0 needs none.
#[test]
fn host_occurs_once() {
    let server = Running::of(POLICIES);
    for (method, path, _) in DECISIONS.into_iter().chain([("GET", "/v1/authorize?policy=api", false)]) {
        for headers in ["", "host: tollway\r\nhost: tollway\r\n", "host: tollway\r\nhost: evil.example\r\n"] {
            let refused = send(&mut server.client(), method, path, headers, TAKE);
            assert_eq!((refused.status, kind(&refused).as_str()), (400, "urn:tollway:bad-request"), "{path}");
        }
    }
    for (method, path) in ADMINISTRATION {
        assert_eq!(send(&mut server.admin(), method, path, "", "").status, 400, "{path}");
    }
    let mut old = server.client();
    old.write(format!("POST /v1/take HTTP/1.0\r\ncontent-length: {}\r\n\r\n{TAKE}", TAKE.len())).unwrap();
    assert_eq!(old.answer().unwrap().status, 200);
}

/// T22: a page of another origin spends nothing, reads nothing and changes nothing, whatever it sends as a simple request.
#[test]
fn foreign_page_is_refused() {
    let server = Running::of(POLICIES);
    let [port, admin_port] =
        [ListenerKind::Decisions, ListenerKind::Administration].map(|kind| server.tcp(kind).port());
    for headers in [
        CROSS_SITE.to_owned(),
        "sec-fetch-site: cross-site\r\n".to_owned(),
        "sec-fetch-site: same-site\r\n".to_owned(),
        "sec-fetch-site: same-origin\r\nsec-fetch-site: cross-site\r\n".to_owned(),
        "sec-fetch-site: something-new\r\n".to_owned(),
        "origin: null\r\n".to_owned(),
        "origin: http://evil.example\r\n".to_owned(),
        "origin: http://127.0.0.1:1\r\n".to_owned(),
        format!("origin: http://localhost:{port}\r\n"),
        "origin: http://127.0.0.1\r\n".to_owned(),
        format!("origin: http://127.0.0.1:{port}\r\norigin: http://evil.example\r\n"),
        "origin: \r\n".to_owned(),
    ] {
        let headers = format!("{headers}content-type: text/plain\r\n");
        for (method, path, checked) in DECISIONS {
            let host = format!("host: 127.0.0.1:{port}\r\n{headers}");
            let answer = send(&mut server.client(), method, path, &host, TAKE);
            let refused = answer.status == 403 && kind(&answer) == "urn:tollway:foreign-page";
            assert_eq!(refused, checked, "{method} {path} with {headers:?}: {answer:?}");
        }
        for (method, path) in ADMINISTRATION {
            let host = format!("host: 127.0.0.1:{admin_port}\r\n{headers}");
            let answer = send(&mut server.admin(), method, path, &host, "");
            assert_eq!((answer.status, kind(&answer).as_str()), (403, "urn:tollway:foreign-page"), "{path}");
        }
    }
    assert_eq!(remaining(&server), 100);
}

/// Programs send no such headers (`curl -d` neither), and a browser says when its user typed the address, or when the page
/// is the server's own.
#[test]
fn programs_and_own_pages_are_served() {
    let server = Running::of(POLICIES);
    let port = server.tcp(ListenerKind::Decisions).port();
    for headers in [
        String::new(),
        "content-type: application/x-www-form-urlencoded\r\nuser-agent: curl/8\r\naccept: */*\r\n".to_owned(),
        "sec-fetch-site: none\r\n".to_owned(),
        format!("sec-fetch-site: same-origin\r\norigin: http://127.0.0.1:{port}\r\n"),
        format!("origin: https://127.0.0.1:{port}\r\n"),
    ] {
        let headers = format!("host: 127.0.0.1:{port}\r\n{headers}");
        assert_eq!(send(&mut server.client(), "POST", "/v1/take", &headers, TAKE).status, 200, "{headers:?}");
    }
    let usual_port = "host: localhost\r\norigin: https://localhost\r\n";
    assert_eq!(send(&mut server.client(), "POST", "/v1/take", usual_port, TAKE).status, 200);
}

#[test]
fn curl_takes_without_more() {
    let server = Running::of(POLICIES);
    let url = format!("http://{}/v1/take", server.tcp(ListenerKind::Decisions));
    let output = std::process::Command::new("curl").args(["-s", "-d", TAKE, &url]).output().unwrap();
    let answer = String::from_utf8(output.stdout).unwrap();
    assert!(answer.contains(r#""granted":true"#), "{answer}");
}

/// A page of `allowed_origins` may call and read; a page of another origin still may not.
#[test]
fn allowed_origin_may_call_and_read() {
    let server = Running::of(&format!("{POLICIES}[server]\nallowed_origins = ['https://App.example']"));
    let mut client = server.client();
    let page = "host: localhost\r\norigin: https://app.example\r\nsec-fetch-site: cross-site\r\n";
    let taken = send(&mut client, "POST", "/v1/take", page, TAKE);
    assert_eq!(
        (taken.status, taken.header("access-control-allow-origin")),
        (200, Some("https://app.example"))
    );
    assert_eq!(taken.header("vary"), Some("origin"));
    let preflight = format!("{page}access-control-request-method: PUT\r\n");
    let may = send(&mut server.admin(), "OPTIONS", "/v1/policies/api/limits/x", &preflight, "");
    assert_eq!(
        (may.status, may.header("access-control-allow-methods")),
        (204, Some("GET, POST, PUT, DELETE"))
    );
    assert!(may.header("access-control-allow-headers").unwrap().contains("authorization"));
    let other = page.replace("app.example", "evil.example");
    let refused = send(&mut client, "POST", "/v1/take", &other, TAKE);
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (403, None));
}

/// A proxy hands its client's headers on, whatever they are: `/v1/authorize` answers.
#[test]
fn forwarded_requests_are_answered_under_any_name() {
    let server = Running::of(POLICIES);
    for headers in [
        // Caddy's forward_auth and `proxy_set_header Host $host`.
        format!("host: shop.example\r\nx-forwarded-host: shop.example\r\n{CROSS_SITE}"),
        // Traefik's ForwardAuth.
        format!(
            "host: 127.0.0.1:8080\r\nx-forwarded-host: shop.example\r\nx-forwarded-method: POST\r\n{CROSS_SITE}"
        ),
    ] {
        for method in ["GET", "POST"] {
            let answer = send(&mut server.client(), method, "/v1/authorize?policy=api", &headers, "");
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
}

/// A Compose service listens on every address, and others call it by its name.
#[test]
fn other_addresses_check_names_only_if_hosts_are_set() {
    let everywhere = |text: &str| {
        let mut setup = Setup::of(&format!("{POLICIES}{text}"));
        setup.config.listen = ListenAddress::Tcp("0.0.0.0:0".parse().unwrap());
        setup.start()
    };
    let ask = |server: &Running, host: &str| {
        let port = server.tcp(ListenerKind::Decisions).port();
        let mut client = Client::tcp(([127, 0, 0, 1], port).into());
        send(&mut client, "POST", "/v1/take", &format!("host: {host}\r\n"), TAKE).status
    };
    let open = everywhere("");
    assert_eq!(["tollway:8080", "limits.example"].map(|host| ask(&open, host)), [200, 200]);
    let named = everywhere("[server]\nhosts = ['limits.example']");
    assert_eq!(
        ["tollway:8080", "limits.example", "10.0.0.7", "evil.example"].map(|host| ask(&named, host)),
        [200, 200, 200, 403]
    );
}

/// Unix sockets have no names, and browsers do not reach them.
#[test]
fn unix_socket_checks_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut setup = Setup::of(POLICIES);
    setup.config.listen = ListenAddress::Unix { path: path.clone(), mode: None };
    let _server = setup.start();
    assert_eq!(
        send(&mut Client::unix(&path), "POST", "/v1/take", "host: evil.example\r\n", TAKE).status,
        200
    );
}

/// Both examples as they are, and with `Host $host`: what a browser adds for a foreign page reaches Tollway through nginx,
/// and changes nothing.
#[test]
fn nginx_hands_on_what_browsers_send() {
    let example = include_str!("../../../../../../examples/nginx/nginx.conf");
    let consumers = include_str!("../../../../../../examples/nginx/consumers.conf");
    let text = format!("{POLICIES}[consumers]\nrecords = 'sqlite::memory:'\nanonymous_per_hour = 100\n");
    let server = Running::of(&text);
    let handing_on = |example: &str| {
        let line = "proxy_set_header X-Forwarded-For $remote_addr;";
        assert!(example.contains(line));
        example.replace(line, &format!("{line} proxy_set_header Host $host;"))
    };
    for example in [example.to_owned(), consumers.to_owned(), handing_on(example), handing_on(consumers)] {
        let nginx = Nginx::start(&example, server.tcp(ListenerKind::Decisions));
        let headers = format!("host: shop.example\r\n{CROSS_SITE}");
        let answer = send(&mut nginx.client(), "GET", "/", &headers, "");
        assert_eq!((answer.status, answer.body.as_str()), (200, "hello\n"), "{answer:?}");
    }
}
