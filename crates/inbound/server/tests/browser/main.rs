//! A real browser: what a foreign web page, and one whose name has been pointed to this machine, reaches.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests may fail the test"
)]

#[allow(dead_code, reason = "shared with the tests of HTTP")]
#[path = "../it/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with the tests of HTTP")]
#[path = "../it/log.rs"]
mod log;
mod page;
#[allow(dead_code, reason = "shared with the tests of HTTP")]
#[path = "../it/running.rs"]
mod running;

use std::process::Command;

use page::Page;
use running::Running;
use tollway_server::ListenerKind;

const POLICIES: &str = "[policies.api]\nlimits = ['100 requests / hour from first call']\n";

/// Opens a URL in Chromium, for which `evil.example` is this machine, and returns the page when its scripts are done.
fn open(url: &str) -> String {
    let profile = tempfile::tempdir().unwrap();
    let mut chromium = Command::new("chromium");
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    chromium.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    chromium.args(["--dump-dom", "--virtual-time-budget=10000", "--timeout=60000"]);
    chromium.arg("--host-resolver-rules=MAP evil.example 127.0.0.1");
    chromium.arg(format!("--user-data-dir={}", profile.path().display())).arg(url);
    let output = chromium.output().unwrap_or_else(|error| {
        panic!("chromium: {error}; install it with `apt-get install -y chromium`, as `./test --full` does")
    });
    String::from_utf8(output.stdout).unwrap()
}

fn remaining(server: &Running) -> u64 {
    server.admin().get("/v1/usage?policy=api", "").json()["limits"][0]["remaining"].as_u64().unwrap()
}

/// A script that sends these requests, each as a page may without asking first, and reports each result in the page.
fn script(server: &Running, host: &str) -> String {
    let [decisions, admin] =
        [ListenerKind::Decisions, ListenerKind::Administration].map(|kind| server.tcp(kind).port());
    format!(
        r#"<body><script>
        const report = (text) => document.body.append(text, "; ");
        const send = (name, url, options) => fetch(url, options).then(
            (answer) => answer.text().then((text) => report(name + " " + answer.status + " " + text)),
            () => report(name + " not readable"));
        const take = {{method: "POST", body: '{{"policy":"api"}}', headers: {{"content-type": "text/plain"}}}};
        (async () => {{
            await send("take", "http://{host}:{decisions}/v1/take", take);
            await send("blind take", "http://{host}:{decisions}/v1/take", {{...take, mode: "no-cors"}});
            await send("usage", "http://{host}:{admin}/v1/usage?policy=api");
            await send("blind reset", "http://{host}:{admin}/v1/reset", {{...take, mode: "no-cors"}});
            report("done");
        }})();
        </script>"#
    )
}

/// T22: a page of another origin spends nothing and reads nothing. The second part shows that its requests do arrive.
#[test]
fn foreign_page_spends_nothing() {
    let server = Running::of(POLICIES);
    for host in ["127.0.0.1", "localhost", "evil.example"] {
        let page = Page::serve(script(&server, host));
        let shown = open(&format!("http://evil.example:{}/", page.port()));
        assert!(shown.contains("done") && shown.contains("take not readable"), "{shown}");
        assert!(!shown.contains("remaining") && !shown.contains("take 200"), "{shown}");
        assert_eq!(remaining(&server), 100, "{host}: {shown}");
    }
}

#[test]
fn allowed_page_spends_and_reads() {
    let page = Page::later();
    let origin = format!("http://evil.example:{}", page.port());
    let server = Running::of(&format!("{POLICIES}[server]\nallowed_origins = ['{origin}']"));
    page.show(script(&server, "127.0.0.1"));
    let shown = open(&origin);
    assert!(shown.contains("done") && shown.contains("take 200"), "{shown}");
    assert_eq!(remaining(&server), 98, "{shown}");
}

/// T22: a name of the attacker that points to this machine by now reads nothing: to the browser it is the page's own origin.
#[test]
fn rebound_name_reads_nothing() {
    let server = Running::of(POLICIES);
    for (kind, path) in [
        (ListenerKind::Administration, "/v1/usage?policy=api"),
        (ListenerKind::Administration, "/metrics"),
        (ListenerKind::Decisions, "/openapi.json"),
    ] {
        let port = server.tcp(kind).port();
        let refused = open(&format!("http://evil.example:{port}{path}"));
        assert!(refused.contains("urn:tollway:unknown-host"), "{refused}");
        let own = open(&format!("http://localhost:{port}{path}"));
        assert!(!own.contains("urn:tollway") && own.len() > 100, "{own}");
    }
}
