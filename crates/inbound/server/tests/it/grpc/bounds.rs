//! Every bound of a gRPC call, and the error beyond it.

use crate::call::{SHOULD_RATE_LIMIT, framed};
use crate::messages::{OK, OVER_LIMIT, RateLimitRequest, descriptor, question};
use crate::running::Running;

const CONFIG: &str = r#"
    [policies.p]
    limits = ["2 / hour from first call"]
    [[server.descriptors]]
    domain = "edge"
    keys = ["k"]
    policy = "p"
    subject = "{k}"
"#;

const INVALID_ARGUMENT: u32 = 3;
const RESOURCE_EXHAUSTED: u32 = 8;
const UNIMPLEMENTED: u32 = 12;

/// T19: too many, too few, and unsupported fields.
#[test]
fn invalid_request_explains_itself() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let one = || descriptor(&["k=v"]);
    let mut given_back = one();
    given_back.is_negative_hits = true;
    let no_domain = RateLimitRequest { domain: String::new(), ..question([one()]) };
    let many_entries = vec!["k=v"; 33];
    let many_subjects = (0..17).map(|number| descriptor(&[&format!("k={number}")]));
    for (request, code, word) in [
        (no_domain, INVALID_ARGUMENT, "domain"),
        (question([]), INVALID_ARGUMENT, "0 descriptors"),
        (question(vec![one(); 65]), INVALID_ARGUMENT, "65 descriptors"),
        (question([descriptor(&[])]), INVALID_ARGUMENT, "0 entries"),
        (question([descriptor(&many_entries)]), INVALID_ARGUMENT, "33 entries"),
        (question(many_subjects), INVALID_ARGUMENT, "17 policies"),
        (question([given_back]), UNIMPLEMENTED, "/v1/return"),
    ] {
        let (found, message) = envoy.ask_wrongly(&request);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(envoy.ask(&question([one()])).statuses[0].limit_remaining, 1, "none of it was counted");
}

/// T19: a message may be as long as a body, and no longer.
#[test]
fn message_over_the_bound_is_resource_exhausted() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let of_length = |length: usize| {
        let value = "x".repeat(length);
        question([descriptor(&[&format!("k={value}")])])
    };
    assert_eq!(envoy.ask(&of_length(65_000)).overall_code, OK);
    let (code, message) = envoy.ask_wrongly(&of_length(66_000));
    assert_eq!(code, RESOURCE_EXHAUSTED, "{message}");
}

/// T18, T19: long or invalid values count under a subject of their own. A proxy might let a failed call through.
#[test]
fn invalid_subject_values_still_count() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let long = "x".repeat(30_000);
    let values: [&[u8]; 4] = [long.as_bytes(), b"\xff\xfe\x00", b"\0", b"plain"];
    for value in values {
        let text = |bytes: &[u8]| field(2, &[&field(1, b"k"), &*field(2, bytes)].concat());
        let entries = text(value).split_off(0);
        // The tag of `entries` is 1, that of `descriptors` 2.
        let entries = [&[0x0a][..], &entries[1..]].concat();
        let message = [field(1, b"edge"), field(2, &entries)].concat();
        let codes = [(); 3].map(|()| {
            let reply = envoy.send(SHOULD_RATE_LIMIT, "application/grpc", framed(&message));
            assert_eq!(reply.status, Some(0), "{reply:?}");
            reply.read::<crate::messages::RateLimitResponse>().overall_code
        });
        assert_eq!(codes, [OK, OK, OVER_LIMIT], "{value:?}");
    }
}

/// The wire format of a bytes field.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![tag << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        field.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    field.push(u8::try_from(length).unwrap());
    field.extend(bytes);
    field
}
