//! The gRPC health service, which Envoy and Kubernetes use.

use tollway_server::ListenerKind;

use crate::call::{Connection, framed};
use crate::running::{LONG, Running, Setup};

const CHECK: &str = "/grpc.health.v1.Health/Check";

#[test]
fn health_reports_serving_for_known_services() {
    let server = Running::of("[policies.p]\nlimits = [\"1 / day\"]\n[server]\ngrpc = \"127.0.0.1:0\"");
    let mut envoy = Connection::to(server.tcp(ListenerKind::Grpc));
    let mut check = |service: &str| {
        let length = u8::try_from(service.len()).unwrap();
        let message =
            if service.is_empty() { Vec::new() } else { [&[0x0a, length], service.as_bytes()].concat() };
        envoy.send(CHECK, "application/grpc", framed(&message))
    };
    for service in ["", "envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"] {
        let reply = check(service);
        // Field 1, SERVING.
        assert_eq!((reply.status, &reply.body[..]), (Some(0), &b"\0\0\0\0\x02\x08\x01"[..]), "{service}");
    }
    assert_eq!(check("another.Service").status, Some(5));
    assert_eq!(envoy.send("/grpc.health.v1.Health/Watch", "application/grpc", framed(b"")).status, Some(12));
}

/// During a drain, health is NOT_SERVING while calls are still answered.
#[test]
fn drain_reports_not_serving_while_still_answering() {
    let mut setup = Setup::of("[policies.p]\nlimits = [\"1 / day\"]\n[server]\ngrpc = \"127.0.0.1:0\"");
    setup.config.drain = LONG;
    let mut server = setup.start();
    let health = |server: &Running| {
        let mut fresh = Connection::to(server.tcp(ListenerKind::Grpc));
        fresh.send(CHECK, "application/grpc", framed(b"")).body
    };
    assert_eq!(&health(&server)[..], b"\0\0\0\0\x02\x08\x01");
    server.tell_to_stop();
    while server.admin().get("/ready", "").status == 200 {
        std::thread::yield_now();
    }
    // Field 1, NOT_SERVING.
    assert_eq!(&health(&server)[..], b"\0\0\0\0\x02\x08\x02");
    server.server.end_drain();
    server.ended().unwrap();
}
