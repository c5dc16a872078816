//! The layout's script.

use crate::script_call::Script;

/// The whole script.
pub(super) const TEXT: &str = concat!(
    include_str!("script/counters.lua"),
    include_str!("script/memory.lua"),
    include_str!("script/actions.lua"),
    include_str!("script/fast_path.lua"),
    include_str!("script/sharing.lua"),
    include_str!("script/main.lua"),
);

/// The script, as servers know it.
pub(super) static SCRIPT: Script = Script::new(TEXT);

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
mod tests {
    use std::sync::Arc;

    use tollway_core::{
        Action, Charge, Operation, Outcome, Period, PermitId, Policy, Subject, Terms, bounds,
    };
    use tollway_remote::{Call, Tag};
    use tollway_testkit::servers::RedisServer;

    use super::super::request::Request;
    use super::*;
    use crate::keys::Keys;
    use crate::reply;
    use crate::room::NewKeys;

    /// Holds the script up until the first counter's window is over; but not for ever on a server whose clock stands still
    /// while a script runs.
    const LATE: &str = "
        local ends, tries = redis.call('PEXPIRETIME', KEYS[4]), 0
        repeat
          local time = redis.call('TIME')
          tries = tries + 1
        until time[1] * 1000 + time[2] / 1000 > ends + 1 or tries == 1000000
    ";

    fn takes(count: u128, subject: &str) -> Call {
        let policy = Policy::new("consumers", ["5 / second from first call"]).unwrap();
        let charge = Charge::new(Arc::new(policy), Subject::new(subject).unwrap());
        let take = |permit| Operation::one(charge.clone(), Action::Take(Terms::now(PermitId(permit))));
        let operations: Arc<[_]> = (1..=count).map(take).collect();
        Call { tag: Tag::of(&operations[0]).unwrap(), sequence: 1, again: false, operations }
    }

    /// A server decides once, before a script begins, which keys have ended. A take that comes to its turn after its
    /// window's end counts in a new one: in the old one it would vanish with the key.
    #[tokio::test]
    async fn window_expiring_during_the_script_is_not_charged() {
        let server = RedisServer::start();
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        // By the fast path, and by the slow path.
        for count in [1, 2] {
            let subject = format!("late-{count}");
            let (call, key) = (takes(count, &subject), format!("{subject}_PER_SECOND"));
            let request = Request::of(&call, &Keys::new("test:", 1), NewKeys::Make).unwrap();
            server.command(&["SET", &key, "2", "PX", "100"]);
            let ended: u64 = server.command(&["PEXPIRETIME", &key]).parse().unwrap();
            let mut command = redis::cmd("EVAL");
            command.arg(format!("{LATE}{TEXT}")).arg(request.keys.len()).arg(&request.keys);
            command.arg(request.keys.len()).arg(request.sequence).arg(&request.permits).arg(&request.packed);
            let answers: Vec<Vec<u8>> = command.query_async(&mut connection).await.unwrap();
            let outcomes = reply::outcomes(&answers[0], &call.operations).unwrap();
            let Outcome::Decided(decision) = &outcomes[0] else { panic!("{outcomes:?}") };
            if decision.booking().unwrap().at.as_micros() / 1_000 > ended {
                assert_eq!(server.command(&["GET", &key]), count.to_string());
            }
        }
    }

    /// The bounds are the engine's.
    #[test]
    fn constants_are_the_same_on_both_sides() {
        for line in [
            format!("local MAX = {}", bounds::COUNT_MAX),
            format!("local CHARGES_PER_TAKE_MAX = {}", bounds::CHARGES_PER_TAKE_MAX),
            format!("local COUNTERS_MAX = {}", Period::ALL.len()),
            format!("local CALL_IDS_MAX, REFUNDS_MAX = {}, {}", bounds::CALL_IDS_MAX, bounds::REFUNDS_MAX),
            format!("local CALL_ID_REMEMBERED = {}", bounds::CALL_ID_REMEMBERED.as_micros()),
            format!("local REFUND_REMEMBERED = {}", bounds::REFUND_REMEMBERED.as_micros()),
        ] {
            assert!(TEXT.contains(&format!("{line}\n")), "{line}");
        }
    }
}
