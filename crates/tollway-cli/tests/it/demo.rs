//! `tollway demo` from the outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::home::Home;
use serde_json::Value;

/// A small demo: three minutes of it take at most 20 seconds.
const LITTLE: [&str; 7] = ["demo", "--minute", "5s", "--limit", "40", "--workers", "4"];

/// How often to poll before giving up.
const LOOKS: u32 = 600;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// A small demo of this many minutes. Its temporary folder is in the home, so that the test sees what remains.
fn demo(home: &Home, minutes: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollway"));
    command.args(LITTLE).args(["--minutes", minutes]).args(more);
    command.current_dir(home.path()).env("HOME", home.path()).env("TMPDIR", home.path());
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// Processes with this home in their arguments: the workers, whose store is in it.
fn workers_of(home: &Home) -> usize {
    let home = home.path().to_str().unwrap();
    let mentions = |arguments: Vec<u8>| String::from_utf8_lossy(&arguments).contains(home);
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes.filter(|process| fs::read(process.path().join("cmdline")).is_ok_and(mentions)).count()
}

fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if happened() {
            return;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    panic!("never happened: {what}");
}

/// A demo that would take long, once all of its workers run.
fn long_demo(home: &Home, more: &[&str]) -> Child {
    let child = demo(home, "60", more).spawn().unwrap();
    wait_for("four workers", || workers_of(home) == 4);
    child
}

fn send(signal: &str, process: &Child) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", process.id())]).status().unwrap();
    assert!(sent.success());
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// The limit holds by the vendor's own count, though a worker is killed and replaced; nothing is left behind.
#[test]
fn four_processes_share_a_limit_and_one_is_killed() {
    let home = Home::new();
    let output = demo(&home, "3", &["--json"]).output().unwrap();
    let (answer, rest) = texts(&output);
    let report: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((output.status.code(), rest.as_str()), (Some(0), ""), "{report}");

    assert_eq!(report["with_tollway"], true);
    assert_eq!((&report["limit"], &report["minute_ms"]), (&40.into(), &5_000.into()));
    assert_eq!((&report["refusals"], &report["interrupted"]), (&0.into(), &false.into()));
    assert!((1..=40).contains(&report["most_calls_in_a_minute"].as_u64().unwrap()), "{report}");
    assert!(report["started_at"].as_str() < report["ended_at"].as_str());

    let minutes = report["minutes"].as_array().unwrap();
    assert!(minutes.iter().all(|minute| minute["calls"].as_u64() <= Some(40) && minute["refusals"] == 0));
    let sum = |list: &[Value]| list.iter().map(|one| one["calls"].as_u64().unwrap()).sum::<u64>();
    let whole: Vec<Value> = minutes.iter().filter(|minute| minute["whole"] == true).cloned().collect();
    assert_eq!(
        (&report["whole_minutes"]["count"], &report["whole_minutes"]["quota"]),
        (&3.into(), &120.into())
    );
    assert_eq!(report["whole_minutes"]["used"], sum(&whole));
    assert_eq!(report["whole_minutes"]["share"], sum(&whole) as f64 / 120.0);

    let workers = report["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 5, "four, and the one that took the place of the killed one");
    assert_eq!(
        (sum(minutes), sum(workers)),
        (report["calls"].as_u64().unwrap(), report["calls"].as_u64().unwrap())
    );
    assert_eq!((&report["killed"]["worker"], &report["killed"]["replaced_by"]), (&3.into(), &5.into()));
    assert!(report["killed"]["calls_lost_at_most"].as_u64() <= Some(1));
    for worker in workers {
        assert!(!Path::new("/proc").join(worker["pid"].to_string()).exists(), "{worker} still runs");
    }
    assert!(is_empty(home.path()), "the folder of the store is left");
}

/// Without a terminal, events are lines without escape sequences.
#[test]
fn without_a_terminal_the_demo_prints_lines() {
    let home = Home::new();
    let output = demo(&home, "2", &[]).output().unwrap();
    let (answer, rest) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{answer}{rest}");
    assert!(!answer.contains('\x1b') && !rest.contains('\x1b'), "{answer}{rest}");
    assert!(answer.starts_with("With Tollway: 2 full minutes of 40 requests\n"), "{answer}");
    let said = |what: fn(&&str) -> bool| -> Vec<&str> { rest.lines().filter(what).collect() };
    let opening = [
        "A vendor allows 40 requests a minute; its minute takes 5s here.",
        "Its callers: 4 workers, each a process; they share the limit through a file.",
    ];
    assert_eq!(said(|line| !line.starts_with("  ") && !line.is_empty()), opening);
    let events = ["  worker 3 killed while working", "  worker 5 started to replace worker 3"];
    assert_eq!(said(|line| line.starts_with("  worker")), events);
    let minutes = said(|line| line.contains(" refused"));
    let names: Vec<&str> = minutes.iter().map(|line| line.split(['█', '░']).next().unwrap().trim()).collect();
    assert_eq!(names, ["start", "minute 1", "minute 2"]);
    assert!(minutes.iter().all(|line| line.contains(" of 40 ") && line.contains("   0 refused")), "{rest}");
}

#[test]
fn quiet_demo_prints_only_the_report() {
    let output = demo(&Home::new(), "1", &["--quiet"]).output().unwrap();
    let (answer, rest) = texts(&output);
    assert!(answer.starts_with("With Tollway: 1 full minute"), "{answer}");
    assert_eq!(rest, "");
}

/// Without Tollway, the vendor refuses calls of the same workers.
#[test]
fn without_tollway_the_vendor_refuses() {
    let home = Home::new();
    let output = demo(&home, "2", &["--without", "--json"]).output().unwrap();
    let report: Value = serde_json::from_str(&texts(&output).0).unwrap();
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert_eq!(report["with_tollway"], false);
    assert!(report["refusals"].as_u64() > Some(0), "{report}");
    assert!(report["most_calls_in_a_minute"].as_u64() > Some(40), "{report}");
    assert_eq!(report["killed"]["calls_lost_at_most"], Value::Null);
}

/// Ctrl-C ends it early: the workers end, the folder is removed, and the report is printed.
#[test]
fn interrupted_demo_still_reports() {
    for signal in ["INT", "TERM", "HUP"] {
        let home = Home::new();
        let child = long_demo(&home, &["--json"]);
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        let report: Value = serde_json::from_str(&texts(&output).0).unwrap();
        assert_eq!(
            (output.status.code(), &report["interrupted"]),
            (Some(0), &true.into()),
            "{signal} {report}"
        );
        assert_eq!(workers_of(&home), 0);
        assert!(is_empty(home.path()));
    }
}

/// The workers end however the demo ends.
#[test]
fn workers_end_when_the_demo_is_killed() {
    let home = Home::new();
    let mut child = long_demo(&home, &[]);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("no worker is left", || workers_of(&home) == 0);
}

/// The demo fails if a worker exits, instead of going on with fewer.
#[test]
fn exited_worker_fails_the_demo() {
    let home = Home::new();
    let child = long_demo(&home, &[]);
    let store = fs::read_dir(home.path()).unwrap().next().unwrap().unwrap().path().join("state");
    // Repeated, because a worker that is writing the store replaces the damaged file.
    wait_for("a worker exits", || {
        workers_of(&home) < 4 || fs::write(&store, "this is not a store\n").is_err()
    });
    let output = child.wait_with_output().unwrap();
    let (answer, rest) = texts(&output);
    assert_eq!((output.status.code(), answer.as_str()), (Some(1), ""), "{rest}");
    assert!(rest.contains(" exited (exit status: 69)"), "{rest}");
    assert!(is_empty(home.path()) && workers_of(&home) == 0);
}

#[test]
fn missing_temporary_folder_is_an_error_with_advice() {
    let home = Home::new();
    let output = demo(&home, "1", &[]).env("TMPDIR", home.path().join("missing")).output().unwrap();
    let (_, rest) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(rest.contains("cannot create a folder for its store") && rest.contains("$TMPDIR"), "{rest}");
}

#[test]
fn invalid_arguments_are_rejected() {
    let home = Home::new();
    for (arguments, complaint) in [
        (["--workers", "0"], "write a number from 1 to 64"),
        (["--workers", "65"], "write a number from 1 to 64"),
        (["--workers", "many"], "write a number from 1 to 64"),
        (["--minute", "0s"], "from 5s to 60s"),
        (["--minute", "1s"], "from 5s to 60s"),
        (["--minute", "4999ms"], "in a shorter one the edge"),
        (["--minute", "61s"], "from 5s to 60s"),
        (["--minute", "5"], "is not a length of time"),
        (["--minute", "99999999999999999999s"], "is not a length of time"),
        (["--minutes", "0"], "0 is not in 1..=60"),
        (["--minutes", "61"], "61 is not in 1..=60"),
        (["--limit", "0"], "0 is not in 1..=2000"),
        (["--limit", "2001"], "2001 is not in 1..=2000"),
        (["--limit", "-1"], "unexpected argument '-1'"),
        (["--as-worker", "1"], "--vendor"),
        (["--vendor", "127.0.0.1:1"], "--as-worker"),
        (["--vendor", "nowhere"], "invalid socket address"),
    ] {
        let (exit, answer, rest) = home.run(&["demo", arguments[0], arguments[1]]);
        assert_eq!((exit, answer.as_str()), (2, ""), "{arguments:?} {rest}");
        assert!(rest.contains(complaint), "{arguments:?} {rest}");
    }
    assert!(is_empty(home.path()));
}

/// `--help` has examples, and does not show the internal options of workers.
#[test]
fn help_has_examples_and_hides_internal_options() {
    let (exit, help, _) = Home::new().run(&["demo", "--help"]);
    assert_eq!(exit, 0);
    assert!(help.contains("Examples:\n  tollway demo  ") && help.contains("--without"), "{help}");
    assert!(!help.contains("as-worker") && !help.contains("--vendor") && !help.contains("--state"), "{help}");
}

/// A terminal in `tmux`; tests fail if it is not installed.
struct Terminal<'h> {
    home: &'h Home,
}

impl<'h> Terminal<'h> {
    /// Runs a command in it; its output stays after it has ended.
    fn run(home: &'h Home, rows: &str, command: &str) -> Self {
        let terminal = Self { home };
        let remain = ["start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";"];
        let session = ["new-session", "-d", "-x", "100", "-y", rows, command];
        let started = terminal.tmux(&[&remain[..], &session[..]].concat());
        assert!(started.status.success(), "{:?}", texts(&started));
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(["-u", "-f", "/dev/null", "-S"]).arg(self.home.path().join("terminal")).args(arguments);
        command.env_remove("TMUX").env_remove("NO_COLOR").env("TERM", "xterm").env("SHELL", "/bin/sh");
        command.current_dir(self.home.path()).stdin(Stdio::null());
        command.output().expect("this test needs `tmux` (apt-get install tmux)")
    }

    /// Waits until all of these are on the screen at once; returns the screen.
    fn wait_for(&self, parts: &[&str]) -> String {
        let mut text = String::new();
        for _ in 0..LOOKS {
            text = texts(&self.tmux(&["capture-pane", "-p"])).0;
            if parts.iter().all(|part| text.contains(part)) {
                return text;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        panic!("never shown: {parts:?}; on the terminal is\n{text}");
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// On a terminal a panel is redrawn below the events, with and without colours. Ctrl-C replaces it with the report.
#[test]
fn terminal_shows_a_panel_until_interrupted() {
    for color in ["auto", "never"] {
        let home = Home::new();
        let demo = [env!("CARGO_BIN_EXE_tollway"), "demo --limit 40 --workers 4 --minutes 2 --color", color];
        let terminal = Terminal::run(&home, "30", &demo.join(" "));
        let panel = terminal.wait_for(&["  killed\n", "  new\n", " s left\n"]);
        let rows_with = |text: &str| panel.lines().filter(|row| row.starts_with(text)).count();
        for (text, rows) in [("  start ", 1), ("  worker 3 killed", 1), ("  worker 5 started", 1)] {
            assert_eq!(rows_with(text), rows, "{text} {panel}");
        }
        for worker in 1..=5 {
            assert_eq!(rows_with(&format!("  worker {worker}  ")), 1, "{panel}");
        }
        assert_eq!(panel.matches(" s left").count(), 1, "{panel}");

        terminal.tmux(&["send-keys", "C-c"]);
        let report =
            terminal.wait_for(&["ended early\n", "refused by the vendor            0\n", "Try next:"]);
        assert!(!report.contains(" s left") && !report.contains("  new\n"), "the panel is left: {report}");
    }
}

/// A terminal too small for the panel gets lines.
#[test]
fn small_terminal_gets_lines() {
    let home = Home::new();
    let command = format!("{} {} --minutes 1", env!("CARGO_BIN_EXE_tollway"), LITTLE.join(" "));
    let terminal = Terminal::run(&home, "8", &format!("clear; {command} | head -n 1"));
    let text = terminal.wait_for(&["With Tollway:", "  minute 1 "]);
    assert!(!text.contains(" s left"), "{text}");
}
