//! What was done to other gateways, one case for each published advisory.

use std::net::SocketAddr;

use crate::running::{api, gateway, gateway_with};
use crate::vendor::RecordingVendor;
use crate::{CALLERS, CREDENTIAL, FREE, fixture, log};

/// A request, and what it was used for.
struct Case {
    advisory: &'static str,
    method: &'static str,
    target: String,
    headers: String,
    body: String,
    /// The statuses that it may have here.
    statuses: &'static [u16],
}

impl Case {
    fn get(advisory: &'static str, target: impl Into<String>, headers: impl Into<String>) -> Self {
        let (target, headers) = (target.into(), headers.into());
        Self { advisory, method: "GET", target, headers, body: String::new(), statuses: &[200] }
    }

    fn post(advisory: &'static str, target: impl Into<String>, body: impl Into<String>) -> Self {
        Self { method: "POST", body: body.into(), ..Self::get(advisory, target, "") }
    }

    fn answers(self, statuses: &'static [u16]) -> Self {
        Self { statuses, ..self }
    }
}

fn cases(other: SocketAddr) -> Vec<Case> {
    let there = format!("http://{other}");
    vec![
        Case::post(
            "CVE-2024-6587: the body names the address, and the key is sent there",
            "/test/chat/completions",
            format!("{{\"model\": \"m\", \"api_base\": \"{there}\", \"base_url\": \"{there}\"}}"),
        ),
        Case::post(
            "PYSEC-2026-4070: the same, nested",
            "/test/chat/completions",
            format!("{{\"user_config\": {{\"model_list\": [{{\"litellm_params\": {{\"api_base\": \"{there}\"}}}}]}}}}"),
        ),
        Case::get("the same in the query", format!("/test/a?api_base={there}&url=//{other}"), ""),
        Case::get(
            "CVE-2026-49468, PYSEC-2026-388: a route made of Host",
            "/test/a",
            format!("x-forwarded-host: {other}\r\nx-original-url: {there}/\r\nx-rewrite-url: //{other}/\r\nforwarded: host={other}\r\n"),
        ),
        Case::post("CVE-2026-35029: any key changes the config", "/config/update", "{}").answers(&[404]),
        Case::post("the same, of an administration", "/v1/reset", "{}").answers(&[404]),
        Case::get(
            "Lunar: a header chooses the target",
            "/test/a",
            format!("x-lunar-host: {other}\r\nx-lunar-scheme: http\r\n"),
        ),
        Case::get(
            "Portkey, Helicone: the same under other names",
            "/test/a",
            format!("x-portkey-custom-host: {there}\r\nhelicone-target-url: {there}\r\nx-target-url: {there}\r\n"),
        ),
        Case::get("Reverse::Proxy: a decoded line end ends the request line", format!("/test/a%0d%0aHost:%20{other}%0d%0a%0d%0a"), ""),
        Case::get(
            "CVE-2026-2833: bytes after an upgrade",
            "/test/a",
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n",
        )
        .answers(&[501]),
        Case::get(
            "hop-by-hop headers that remove others",
            "/test/a",
            "connection: x-key, authorization, host, content-length\r\n",
        ),
        Case::get("a redirect takes the key along", "/test/redirect", "").answers(&[302]),
    ]
}

#[tokio::test]
async fn published_attacks_reach_no_other_place() {
    let (vendor, other, gateway) = fixture().await;
    for case in cases(other.address) {
        let Case { advisory, method, target, headers, body, statuses } = case;
        let headers = format!("authorization: Bearer {CALLERS}\r\n{headers}");
        let reply = gateway.request(method, &target, &headers, body.as_bytes()).await;
        assert!(statuses.contains(&reply.status), "{advisory}: {reply:?}");
        assert!(!reply.text().contains(CREDENTIAL), "{advisory}: {reply:?}");
        for request in vendor.requests().drain(..) {
            let (head, sent) = request.split_once("\r\n\r\n").unwrap();
            assert!(request.contains(&format!("host: {}\r\n", vendor.address)), "{advisory}: {head}");
            assert!(head.contains(&format!("x-key: {CREDENTIAL}")), "{advisory}: {head}");
            // The caller's key is not the vendor's to see, because the config has one.
            assert!(!head.contains(CALLERS), "{advisory}: {head}");
            assert_eq!(sent.is_empty(), head.starts_with("GET"), "{advisory}");
        }
        assert!(other.requests().is_empty(), "{advisory}: {:?}", other.requests());
    }
    log::check();
}

/// CVE-2026-2835: bodies of HTTP/1.0. One with a length is a request like others, one with a coding is none.
#[tokio::test]
async fn bodies_of_http_1_0_have_a_length() {
    let (vendor, _, gateway) = fixture().await;
    let head = "POST /test/a HTTP/1.0\r\nhost: localhost\r\n";
    let next = "GET /test/next HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let reply = gateway.send(format!("{head}content-length: 3\r\n\r\nabc{next}")).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    for coding in ["chunked", "identity", "chunked, identity", "identity, chunked", "gzip, chunked"] {
        let coded = format!("{head}transfer-encoding: {coding}\r\n\r\n3\r\nabc\r\n0\r\n\r\n{next}");
        assert!((400..600).contains(&gateway.send(coded).await.status), "{coding}");
    }
    // Without a length there is no body: what follows is of no request, because HTTP/1.0 closes its connection.
    assert_eq!(gateway.send(format!("{head}\r\nabc{next}")).await.status, 200);
    let requests = vendor.requests();
    assert!(
        requests.len() == 2 && requests.iter().all(|request| request.starts_with("POST /v1/a ")),
        "{requests:?}"
    );
    log::check();
}

/// CVE-2026-35029 on the listener for metrics: it changes nothing without a token that may write, and there is none.
#[tokio::test]
async fn the_administration_changes_nothing() {
    log::keep();
    let vendor = RecordingVendor::start().await;
    let gateway = gateway_with(&api(vendor.address, FREE), |config| {
        config.admin = Some(tollway_server::ListenAddress::Tcp(([127, 0, 0, 1], 0).into()));
    })
    .await;
    let admin = gateway.at(gateway.admin.unwrap());
    for (method, path) in [
        ("POST", "/v1/reset"),
        ("PUT", "/v1/policies/test/limits/requests_per_second"),
        ("DELETE", "/v1/policies/test/limits/requests_per_second"),
    ] {
        let reply = admin.request(method, path, "content-type: application/json\r\n", b"{}").await;
        assert_eq!(reply.status, 403, "{method} {path}: {reply:?}");
    }
    for path in ["/test/a", "/v1/a", "/config/update"] {
        assert_eq!(admin.get(path, "").await.status, 404, "{path}");
    }
    assert!(vendor.requests().is_empty());
    log::check();
}

/// A vendor's name that leads to this machine or its network (a zone that was taken over, the metadata of a cloud) is refused
/// when a connection is made, unless the config says that it is meant.
#[tokio::test]
async fn a_name_that_leads_to_a_private_address_is_not_called() {
    log::keep();
    let vendor = RecordingVendor::start().await;
    // Its own name has an address of the machine or of its network, wherever tests run.
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let config = |more: &str| {
        format!("[apis.test]\nbase_url = \"http://{name}:{}/v1\"\n{FREE}\n{more}", vendor.address.port())
    };
    let refusing = gateway(&config("")).await;
    let reply = refusing.get("/test/a", "").await;
    let says = "set `private_addresses = true` in [apis.test.gateway]";
    assert!(reply.status == 502 && reply.text().contains(says), "{reply:?}");
    assert!(vendor.requests().is_empty());
    let allowing = gateway(&config("[apis.test.gateway]\nprivate_addresses = true\n")).await;
    let reply = allowing.get("/test/a", "").await;
    // The vendor listens on one address of this machine, which may not be that of its name.
    assert!(!reply.text().contains(says), "{reply:?}");
    log::check();
}
