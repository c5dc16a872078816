//! Which listeners answer gRPC, and what else they answer.

use prost::Message;
use tollway_server::ListenerKind;

use crate::call::{Connection, SHOULD_RATE_LIMIT, framed};
use crate::client::Client;
use crate::messages::{OK, descriptor, question};
use crate::running::Running;

const CONFIG: &str = r#"
    [policies.p]
    limits = ["100 / hour from first call"]
    [server]
    grpc = "127.0.0.1:0"
    [[server.descriptors]]
    domain = "edge"
    keys = ["k"]
    policy = "p"
"#;

#[test]
fn both_decision_listeners_answer_grpc() {
    let server = Running::of(CONFIG);
    for kind in [ListenerKind::Decisions, ListenerKind::Grpc] {
        let mut envoy = Connection::to(server.tcp(kind));
        assert_eq!(envoy.ask(&question([descriptor(&["k=v"])])).overall_code, OK, "{kind:?}");
        let body = framed(&question([descriptor(&["k=v"])]).encode_to_vec());
        for content_type in ["application/grpc+proto", "application/grpc;charset=utf-8"] {
            let reply = envoy.send(SHOULD_RATE_LIMIT, content_type, body.clone());
            assert_eq!((reply.http_status, reply.status), (200, Some(0)), "{content_type}");
        }
        for path in ["/envoy.service.ratelimit.v3.RateLimitService/Other", "/v1/take", "/"] {
            let reply = envoy.send(path, "application/grpc", body.clone());
            assert_eq!((reply.http_status, reply.status), (200, Some(12)), "{path}");
        }
    }
}

/// T22: the administration listener does not answer gRPC.
#[test]
fn administration_listener_does_not_answer_grpc() {
    let server = Running::of(CONFIG);
    let body = framed(&question([descriptor(&["k=v"])]).encode_to_vec());
    let reply = Connection::to(server.tcp(ListenerKind::Administration)).send(
        SHOULD_RATE_LIMIT,
        "application/grpc",
        body,
    );
    assert_eq!((reply.http_status, reply.status), (404, None));
}

#[test]
fn grpc_listener_rejects_other_content_types() {
    let server = Running::of(CONFIG);
    let mut envoy = Connection::to(server.tcp(ListenerKind::Grpc));
    let body = framed(&question([descriptor(&["k=v"])]).encode_to_vec());
    for content_type in ["application/grpc-web", "application/json", "application/grpc+json"] {
        let reply = envoy.send(SHOULD_RATE_LIMIT, content_type, body.clone());
        assert_eq!((reply.http_status, reply.status), (415, None), "{content_type}");
    }
    let mut client = Client::tcp(server.tcp(ListenerKind::Grpc));
    assert_eq!(client.take(r#"{"policy":"p"}"#).status, 415);
    let over_http_1 = client.ask("POST", SHOULD_RATE_LIMIT, "content-type: application/grpc\r\n", "");
    assert_eq!(over_http_1.status, 415);
    assert_eq!(server.server.limiter().usage("p").subject("k=v").now().unwrap().limits[0].used, 0);
}
