//! Invalid bytes: each call gets an error, and the connection stays usable.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use prost::Message;

use crate::call::{Connection, SHOULD_RATE_LIMIT, framed};
use crate::messages::{OK, descriptor, question};
use crate::running::Running;

const CONFIG: &str = r#"
    [policies.p]
    limits = ["1000000 / hour from first call"]
    [[server.descriptors]]
    domain = "edge"
    keys = ["k"]
    policy = "p"
"#;

const INVALID_ARGUMENT: u32 = 3;
const UNIMPLEMENTED: u32 = 12;

fn still_answers(envoy: &mut Connection) {
    assert_eq!(envoy.ask(&question([descriptor(&["k=v"])])).overall_code, OK);
}

/// T19: frames that are too short, too long, compressed or invalid.
#[test]
fn invalid_frame_is_an_error() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let good = framed(&question([descriptor(&["k=v"])]).encode_to_vec());
    let changed = |place: usize, byte: u8| {
        let mut frame = good.clone();
        frame[place] = byte;
        frame
    };
    for (frame, code) in [
        (Vec::new(), INVALID_ARGUMENT),
        (good[..4].to_vec(), INVALID_ARGUMENT),
        (good[..good.len() - 1].to_vec(), INVALID_ARGUMENT),
        ([&good[..], b"x"].concat(), INVALID_ARGUMENT),
        ([&good[..], &good].concat(), INVALID_ARGUMENT),
        (changed(0, 1), UNIMPLEMENTED),
        (changed(0, 2), INVALID_ARGUMENT),
        (changed(1, 0xff), INVALID_ARGUMENT),
        (framed(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), INVALID_ARGUMENT),
        (framed(b"\x0a\x7fshort"), INVALID_ARGUMENT),
    ] {
        let reply = envoy.send(SHOULD_RATE_LIMIT, "application/grpc", frame.clone());
        assert_eq!((reply.http_status, reply.status), (200, Some(code)), "{frame:?}: {reply:?}");
        assert!(!reply.message.is_empty());
        still_answers(&mut envoy);
    }
}

/// T19: arbitrary bytes get a decision or a status that blames the caller.
#[test]
fn arbitrary_bytes_get_a_valid_status() {
    let server = Running::of(CONFIG);
    let envoy = RefCell::new(server.envoy());
    let good = question([descriptor(&["k=v", "l=w"]).with_hits(2).with_limit(3, 2)]).encode_to_vec();
    let mutated =
        (any::<prop::sample::Index>(), any::<u8>(), 0..4usize).prop_map(move |(place, byte, cut)| {
            let mut message = good.clone();
            let place = place.index(message.len());
            message[place] = byte;
            message.truncate(message.len() - cut);
            message
        });
    let arbitrary = prop::collection::vec(any::<u8>(), 0..200);
    let body = prop_oneof![
        arbitrary.clone(),
        arbitrary.prop_map(|message| framed(&message)),
        mutated.prop_map(|message| framed(&message)),
    ];
    let mut runner = TestRunner::new(Config { failure_persistence: None, cases: 2_000, ..Config::default() });
    let answered = runner.run(&body, |body| {
        let reply = envoy.borrow_mut().send(SHOULD_RATE_LIMIT, "application/grpc", body);
        prop_assert_eq!(reply.http_status, 200);
        prop_assert!(matches!(reply.status, Some(0 | INVALID_ARGUMENT | UNIMPLEMENTED)), "{:?}", reply);
        Ok(())
    });
    answered.unwrap();
    still_answers(&mut envoy.borrow_mut());
}
