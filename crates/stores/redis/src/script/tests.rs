//! Tests of the script against a real Redis.

use std::sync::Arc;

use redis::{Connection, ConnectionLike, RedisResult, Value};
use tollway_core::{
    Action, Booking, CallId, Charge, Fault, Operation, Outcomes, PermitId, Policy, Retry, Span, StoreError,
    Subject, Terms, Timestamp, bounds,
};
use tollway_remote::{Call, Tag};
use tollway_testkit::servers::RedisServer;

use super::*;
use crate::address::Address;
use crate::call_batch::{CallBatch, SentCall, Together};
use crate::copies::Copies;
use crate::keys::Keys;
use crate::node::Node;
use crate::pack::Packer;
use crate::request::{GRACE, Requests, Sending};
use crate::room::{NewKeys, Room};
use crate::shared_account::Slots;
use crate::turn::Turn;
use crate::windows::{Calendars, Times};

/// The bounds are the engine's.
#[test]
fn constants_are_the_same_on_both_sides() {
    for line in [
        format!("local MAX = {}", bounds::COUNT_MAX),
        format!("(same - start) / {}))", bounds::EDGE_PART_OF_PERIOD),
        format!("local SEARCH_STEPS_MAX = {}", bounds::SEARCH_STEPS_MAX),
        format!("local CHARGES_PER_TAKE_MAX = {}", bounds::CHARGES_PER_TAKE_MAX),
        format!("local CALL_IDS_MAX, REFUNDS_MAX = {}, {}", bounds::CALL_IDS_MAX, bounds::REFUNDS_MAX),
        format!("local CALL_ID_REMEMBERED = {}", bounds::CALL_ID_REMEMBERED.as_micros()),
        format!("local REFUND_REMEMBERED = {}", bounds::REFUND_REMEMBERED.as_micros()),
        format!("local ORPHANS_MAX = {}", bounds::ORPHANS_MAX),
        format!("local LEARNED_KEPT = {}", bounds::LEARNED_KEPT.as_micros()),
        format!("local CONTROLLER_BYTES_MAX = {}", bounds::CONTROLLER_BYTES_MAX),
        format!("local CAP_MAX = {}", bounds::CAP_MAX.as_micros()),
        format!("local RATE_MAX, AMOUNT_MAX = {}, {}", bounds::RATE_MAX, bounds::AMOUNT_MAX),
        format!("local HOLD_DAILY_MAX = {}", tollway_core::controller::HOLD_DAILY_MAX.as_micros()),
    ] {
        assert!(TEXT.contains(&format!("{line}\n")), "{line}");
    }
}

const PERMIT: PermitId = PermitId(7);
const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

/// Each kind that is sent, with a limit of it.
const KINDS: [(&str, &str); 7] = [
    ("every", "5 / minute"),
    ("calendar", "5 / day"),
    ("first", "5 / minute from first call"),
    ("sliding", "5 / minute sliding"),
    ("bucket", "5 / minute bucket"),
    ("adaptive", "5 / minute adaptive"),
    ("slots", "5 concurrent"),
];

fn terms(call: Option<CallId>) -> Terms {
    Terms {
        permit: PERMIT,
        max_wait: Span::from_mins(1),
        call,
        readings: true,
        new_accounts: tollway_core::NewAccounts::Make,
    }
}

/// Every action, so that it must look at the limit.
fn actions(policy: &Policy) -> Vec<Action> {
    let at = NOW.minus(Span::from_secs(1));
    let booking = Booking { permit: PERMIT, granted_at: at, at, good_until: at };
    let actual = [policy.default_cost().clone()].into();
    vec![
        Action::Take(terms(None)),
        Action::Take(terms(Some(CallId::new("sent").unwrap()))),
        Action::Preview(terms(None)),
        Action::Begin(booking, terms(None)),
        Action::Settle { booking, actual, remember: true },
        Action::Return { booking, remember: true },
        Action::Done(PERMIT),
        Action::Renew(PERMIT),
        Action::Peek,
        Action::Reset,
    ]
}

/// Sends operations by a writer of their own, with the kind of their limit replaced, and answers as the link would.
fn send(
    connection: &mut Connection,
    writer: u128,
    operations: Vec<Operation>,
    (kind, instead): (&str, &str),
) -> Result<Outcomes, StoreError> {
    let requests = Requests {
        keys: Keys::new("tollway:", writer),
        grace: GRACE,
        calendars: Calendars::default(),
        copies: Copies::default(),
    };
    let tag = Tag::of(&operations[0]).unwrap();
    let call = Arc::new(Call { tag, sequence: 1, again: false, operations: operations.into() });
    let sending = Sending { new_keys: NewKeys::Make, slots: Slots::One, now: Some(NOW) };
    let request = requests.of(&[&call], None, &Times::of(&call.operations, NOW), sending, &Room::new());
    let mut packed = request.packed;
    let mut field = Packer::default();
    field.text("kind");
    field.text(kind);
    let field = field.finish();
    let end = packed.windows(field.len()).position(|bytes| bytes == field).unwrap() + field.len();
    packed[end - kind.len()..end].copy_from_slice(instead.as_bytes());
    let mut command = redis::cmd("EVAL");
    command.arg(TEXT).arg(request.keys.len()).arg(request.keys).arg(packed);
    let mut sent_calls = [SentCall::new(call, NOW)];
    let answer = connection.req_command(&command);
    read_answer(&mut sent_calls, answer);
    let [sent] = sent_calls;
    sent.result.unwrap()
}

/// Gives a call its answer, as of one server.
fn read_answer(sent_calls: &mut [SentCall], answer: RedisResult<Value>) {
    let address = Address::parse("redis://127.0.0.1").unwrap();
    let node = Node::only(&address, address.deadline).unwrap();
    let calls = sent_calls.iter_mut().collect();
    CallBatch::all(calls, Together::Named).remove(0).read_answer(answer, &node, None);
}

/// All keys, and what they hold.
fn contents(connection: &mut Connection) -> Vec<(String, Vec<u8>)> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(connection).unwrap();
    keys.sort();
    let mut value = |key: String| {
        let bytes = redis::cmd("GET").arg(&key).query(connection).unwrap();
        (key, bytes)
    };
    keys.into_iter().map(&mut value).collect()
}

/// An unknown kind of limit is an error for every action, on a new account and on a stored one. It is the
/// caller's fault, so that no fallback grants in the store's place; and nothing is written.
#[test]
fn unknown_kind_of_limit_is_refused_by_every_action() {
    let server = RedisServer::start();
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut writer = 0;
    for (index, (kind, limit)) in KINDS.into_iter().enumerate() {
        let policy = Arc::new(Policy::new(&format!("p{index}"), [limit]).unwrap());
        let unknown = format!("?{}", &kind[1..]);
        let operation = |subject: &str, action| {
            Operation::one(Charge::new(Arc::clone(&policy), Subject::new(subject).unwrap()), action)
        };
        let known = vec![operation("known", Action::Take(terms(None)))];
        send(&mut connection, writer, known, (kind, kind)).unwrap();
        let before = contents(&mut connection);
        for subject in ["known", "new"] {
            let two = vec![
                operation(
                    subject,
                    Action::Take(Terms { max_wait: Span::ZERO, readings: false, ..terms(None) })
                );
                2
            ];
            let single = actions(&policy).into_iter().map(|action| vec![operation(subject, action)]);
            for operations in single.chain([two]) {
                writer += 1;
                let asked = format!("{subject} {limit}: {:?}", operations[0].action);
                let error = send(&mut connection, writer, operations, (kind, &unknown)).expect_err(&asked);
                assert_eq!((error.fault, error.retry), (Fault::Caller, Retry::Useless), "{asked}: {error}");
                assert!(error.message.contains(&format!("KIND {unknown} ")), "{asked}: {error}");
            }
        }
        assert_eq!(contents(&mut connection), before, "{limit}");
        writer += 1;
    }
}

/// Sends takes of one account of `subject` as one call, as one process does.
fn send_takes(
    connection: &mut Connection,
    turn: Option<&Turn>,
    sequence: u64,
    subject: &str,
    count: u128,
) -> Result<Outcomes, StoreError> {
    let requests = Requests {
        keys: Keys::new("tollway:", 7),
        grace: GRACE,
        calendars: Calendars::default(),
        copies: Copies::default(),
    };
    let policy = Arc::new(Policy::new("turns", ["1000 / day"]).unwrap());
    let charge = Charge::new(policy, Subject::new(subject).unwrap());
    let take = |permit| Operation::one(charge.clone(), Action::Take(Terms::now(PermitId(permit))));
    let operations: Arc<[_]> = (1..=count).map(take).collect();
    let call = Call { tag: Tag::of(&operations[0]).unwrap(), sequence, again: false, operations };
    let sending = Sending { new_keys: NewKeys::Make, slots: Slots::One, now: Some(NOW) };
    let request = requests.of(&[&call], turn, &Times::of(&call.operations, NOW), sending, &Room::new());
    let mut command = redis::cmd("EVAL");
    command.arg(TEXT).arg(request.keys.len()).arg(request.keys).arg(request.packed);
    let mut sent_calls = [SentCall::new(Arc::new(call), NOW)];
    let answer = connection.req_command(&command);
    read_answer(&mut sent_calls, answer);
    let [sent] = sent_calls;
    sent.result.unwrap()
}

fn turn(connection: u64, command: u64, read: &[u64]) -> Turn {
    Turn { connection, primary: None, command, read: read.to_vec() }
}

/// How many takes the account of a subject counts.
fn used(connection: &mut Connection, subject: &str) -> u64 {
    let key = format!("tollway:1:{{s:{subject}}}:turns");
    let bytes: Vec<u8> = redis::cmd("GET").arg(key).query(connection).unwrap();
    let text = "local _, _, meters = cmsgpack.unpack(ARGV[1]) return meters[1][3]";
    redis::cmd("EVAL").arg(text).arg(0).arg(bytes).query(connection).unwrap()
}

/// G9: an answer is kept until a later command says that it was read, and the process keeps one key.
#[test]
fn answers_are_kept_until_they_were_read() {
    let server = RedisServer::start();
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let first = send_takes(&mut connection, Some(&turn(0, 0, &[])), 1, "one", 2).unwrap();
    send_takes(&mut connection, Some(&turn(0, 1, &[])), 2, "two", 1).unwrap();
    // Its answer was lost, so that it comes again, in another command.
    let again = send_takes(&mut connection, Some(&turn(1, 2, &[1])), 1, "one", 2).unwrap();
    assert_eq!((first, used(&mut connection, "one")), (again, 2));
    let kept = |connection: &mut Connection| {
        let all = contents(connection).into_iter().filter(|(key, _)| key.contains(":answers:"));
        all.map(|(_, value)| value.len()).collect::<Vec<_>>()
    };
    send_takes(&mut connection, Some(&turn(1, 3, &[1])), 3, "three", 1).unwrap();
    let two_unread = kept(&mut connection);
    send_takes(&mut connection, Some(&turn(1, 4, &[0, 3])), 4, "four", 1).unwrap();
    let one_unread = kept(&mut connection);
    assert_eq!((two_unread.len(), one_unread.len()), (1, 1));
    assert!(one_unread[0] < two_unread[0], "{one_unread:?} of {two_unread:?}");
}

/// A copy of a call that an outage held up on an old connection is not applied once a newer connection was used.
#[test]
fn a_copy_over_an_older_connection_is_not_applied() {
    let server = RedisServer::start();
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    send_takes(&mut connection, Some(&turn(2, 1, &[])), 1, "copied", 1).unwrap();
    send_takes(&mut connection, Some(&turn(2, 2, &[1])), 2, "other", 1).unwrap();
    let copy = send_takes(&mut connection, Some(&turn(1, 0, &[])), 1, "copied", 1).unwrap_err();
    assert_eq!((copy.fault, copy.retry), (Fault::Network, Retry::Safe), "{copy}");
    assert_eq!(used(&mut connection, "copied"), 1);
}

/// On a Cluster each account keeps the last answer: an older call is not applied after it.
#[test]
fn an_overtaken_call_does_nothing() {
    let server = RedisServer::start();
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let first = send_takes(&mut connection, None, 1, "overtaken", 1).unwrap();
    assert_eq!(first, send_takes(&mut connection, None, 1, "overtaken", 1).unwrap());
    send_takes(&mut connection, None, 3, "overtaken", 1).unwrap();
    let late = send_takes(&mut connection, None, 2, "overtaken", 1).unwrap_err();
    assert!(late.message.contains("OVERTAKEN"), "{late}");
    assert_eq!(used(&mut connection, "overtaken"), 2);
}

/// What is kept is bounded: beyond that calls wait, and are not applied.
#[test]
fn unread_answers_are_bounded() {
    let server = RedisServer::start();
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut sent = 0;
    let refused = loop {
        sent += 1;
        // Two takes that are not equal have an answer each.
        match send_takes(&mut connection, Some(&turn(0, sent, &[])), sent, &format!("s{sent}"), 2) {
            Ok(_) => assert!(sent < 10_000, "no bound"),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.retry, Retry::Safe, "{refused}");
    let all = contents(&mut connection);
    assert!(!all.iter().any(|(key, _)| key.contains(&format!("{{s:s{sent}}}"))), "it was applied");
    let read: Vec<u64> = (1..sent).collect();
    send_takes(&mut connection, Some(&turn(0, sent, &read)), sent, "read", 1).unwrap();
}
