//! `GET /metrics` for Prometheus.

use std::time::{Duration, Instant};

use tollway::metrics::METRICS;
use tollway_server::{ProgramSamples, SERVER_METRICS, ServeError, Server, ServerConfig, Token};

use crate::client::Client;
use crate::running::{LONG, Running, Setup};

const POLICIES: &str = "[policies.api]\nlimits = [\"2 requests / hour\"]";

/// G10, T23: takes are counted by policy and limit; subjects create no series.
#[test]
fn take_metrics_have_no_subject_labels() {
    let server = Running::of(POLICIES);
    let (mut client, mut admin) = (server.client(), server.admin());
    let series = |text: &str| {
        text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(client.take(r#"{"policy": "api", "subject": "ann"}"#).status, 200);
    let before = admin.get("/metrics", "");
    assert_eq!(
        (before.status, before.header("content-type")),
        (200, Some("text/plain; version=0.0.4; charset=utf-8"))
    );
    let mut granted = 1;
    for (subject, status) in [("ann", 200), ("ann", 429), (r"bob\u001b[31m", 200), (r"eve\r\nx 1", 200)] {
        let answer = client.take(&format!(r#"{{"policy": "api", "subject": "{subject}"}}"#));
        assert_eq!(answer.status, status, "{answer:?}");
        granted += u64::from(status == 200);
    }
    let after = admin.get("/metrics", "").body;
    assert_eq!(series(&before.body), series(&after));
    for line in [
        format!(r#"tollway_decisions_total{{policy="api",outcome="granted"}} {granted}"#),
        r#"tollway_decisions_total{policy="api",outcome="denied"} 1"#.to_owned(),
        format!(r#"RateLimiterTokensAcquired{{policy="api",limit="requests_per_hour"}} {granted}"#),
        r#"RateLimiterAcquisitionFailures{policy="api",limit="requests_per_hour"} 1"#.to_owned(),
    ] {
        assert!(after.lines().any(|told| told == line), "{line}\n{after}");
    }
}

/// G10: buckets are most of a policy's lines, so they are shown only if the config asks for them.
#[test]
fn latency_buckets_are_shown_if_the_config_asks_for_them() {
    for (config, shown) in
        [("", false), ("[server]\nmetrics = 'short'", false), ("[server]\nmetrics = 'full'", true)]
    {
        let server = Running::of(&format!("{POLICIES}\n{config}"));
        assert_eq!(server.client().take(r#"{"policy": "api"}"#).status, 200);
        let text = server.admin().get("/metrics", "").body;
        let kind = if shown { "histogram" } else { "summary" };
        assert!(text.contains(&format!("# TYPE RateLimiterAcquisitionLatency {kind}")), "{text}");
        assert_eq!(text.contains(r#"RateLimiterAcquisitionLatency_bucket{policy="api""#), shown, "{text}");
        assert!(text.contains(r#"RateLimiterAcquisitionLatency_count{policy="api""#), "{text}");
    }
}

/// Waits until the metrics contain this line.
fn until_told(admin: &mut Client, line: &str) {
    let begun = Instant::now();
    loop {
        let told = admin.get("/metrics", "").body;
        if told.lines().any(|told| told == line) {
            break;
        }
        assert!(begun.elapsed() < LONG, "never: {line}\n{told}");
    }
}

/// Connections are counted by listener: open, waiting, over the limit, and slow.
#[test]
fn connections_are_counted_by_listener() {
    let mut setup = Setup::of(POLICIES);
    (setup.config.connections, setup.config.connections_per_address) = (3, 2);
    setup.timeouts.head = Duration::from_millis(500);
    let server = setup.start();
    let mut admin = server.admin();
    until_told(&mut admin, r#"tollway_connections_open{door="administration"} 1"#);
    let mut held = [server.client(), server.client()];
    for client in &mut held {
        client.get("/openapi.json", "");
    }
    until_told(&mut admin, r#"tollway_connections_open{door="decisions"} 2"#);
    server.client().closed();
    until_told(&mut admin, r#"tollway_connections_turned_away_total{door="decisions"} 1"#);
    drop(held);
    until_told(&mut admin, r#"tollway_connections_open{door="decisions"} 0"#);
    server.client().closed();
    until_told(&mut admin, r#"tollway_connections_cut_off_total{door="decisions"} 1"#);
    until_told(&mut admin, r#"tollway_connections_waited_total{door="decisions"} 0"#);
}

#[test]
fn waiting_connection_is_counted() {
    let mut setup = Setup::of(POLICIES);
    setup.config.connections = 1;
    let server = setup.start();
    let mut only = server.client();
    only.get("/openapi.json", "");
    let _waiting = server.client();
    until_told(&mut server.admin(), r#"tollway_connections_waited_total{door="decisions"} 1"#);
}

/// The table of the reference page is generated from the metrics; `TOLLWAY_BLESS=1` rewrites it.
#[test]
fn metrics_page_matches_the_metrics() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guide/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once("<!-- metrics begin -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- metrics end -->").unwrap();
    let mut table = "| name | kind | unit | labels | meaning |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for metric in METRICS.into_iter().chain(SERVER_METRICS) {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (kind, labels) = (metric.kind.word(), labels.join(", "));
        table +=
            &format!("| `{}` | {kind} | {} | {labels} | {} |\n", metric.name, metric.unit, metric.meaning);
    }
    let wanted = format!("{before}<!-- metrics begin -->\n{table}<!-- metrics end -->{after}");
    if std::env::var_os("TOLLWAY_BLESS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), wanted, "TOLLWAY_BLESS=1 rewrites the page");
}

/// The server's and the limiter's metrics share no name, and no label holds a caller's value.
#[test]
fn server_metrics_have_unique_names() {
    for metric in SERVER_METRICS {
        let namesakes = METRICS.into_iter().chain(SERVER_METRICS).filter(|other| other.name == metric.name);
        assert_eq!(namesakes.count(), 1, "{}", metric.name);
        assert!(metric.labels.iter().all(|label| !["subject", "key", "address"].contains(label)));
    }
}

/// T22: a program that serves only metrics serves them to this machine, and to others with a token.
#[test]
fn metrics_of_a_program_need_a_token_beyond_this_machine() {
    let limiter = tollway::Limiter::builder().build();
    let samples: ProgramSamples = std::sync::Arc::new(|| Box::pin(async { Ok(Vec::new()) }));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "read-read-read-read").unwrap();
    let read_token = Some(Token::File(file.path().to_owned()));
    let guarded = ServerConfig { read_token, ..ServerConfig::default() };
    let at = |address: &str, config: &ServerConfig| {
        Server::for_program(limiter.clone(), config, address.parse().unwrap(), samples.clone()).err()
    };
    let refused = at("0.0.0.0:0", &ServerConfig::default());
    assert!(matches!(refused, Some(ServeError::OpenMetrics(_))), "{refused:?}");
    assert!(at("0.0.0.0:0", &guarded).is_none());
    assert!(at("127.0.0.1:0", &ServerConfig::default()).is_none());
}
