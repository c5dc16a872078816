//! The listener for metrics and health checks, apart from that of calls.

use tollway_server::{ListenAddress, ServerConfig};

use crate::running::{LONG, Running, api, gateway_with};
use crate::vendor::RecordingVendor;

const ANY: ListenAddress = ListenAddress::Tcp(std::net::SocketAddr::V4(std::net::SocketAddrV4::new(
    std::net::Ipv4Addr::LOCALHOST,
    0,
)));

async fn start(vendor: &RecordingVendor, keys: &str) -> (Running, Running) {
    let change = |config: &mut ServerConfig| config.admin = Some(ANY);
    let calls = gateway_with(&api(vendor.address, keys), change).await;
    let admin = calls.at(calls.admin.unwrap());
    (calls, admin)
}

async fn until_told(admin: &Running, line: &str) {
    let told = async {
        while !admin.get("/metrics", "").await.text().lines().any(|told| told == line) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let in_time = tokio::time::timeout(LONG, told).await;
    assert!(in_time.is_ok(), "{line}\n{}", admin.get("/metrics", "").await.text());
}

#[tokio::test]
async fn probes_and_metrics_have_a_listener_of_their_own() {
    let vendor = RecordingVendor::start().await;
    let (calls, admin) =
        start(&vendor, "rate = \"off\"\nlimits = [\"2 / hour from first call\"]\nmax_retries = 0").await;
    for path in ["/health", "/ready"] {
        assert_eq!(admin.get(path, "").await.status, 200, "{path}");
        assert_eq!(calls.get(path, "").await.status, 404, "it could be the name of an api");
    }
    assert_eq!(calls.get("/metrics", "").await.status, 404);
    let refused = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(calls.get("/test/a", "").await.status, 200);
    vendor.answer_next(&[refused]);
    for _ in 0..2 {
        assert_eq!(calls.get("/test/a", "").await.status, 429);
    }
    for line in [
        r#"tollway_gateway_calls_total{api="test",outcome="answered"} 1"#,
        r#"tollway_gateway_calls_total{api="test",outcome="vendor_refused"} 1"#,
        r#"tollway_gateway_calls_total{api="test",outcome="refused"} 1"#,
        r#"tollway_gateway_waiting{api="test"} 0"#,
        r#"tollway_gateway_in_flight{api="test"} 0"#,
        r#"tollway_api_refusals_total{api="test",kind="rate"} 1"#,
    ] {
        until_told(&admin, line).await;
    }
    assert!(admin.get("/metrics", "").await.text().contains("tollway_connections_open{door="));
}

#[tokio::test]
async fn calls_that_wait_and_calls_in_flight_are_told_apart() {
    use tokio::io::AsyncWriteExt;
    let vendor = RecordingVendor::start().await;
    let (calls, admin) = start(&vendor, "rate = \"off\"\nlimits = [\"1 / 20s paced\"]").await;
    let begin = async || {
        let mut stream = tokio::net::TcpStream::connect(calls.address).await.unwrap();
        stream.write_all(b"GET /test/hang HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        stream
    };
    let in_flight = begin().await;
    until_told(&admin, r#"tollway_gateway_in_flight{api="test"} 1"#).await;
    let waiting = begin().await;
    until_told(&admin, r#"tollway_gateway_waiting{api="test"} 1"#).await;
    drop((waiting, in_flight));
    until_told(&admin, r#"tollway_gateway_calls_total{api="test",outcome="left"} 2"#).await;
    until_told(&admin, r#"tollway_gateway_waiting{api="test"} 0"#).await;
}

/// Beyond this machine it needs a token, and so does a reload.
#[tokio::test]
async fn an_administration_that_others_reach_needs_a_token() {
    let vendor = RecordingVendor::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "0123456789abcdef").unwrap();
    let limits = tollway::Config::parse(&api(vendor.address, "rate = \"auto\"")).unwrap();
    let limiter = || tollway::Limiter::builder().config(&limits).unwrap().build();
    let mut config = ServerConfig::gateway();
    config.admin = Some(ListenAddress::Tcp(([0, 0, 0, 0], 0).into()));
    let refused = tollway_gateway::Gateway::new(limiter(), &config).await.err().unwrap().to_string();
    assert!(refused.contains("`admin_token` of [gateway]"), "{refused}");
    let without = config.clone();
    config.read_token = Some(tollway_server::Token::File(path));
    let gateway = tollway_gateway::Gateway::new(limiter(), &config).await.unwrap();
    assert!(gateway.reload(&limits, &without).is_err());
    let running = gateway_with(&api(vendor.address, "rate = \"auto\""), |running| {
        (running.admin, running.read_token) = (Some(ANY), config.read_token.clone());
    })
    .await;
    let admin = running.at(running.admin.unwrap());
    assert_eq!([admin.get("/health", "").await.status, admin.get("/metrics", "").await.status], [200, 401]);
    assert_eq!(admin.get("/metrics", "authorization: Bearer 0123456789abcdef\r\n").await.status, 200);
}

#[test]
fn guide_lists_every_metric_of_a_gateway() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guide/metrics.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let table = guide.split("<!-- gateway metrics begin -->").nth(1).unwrap();
    let table = table.split("<!-- gateway metrics end -->").next().unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    let expected = tollway_gateway::GATEWAY_METRICS.map(|metric| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (kind, labels) = (metric.kind.word(), labels.join(", "));
        format!("| `{}` | {kind} | {} | {labels} | {} |", metric.name, metric.unit, metric.meaning)
    });
    assert_eq!(rows, expected);
}
