//! `tollway demo` from the outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::home::Home;
use serde_json::Value;

/// A small demo, which takes about 20 seconds with 60 jobs.
const LITTLE: [&str; 7] = ["demo", "--minute", "5s", "--limit", "40", "--workers", "4"];

/// How often to poll before giving up.
const LOOKS: u32 = 1_200;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// A small demo of this many jobs. Its temporary folder is in the home, so that the test sees what remains.
fn demo(home: &Home, jobs: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollway"));
    command.args(LITTLE).args(["--jobs", jobs]).args(more);
    command.current_dir(home.path()).env("HOME", home.path()).env("TMPDIR", home.path());
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// Processes with this home in their arguments: the workers, whose folder is in it, and their guards.
fn processes_of(home: &Home) -> Vec<(String, bool)> {
    let home = home.path().to_str().unwrap();
    let found = |process: fs::DirEntry| {
        let arguments = fs::read(process.path().join("cmdline")).ok()?;
        let arguments = String::from_utf8_lossy(&arguments).into_owned();
        let pid = process.file_name().into_string().ok()?;
        arguments.contains(home).then(|| (pid, arguments.contains("__pipeline-guard")))
    };
    fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter_map(found).collect()
}

/// The process ids of the workers, without their guards.
fn workers_of(home: &Home) -> Vec<String> {
    processes_of(home).into_iter().filter(|(_, is_guard)| !is_guard).map(|(pid, _)| pid).collect()
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
fn long_demo(home: &Home, workers: usize, more: &[&str]) -> Child {
    let child = demo(home, "2000", more).spawn().unwrap();
    wait_for("all workers", || workers_of(home).len() == workers);
    child
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&texts(output).0).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn sum_of_calls(list: &Value) -> u64 {
    list.as_array().unwrap().iter().map(|one| number(&one["calls"])).sum()
}

fn send(signal: &str, process: &Child) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", process.id())]).status().unwrap();
    assert!(sent.success());
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// Two stages, a killed worker, a limit that changes, three dead letters: by the vendor's own count no call is refused, and
/// by the file of jobs none is lost or done twice. Nothing is left behind.
#[test]
fn pipeline_loses_nothing_and_keeps_the_limit() {
    let home = Home::new();
    let output = demo(&home, "60", &["--json"]).output().unwrap();
    let report = json(&output);
    assert_eq!((output.status.code(), texts(&output).1.as_str()), (Some(0), ""), "{report}");
    assert_eq!(
        (&report["jobs"], &report["limit"], &report["minute_ms"]),
        (&60.into(), &40.into(), &5_000.into())
    );
    assert!(report["started_at"].as_str() < report["ended_at"].as_str());
    assert_eq!((&report["interrupted"], &report["alone"]), (&false.into(), &Value::Null));
    let limits: Vec<u64> =
        report["limit_changes"].as_array().unwrap().iter().map(|change| number(&change["limit"])).collect();
    assert_eq!(limits, [20, 40], "{report}");

    let with = &report["with_tollway"];
    for (figure, value) in [
        ("refusals", 0),
        ("done", 60),
        ("lost", 0),
        ("dead", 0),
        ("open", 0),
        ("committed_twice", 0),
        ("redriven", 3),
    ] {
        assert_eq!(with[figure], value, "{figure} {report}");
    }
    assert_eq!((&with["completions"], &with["failed_tries"]), (&120.into(), &9.into()));
    let (calls, repeated) = (number(&with["calls"]), number(&with["repeated_calls"]));
    assert_eq!(calls, 120 + 9 + repeated, "{report}");
    assert!(repeated <= 1, "only the call of the killed worker may be repeated: {report}");

    let minutes = with["minutes"].as_array().unwrap();
    assert!(minutes.iter().all(|minute| number(&minute["calls"]) <= number(&minute["limit"])), "{report}");
    let whole = minutes.iter().filter(|minute| minute["whole"] == true);
    let (used, quota) = whole.fold((0, 0), |(used, quota), minute| {
        (used + number(&minute["calls"]), quota + number(&minute["limit"]))
    });
    assert_eq!(
        (&with["whole_minutes"]["used"], &with["whole_minutes"]["quota"]),
        (&used.into(), &quota.into())
    );
    assert_eq!(with["whole_minutes"]["share"], used as f64 / quota as f64);

    let processes = with["processes"].as_array().unwrap();
    assert_eq!((sum_of_calls(&with["minutes"]), sum_of_calls(&with["processes"])), (calls, calls));
    assert!(processes.iter().any(|process| process["pid"] == with["killed"]["pid"]), "{report}");
    for process in processes {
        assert!(!Path::new("/proc").join(process["pid"].to_string()).exists(), "{process} still runs");
    }
    assert!(is_empty(home.path()), "the folder of the jobs is left");
}

/// Side by side: the workers without Tollway are refused, and lose the jobs that fail and the job of the killed worker.
#[test]
fn workers_alone_are_refused_and_lose_jobs() {
    for (option, after_refusal) in [("--without", "at-once"), ("--without=retry-after", "retry-after")] {
        let home = Home::new();
        let output = demo(&home, "60", &[option, "--json"]).output().unwrap();
        let report = json(&output);
        assert_eq!(output.status.code(), Some(0), "{report}");
        let (with, alone) = (&report["with_tollway"], &report["alone"]);
        assert_eq!(
            (&with["refusals"], &with["done"], &with["lost"]),
            (&0.into(), &60.into(), &0.into()),
            "{report}"
        );
        assert_eq!(alone["after_refusal"], after_refusal);
        assert!(number(&alone["refusals"]) > 0, "{report}");
        // The killed worker may have had one of the three that fail.
        let (done, lost) = (number(&alone["done"]), number(&alone["lost"]));
        assert_eq!((done + lost, &alone["open"]), (60, &0.into()), "{report}");
        assert!((3..=4).contains(&lost), "{report}");
        assert!(is_empty(home.path()) && processes_of(&home).is_empty());
    }
}

/// Without a terminal, events are lines without escape sequences.
#[test]
fn without_a_terminal_the_demo_prints_lines() {
    let home = Home::new();
    let output = demo(&home, "60", &[]).output().unwrap();
    let (answer, rest) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{answer}{rest}");
    assert!(!answer.contains('\x1b') && !rest.contains('\x1b'), "{answer}{rest}");
    assert!(answer.starts_with("60 jobs in two stages, 4 workers\n"), "{answer}");
    let opening = "A vendor allows 40 requests a minute; its minute takes 5s here.\n\
        60 PDFs go through two stages, autotag and extract: one call each.\n\
        Tollway hands them to 4 worker processes, within the limit.\n\n";
    let (dashboard, rest) = rest.split_once('\n').unwrap();
    assert!(
        dashboard.starts_with("dashboard: http://127.0.0.1:") && !dashboard.contains("#t="),
        "{dashboard}"
    );
    assert!(rest.starts_with(opening), "{rest}");
    for event in [
        "  the vendor allows 20 from minute 2 on; Tollway is told: `limit set`\n",
        " killed during its call for doc-00",
        "  the vendor allows 40 again; Tollway is told: `limit clear`\n",
        "  3 dead letters corrected and redriven: unknown page size \"Z9\"\n",
    ] {
        assert_eq!(rest.matches(event).count(), 1, "{event} {rest}");
    }
    let minutes: Vec<&str> = rest.lines().filter(|line| line.contains(" refused")).collect();
    let names: Vec<&str> = minutes.iter().map(|line| line.split(['█', '░']).next().unwrap().trim()).collect();
    // Nothing is said of the first minute if the workers start at its very end.
    let full = names.iter().skip_while(|name| **name == "start").take(3).copied();
    assert_eq!(full.collect::<Vec<_>>(), ["minute 1", "minute 2", "minute 3"]);
    assert!(minutes.iter().all(|line| line.contains("   0 refused")), "{rest}");
}

#[test]
fn quiet_demo_prints_only_the_report() {
    let output = demo(&Home::new(), "10", &["--quiet"]).output().unwrap();
    let (answer, rest) = texts(&output);
    assert!(answer.starts_with("10 jobs in two stages, 4 workers\n"), "{answer}");
    assert_eq!(rest, "");
}

/// Ctrl-C ends it early: the workers end, the folder is removed, and the report is printed. Jobs that wait are not lost.
#[test]
fn interrupted_demo_still_reports() {
    for (signal, workers, more) in
        [("INT", 4, &["--json"][..]), ("TERM", 8, &["--json", "--without"]), ("HUP", 4, &["--json"])]
    {
        let home = Home::new();
        let child = long_demo(&home, workers, more);
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        let report = json(&output);
        assert_eq!(
            (output.status.code(), &report["interrupted"]),
            (Some(0), &true.into()),
            "{signal} {report}"
        );
        let with = &report["with_tollway"];
        let sum: u64 = ["done", "dead", "open"].iter().map(|figure| number(&with[figure])).sum();
        assert_eq!((sum, &with["lost"]), (2_000, &0.into()), "{report}");
        wait_for("all processes end", || processes_of(&home).is_empty());
        assert!(is_empty(home.path()));
    }
}

/// The workers end however the demo ends.
#[test]
fn workers_end_when_the_demo_is_killed() {
    let home = Home::new();
    let mut child = long_demo(&home, 8, &["--without"]);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("no process is left", || processes_of(&home).is_empty());
}

/// The demo fails if its workers die at once, instead of waiting for ever.
#[test]
fn dying_workers_fail_the_demo() {
    let home = Home::new();
    let mut child = long_demo(&home, 4, &[]);
    wait_for("the demo gives up", || {
        for worker in workers_of(&home) {
            let _ = Command::new("sh")
                .args(["-c", &format!("kill -KILL {worker}")])
                .stderr(Stdio::null())
                .status();
        }
        child.try_wait().unwrap().is_some()
    });
    let output = child.wait_with_output().unwrap();
    let (answer, rest) = texts(&output);
    assert_eq!((output.status.code(), answer.as_str()), (Some(1), ""), "{rest}");
    assert!(rest.contains(" do not work: the handler's process ended: signal 9"), "{rest}");
    wait_for("no process is left", || processes_of(&home).is_empty());
    assert!(is_empty(home.path()));
}

#[test]
fn missing_temporary_folder_is_an_error_with_advice() {
    let home = Home::new();
    let output = demo(&home, "10", &[]).env("TMPDIR", home.path().join("missing")).output().unwrap();
    let (_, rest) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(rest.contains("cannot create a folder for its jobs") && rest.contains("$TMPDIR"), "{rest}");
}

#[test]
fn invalid_arguments_are_rejected() {
    let home = Home::new();
    for (arguments, complaint) in [
        (["--workers", "1"], "1 is not in 2..=64"),
        (["--workers", "65"], "65 is not in 2..=64"),
        (["--workers", "many"], "invalid digit"),
        (["--minute", "0s"], "from 5s to 60s"),
        (["--minute", "1s"], "from 5s to 60s"),
        (["--minute", "4999ms"], "in a shorter one the edge"),
        (["--minute", "61s"], "from 5s to 60s"),
        (["--minute", "5"], "is not a length of time"),
        (["--minute", "99999999999999999999s"], "is not a length of time"),
        (["--jobs", "9"], "9 is not in 10..=2000"),
        (["--jobs", "2001"], "2001 is not in 10..=2000"),
        (["--without", "at-once"], "unexpected argument 'at-once'"),
        (["--without=never", "--quiet"], "possible values: at-once, retry-after"),
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
    assert!(!help.contains("as-worker") && !help.contains("--vendor"), "{help}");
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
        let demo = [env!("CARGO_BIN_EXE_tollway"), "demo --limit 40 --workers 4 --jobs 60 --color", color];
        let terminal = Terminal::run(&home, "30", &demo.join(" "));
        let panel = terminal.wait_for(&[" killed during its call", "`limit set`", " s left\n"]);
        for text in ["  minute 1 ", "  worker ", "  autotag ", "  extract "] {
            let rows = panel.lines().filter(|row| row.starts_with(text)).count();
            assert_eq!(rows, 1, "{text} {panel}");
        }
        assert_eq!(panel.matches(" s left").count(), 1, "{panel}");

        terminal.tmux(&["send-keys", "C-c"]);
        let report =
            terminal.wait_for(&["ended early\n", "refused by the vendor             0\n", "Try next:"]);
        assert!(!report.contains(" s left") && !report.contains(" running"), "the panel is left: {report}");
    }
}

/// A terminal too small for the panel gets lines.
#[test]
fn small_terminal_gets_lines() {
    let home = Home::new();
    let command = format!("{} {} --jobs 40", env!("CARGO_BIN_EXE_tollway"), LITTLE.join(" "));
    let terminal = Terminal::run(&home, "5", &format!("clear; {command} | head -n 1"));
    let text = terminal.wait_for(&["40 jobs in two stages"]);
    assert!(!text.contains(" s left") && text.contains(" refused"), "{text}");
}
