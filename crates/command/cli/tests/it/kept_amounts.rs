//! Short commands keep the last good amount of a parameter between them (A3), and rarely read it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::net::SocketAddr;
use std::time::Duration;

use crate::home::Home;
use crate::provision::put;
use tollway_testkit::faults::{AwsFront, Treatment};
use tollway_testkit::servers::Ministack;

/// 200 in the config; the parameter is read through `addr`.
fn config(addr: SocketAddr, name: &str, every: &str) -> String {
    format!(
        r#"
        [policies.adobe]
        limits = ["200 requests / minute"]
        source = "ssm:{name}?region=eu-west-1&endpoint=http://{addr}&access=test:test"
        source_every = "{every}"
        "#
    )
}

/// The amount that a take is decided under, and what the command says on standard error.
fn amount_of_take(home: &Home) -> (u64, String) {
    let (exit, answer, said) = home.run(&["take", "adobe", "--json"]);
    assert_eq!(exit, 0, "{said}");
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    (answer["limits"][0]["amount"].as_u64().unwrap(), said)
}

/// Takes until a command says this: an amount is kept for a second.
fn take_until_said(home: &Home, wanted: &str) -> u64 {
    for _ in 0..100 {
        let (amount, said) = amount_of_take(home);
        if said.contains(wanted) {
            return amount;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    panic!("no command said {wanted:?}");
}

/// A3: a value that is not a number, a throttle, a refusal, no SSM at all, and no parameter: the next command goes by the last good value.
#[test]
fn the_last_good_amount_outlives_a_command() {
    let parameters = Ministack::start();
    let front = AwsFront::to(parameters.addr());
    let home = Home::with_config(&config(front.addr(), "/kept/rpm", "1s"));
    put(&parameters, "/kept/rpm", "150");
    assert_eq!(amount_of_take(&home).0, 150);
    for wrong in ["nonsense", "250k"] {
        put(&parameters, "/kept/rpm", wrong);
        assert_eq!(take_until_said(&home, wrong), 150);
    }
    for (said, wanted) in [(Treatment::Throttled, "ThroughputExceeded"), (Treatment::Denied, "AccessDenied")]
    {
        front.always("GetParameter", said);
        assert_eq!(take_until_said(&home, wanted), 150);
        front.clear();
    }
    parameters.kill();
    assert_eq!(take_until_said(&home, "could not be reached"), 150);
    parameters.restart_empty();
    assert_eq!(take_until_said(&home, "its parameter is missing"), 150);
    put(&parameters, "/kept/rpm", "160");
    while amount_of_take(&home).0 != 160 {
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A3: every five minutes, however many commands there are, at the same time or one after the other.
#[test]
fn commands_share_one_reading_of_the_parameter() {
    let parameters = Ministack::shared();
    let front = AwsFront::to(parameters.addr());
    put(parameters, "/kept/shared", "250");
    let home = Home::with_config(&config(front.addr(), "/kept/shared", "5m"));
    std::thread::scope(|scope| {
        let takes: Vec<_> = (0..8).map(|_| scope.spawn(|| amount_of_take(&home).0)).collect();
        assert!(takes.into_iter().all(|take| take.join().unwrap() == 250));
    });
    let (exit, _, _) = home.run(&["run", "-p", "adobe", "--", "true"]);
    assert_eq!((exit, front.count("GetParameter")), (0, 1));
    let (_, limits, _) = home.run(&["limit", "get"]);
    assert!(limits.contains("250 requests / minute") && limits.contains("read at"), "{limits}");
    assert_eq!(front.count("GetParameter"), 1);
}

/// Like the state file beside it, and no command depends on it.
#[cfg(unix)]
#[test]
fn kept_amounts_are_private_and_a_broken_file_is_ignored() {
    use std::os::unix::fs::PermissionsExt;
    let parameters = Ministack::shared();
    put(parameters, "/kept/private", "250");
    let home = Home::with_config(&config(parameters.addr(), "/kept/private", "5m"));
    assert_eq!(amount_of_take(&home).0, 250);
    let folder = home.path().join(".local/state/tollway/state.sources");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");
    for broken in [&b"no amounts"[..], &[0xff; 100_000]] {
        files.iter().for_each(|file| std::fs::write(file, broken).unwrap());
        assert_eq!(amount_of_take(&home).0, 250);
    }
}
