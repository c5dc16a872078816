//! `tollway run`: returns the child's exit code, forwards signals, and many of them keep the limit (A1, A2).
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::home::Home;

const CONFIG: &str = r#"
[policies.adobe]
limits = ["200 requests / 2 seconds"]
edge = "100ms"
max_wait = "10m"

[policies.day]
limits = ["1 request / day"]

[policies.ci]
limits = ["2 concurrent expires 1s"]
"#;

/// The two-second window that contains a time such as `2026-11-15T06:44:04.123456Z`.
fn window(moment: &str) -> (String, u32) {
    let (minute, second) = moment.split_at("2026-11-15T06:44:".len());
    (minute.to_owned(), second[..2].parse::<u32>().unwrap() / 2)
}

/// `seq 1000 | xargs -P 50 -n 1 tollway run -p adobe -- ...` keeps a compressed limit exactly: every command runs, and no
/// window has one too many.
#[test]
fn thousand_commands_with_fifty_in_parallel_keep_the_limit() {
    let home = Home::with_config(CONFIG);
    let script = format!(
        "seq 1000 | xargs -P 50 -n 1 {} run -p adobe -- sh -c 'echo $TOLLWAY_BEGAN_AT'",
        env!("CARGO_BIN_EXE_tollway")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(home.path()).env("HOME", home.path());
    command.env_remove("XDG_STATE_HOME").env_remove("TOLLWAY_CONFIG");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut windows: BTreeMap<(String, u32), u32> = BTreeMap::new();
    for moment in text.lines() {
        *windows.entry(window(moment)).or_default() += 1;
    }
    assert_eq!(windows.values().sum::<u32>(), 1_000, "{windows:?}");
    assert!(windows.values().all(|count| *count <= 200), "{windows:?}");
}

#[test]
fn exit_code_is_the_commands() {
    let home = Home::with_config(CONFIG);
    for policy in ["adobe", "ci"] {
        let run = |script: &str| home.run(&["run", "-p", policy, "--", "sh", "-c", script]);
        let (exit, stdout, _) = run("echo out; echo err >&2; exit 7");
        assert_eq!((exit, stdout.as_str()), (7, "out\n"), "{policy}");
        assert_eq!(run("test -n \"$TOLLWAY_PERMIT\" -a -n \"$TOLLWAY_BEGAN_AT\"").0, 0);
        assert_eq!(home.run(&["run", "-p", policy, "--", "./missing"]).0, 127);
        let script = home.write("not-executable", "#!/bin/sh\n");
        assert_eq!(home.run(&["run", "-p", policy, "--", script.to_str().unwrap()]).0, 126);
        assert_eq!(home.run(&["run", "-p", policy, "--", "/tmp"]).0, 126);
    }
    // As a child process, a killed command has the exit code of shells.
    assert_eq!(home.run(&["run", "-p", "ci", "--", "sh", "-c", "kill -9 $$"]).0, 137);
}

#[test]
fn missing_command_costs_nothing() {
    let home = Home::with_config(CONFIG);
    assert_eq!(home.run(&["run", "-p", "day", "--", "no-such-command"]).0, 127);
    assert_eq!(home.run(&["run", "-p", "day", "--", "./tollway.toml"]).0, 126);
    assert_eq!(home.run(&["run", "-p", "day", "--", "true"]).0, 0);
}

#[test]
fn denied_run_exits_with_or_exit_and_runs_nothing() {
    let home = Home::with_config(CONFIG);
    assert_eq!(home.run(&["run", "-p", "day", "--", "true"]).0, 0);
    let denied = |more: &[&str]| home.run(&[&["run", "-p", "day", "--max-wait", "1s"], more].concat());
    let (exit, stdout, stderr) = denied(&["--", "echo", "ran"]);
    assert_eq!((exit, stdout.as_str()), (75, ""));
    assert!(stderr.starts_with("denied by 1 request / day of policy day; retry in "), "{stderr}");
    assert_eq!(denied(&["--or-exit", "3", "-q", "--", "echo", "ran"]), (3, String::new(), String::new()));
    assert!(denied(&["--json", "--", "echo", "ran"]).1.contains("\"granted\":false"));
    for wrong in [&["run", "-p", "day"][..], &["run", "--", "true"], &["run", "-p", "day", "true"]] {
        assert_eq!(home.run(wrong).0, 2, "{wrong:?}");
    }
}

/// A slot is held while the command runs, well beyond its expiry, and is freed when it ends.
#[test]
fn slot_is_held_while_the_command_runs() {
    let home = Home::with_config(CONFIG);
    let mut holders: Vec<_> = (0..2).map(|_| beside(&home, "echo up; read line; exit 5")).collect();
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(home.run(&["run", "-p", "ci", "--max-wait", "0", "--", "true"]).0, 75);
    for holder in &mut holders {
        drop(holder.stdin.take());
        assert_eq!(holder.wait().unwrap().code(), Some(5));
    }
    assert_eq!(home.run(&["run", "-p", "ci", "--max-wait", "0", "--", "true"]).0, 0);
}

#[test]
fn signals_are_forwarded_to_the_command() {
    let home = Home::with_config(CONFIG);
    for (policy, signal) in [("ci", "TERM"), ("ci", "INT"), ("ci", "USR1"), ("adobe", "TERM")] {
        let script =
            format!("trap 'echo got {signal}; exit 9' {signal}; echo up; while :; do sleep 0.05; done");
        let mut child = started(&home, policy, &script);
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let mut rest = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut rest).unwrap();
        assert_eq!(rest, format!("got {signal}\n"));
        assert_eq!(child.wait().unwrap().code(), Some(9), "{policy} {signal}");
    }
}

/// An interrupted wait cancels its booking, and the next caller gets it.
#[test]
fn interrupted_wait_cancels_its_booking() {
    for (signal, exit) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        interrupted_by(signal, exit);
    }
}

fn interrupted_by(signal: &str, exit: i32) {
    let home = Home::new();
    let limit = ["--limit", "1 / 2 seconds bucket burst 1"];
    let take = |more: &[&str]| home.run(&[&["take", "slow"], &limit[..], more].concat());
    assert_eq!(take(&["-q"]).0, 0);
    let mut waiting = Command::new(env!("CARGO_BIN_EXE_tollway"));
    waiting.args(["take", "slow", "--max-wait", "1h"]).args(limit);
    waiting.current_dir(home.path()).env("HOME", home.path()).env_remove("XDG_STATE_HOME");
    let mut waiting = waiting.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // It is queued once a further take would wait longer than the bucket needs.
    while !take_would_wait(&home, &limit) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Command::new("kill").args(["-s", signal, &waiting.id().to_string()]).status().unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(exit));
    assert!(!take_would_wait(&home, &limit));
}

fn take_would_wait(home: &Home, limit: &[&str]) -> bool {
    let (_, stdout, _) = home.run(&[&["why", "slow", "--json"], limit].concat());
    let answer: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    answer["retry_after_ms"].as_u64().is_some_and(|wait| wait > 2_000)
}

fn beside(home: &Home, script: &str) -> std::process::Child {
    started(home, "ci", script)
}

/// Runs a script that prints `up` once it has started.
fn started(home: &Home, policy: &str, script: &str) -> std::process::Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollway"));
    command.args(["run", "-p", policy, "--", "sh", "-c", script]);
    command.current_dir(home.path()).env("HOME", home.path()).env_remove("XDG_STATE_HOME");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut byte = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
    assert_eq!(&byte, b"up\n");
    child
}
