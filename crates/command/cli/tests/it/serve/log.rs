//! The server's log: changes with their time, but no subjects and no secrets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::serving::{Serving, status};
use crate::home::Home;

const TOKEN: &str = "0123456789abcdef-a-token";

fn start(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> Serving {
    home.write("token", TOKEN);
    home.write(
        "tollway.toml",
        "[policies.api]\nlimits = ['9 / hour']\n[server]\nlisten = '127.0.0.1:0'\nadmin = '127.0.0.1:0'\n\
         [server.tokens]\nwrite = 'file:token'",
    );
    Serving::start_with(home, arguments, variables)
}

/// Two administrative changes, and some takes.
fn change_and_take(serving: &Serving) {
    let change = |request: &str, body: &str| {
        let answer =
            serving.ask("administration", request, &format!("authorization: Bearer {TOKEN}\r\n"), body);
        assert!([200, 204].contains(&status(&answer)), "{answer}");
    };
    change("PUT /v1/policies/api/limits/requests_per_hour", r#"{"to": "20"}"#);
    change("POST /v1/reset", r#"{"policy": "api", "subject": "ann"}"#);
    for _ in 0..3 {
        let body = r#"{"policy": "api", "subject": "SECRET-SUBJECT"}"#;
        assert_eq!(status(&serving.ask("decisions", "POST /v1/take", "", body)), 200);
    }
}

/// T23: an administrative change is logged with its time, token and subject; takes and secrets are not.
#[test]
fn changes_are_logged_with_times() {
    let home = Home::new();
    let serving = start(&home, &[], &[]);
    change_and_take(&serving);
    let (code, log) = serving.stop();
    assert_eq!(code, Some(0), "{log}");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    for (line, words) in lines.iter().zip(["INFO a limit was set", "INFO usage was reset"]) {
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok(), "{line}");
        assert!(
            rest.trim_start().starts_with(words)
                && rest.contains("api")
                && rest.contains("by=write at 127.0.0.1"),
            "{line}"
        );
    }
    assert!(!log.contains("SECRET") && !log.contains(TOKEN), "{log}");
}

/// The command line overrides the variable. Changes are logged at every level.
#[test]
fn log_level_is_configurable() {
    let home = Home::new();
    let warn = [("TOLLWAY_LOG_LEVEL", "warn")];
    for (arguments, variables, logs) in [
        (&["--log-level", "error"][..], &[][..], false),
        (&[], &warn, false),
        (&["--log-level", "info"], &warn, true),
    ] {
        let serving = start(&home, arguments, variables);
        change_and_take(&serving);
        let config = std::fs::read_to_string(home.path().join("tollway.toml")).unwrap();
        home.write("tollway.toml", config.replace("[policies.api]", "[policies.new]"));
        serving.until("new", 200);
        let (_, log) = serving.stop();
        assert_eq!(log.contains("config file reloaded"), logs, "{arguments:?} {variables:?}: {log}");
        assert!(log.contains("a limit was set") && log.contains("by=write at 127.0.0.1"), "{log}");
    }
    let wrong = home.tollway(&["serve"]).env("TOLLWAY_LOG_LEVEL", "loud").output().unwrap();
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(78), "{said}");
    assert!(said.contains("\"loud\"") && said.contains("error, warn, info or debug"), "{said}");
}

/// Every line is an object with the documented keys, also what libraries log and what ends the command; no secret is in it.
#[test]
fn lines_are_json_if_the_command_line_says_so() {
    let home = Home::new();
    let serving = start(&home, &["--log-format", "json", "--log-level", "debug"], &[]);
    change_and_take(&serving);
    send_unwanted(&serving.address("decisions"));
    let (code, log) = serving.stop();
    assert_eq!(code, Some(0), "{log}");
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &lines {
        let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let known = ["fields", "level", "message", "spans", "target", "time"];
        assert!(keys.iter().all(|key| known.contains(key)), "{line}");
        assert!(line["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{line}");
        assert!(["debug", "info", "warn"].contains(&line["level"].as_str().unwrap()), "{line}");
    }
    let set = lines.iter().find(|line| line["message"] == "a limit was set").unwrap();
    assert_eq!(
        (&set["level"], &set["fields"]["to"]),
        (&"info".into(), &"20 requests / hour".into()),
        "{set}"
    );
    assert!(set["target"].as_str().unwrap().starts_with("tollway_server"), "{set}");
    assert!(lines.iter().any(|line| line["message"].as_str().unwrap().contains("more are dropped")), "{log}");
    assert!(!log.contains(TOKEN), "{log}");
}

/// Why the server did not start is a line like the others.
#[test]
fn the_error_that_ends_the_command_is_json() {
    let home = Home::new();
    home.write("tollway.toml", "policies.api.limits = ['9 / hour']\nserver.listen = '127.0.0.1:1'");
    let ended = home.tollway(&["serve", "--log-format", "json", "--admin", "8.8.8.8:1"]).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    let lines: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().unwrap();
    assert_eq!(last["level"], "error", "{said}");
    assert!(last["message"].as_str().unwrap().contains("without a token"), "{said}");
    assert!(last["fields"]["advice"].as_str().unwrap().contains("[server.tokens]"), "{said}");
}

/// A PING frame of HTTP/2, or the acknowledgement of one.
fn ping(is_ack: bool, data: &[u8; 8]) -> Vec<u8> {
    let mut frame = vec![0, 0, 8, 6, u8::from(is_ack), 0, 0, 0, 0];
    frame.extend(data);
    frame
}

/// Sends unwanted acknowledgements, each of which a library logs, until the server has answered everything. They are fewer
/// than the control frames for which the server closes a connection.
fn send_unwanted(address: &str) {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    client.write_all(&ping(true, b"unwanted").repeat(900)).unwrap();
    client.write_all(&ping(false, b"finished")).unwrap();
    let (mut read, mut bytes) = (Vec::<u8>::new(), [0; 4_096]);
    while !read.windows(8).any(|part| part == b"finished") {
        let count = client.read(&mut bytes).unwrap();
        assert_ne!(count, 0, "the server has answered everything");
        read.extend(&bytes[..count]);
    }
}

/// T23: a client that makes a library log each of its frames writes a bounded number of lines, also with many connections.
#[test]
fn a_client_cannot_flood_the_log() {
    let home = Home::new();
    let serving = start(&home, &[], &[]);
    let begun = Instant::now();
    for _ in 0..23 {
        send_unwanted(&serving.address("decisions"));
    }
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap() + 2;
    let (_, log) = serving.stop();
    assert!(log.contains("lines in a second; more are dropped"), "{log}");
    assert!(log.lines().count() <= 102 * seconds, "{} lines in {seconds} s", log.lines().count());
}
