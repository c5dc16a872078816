//! `tollway vendor` from the outside.

use std::io::{BufRead, BufReader, Lines, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::home::Home;

/// A running `tollway vendor`, killed when dropped.
struct Vending {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Vending {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollway"));
        command.current_dir(home.path()).env_remove("TOLLWAY_CONFIG").arg("vendor").args(arguments);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    fn event(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Sends a signal; returns the exit code, the rest of standard output, and standard error.
    fn stop(mut self, signal: &str) -> (Option<i32>, Vec<String>, String) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let rest = self.lines.by_ref().map(Result::unwrap).collect();
        let code = self.process.wait().unwrap().code();
        let mut said = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (code, rest, said)
    }
}

impl Drop for Vending {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a printed command; returns the response with its head.
fn shell(command: &str) -> String {
    let ran = Command::new("sh").args(["-c", &format!("{command} -s")]).output().unwrap();
    assert!(ran.status.success(), "{command}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().to_lowercase()
}

/// Prints a URL and a command that works, refuses as its dialect does, and sums up at Ctrl-C.
#[test]
fn refuses_like_the_vendor_and_sums_up() {
    let home = Home::new();
    let limits = ["--limit", "2 / day sliding", "--limit", "250k tokens / minute", "--dialect", "notion"];
    let mut vendor = Vending::start(&home, &limits);
    let url = vendor.line();
    assert!(url.starts_with("vendor   http://127.0.0.1:"), "{url}");
    assert_eq!([vendor.line(), vendor.line()], ["limit    2 / day sliding", "limit    250k tokens / minute"]);
    assert_eq!(vendor.line(), "dialect  notion");
    let try_line = vendor.line();
    let curl = try_line.strip_prefix("try      ").unwrap();
    let answers = [(); 3].map(|()| shell(curl));
    for answer in &answers[..2] {
        assert!(answer.starts_with("http/1.1 200 ok") && answer.contains("x-notion-request-id"), "{answer}");
    }
    let refused = &answers[2];
    assert!(refused.starts_with("http/1.1 429") && refused.contains("\nretry-after: "), "{refused}");
    assert!(refused.contains("\"code\":\"rate_limited\""), "{refused}");
    let (code, rest, said) = vendor.stop("-INT");
    assert!(code == Some(0) && !said.contains("error"), "{said}");
    assert!(rest[0].starts_with("2 accepted, 1 refused in "), "{rest:?}");
    assert!(rest[0].contains("; 333 of 1,000 calls refused, at most "), "{rest:?}");
}

/// With `--json` every line is an event; a second without calls is none.
#[test]
fn events_are_lines_of_json() {
    let home = Home::new();
    let settings =
        ["--json", "--limit", "1 / day sliding", "--errors", "100%", "--latency", "1ms..2ms", "--seed", "7"];
    let mut vendor = Vending::start(&home, &settings);
    let listening = vendor.event();
    assert_eq!((&listening["event"], &listening["dialect"]), (&"listening".into(), &"http".into()));
    let url = listening["url"].as_str().unwrap().to_owned();
    assert!(shell(&format!("curl -i {url}/")).starts_with("http/1.1 500"));
    assert!(shell(&format!("curl -i {url}/")).starts_with("http/1.1 429"));
    let mut seen = (0, 0);
    while seen != (1, 1) {
        let second = vendor.event();
        assert_eq!(second["event"], "second");
        seen.0 += second["failed"].as_u64().unwrap();
        seen.1 += second["refused"].as_u64().unwrap();
    }
    assert!(shell(&format!("curl -i {url}/_vendor/counts")).contains("\"failed\":1"));
    let (code, rest, said) = vendor.stop("-TERM");
    assert_eq!((code, said.as_str(), rest.len()), (Some(0), "", 1));
    let summary: Value = serde_json::from_str(&rest[0]).unwrap();
    assert_eq!((&summary["event"], &summary["refused"]), (&"summary".into(), &1.into()));
}

/// A limit that changes, other clients, refusals that count, concurrency: all are arguments.
#[test]
fn every_option_is_accepted_at_once() {
    let home = Home::new();
    let mut vendor = Vending::start(
        &home,
        &[
            "--limit",
            "10 / second bucket burst 20",
            "--limit",
            "4 concurrent",
            "--then",
            "10m: 4 / second bucket",
            "--phase",
            "17s",
            "--others",
            "20%",
            "--refusals-count",
            "--listen",
            "127.0.0.1:0",
            "--quiet",
        ],
    );
    let url = vendor.line();
    assert!(shell(&format!("curl -i {url}/v1/users")).starts_with("http/1.1 200"));
    assert_eq!(vendor.stop("-INT").0, Some(0));
}

#[test]
fn wrong_arguments_say_what_to_write() {
    let home = Home::new();
    for (arguments, words) in [
        (["--limit", "5 apples / minute"], "its units are `requests` and `tokens`"),
        (["--limit", "5 / fortnight"], "in the limit \"5 / fortnight\""),
        (["--then", "4 / second"], "write a time and a limit"),
        (["--then", "1m: 4 tokens / second"], "give that one first"),
        (["--errors", "2"], "write it like 20% or 0.5%"),
        (["--latency", "2s..1s"], "write the shorter time first"),
        (["--dialect", "nobody"], "invalid value 'nobody'"),
    ] {
        let (exit, _, said) = home.run(&["vendor", arguments[0], arguments[1]]);
        assert_eq!(exit, 2, "{said}");
        assert!(said.contains(words), "{said}");
    }
    let (exit, _, said) = home.run(&["vendor", "--limit", "4 concurrent", "--others", "20%"]);
    assert!(exit == 2 && said.contains("a share of a limit of requests"), "{said}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (exit, _, said) = home.run(&["vendor", "--listen", &address]);
    assert!(exit == 1 && said.contains("port 0 is any free one"), "{said}");
}

#[test]
fn dialects_are_listed() {
    let (exit, list, _) = Home::new().run(&["vendor", "--list-dialects"]);
    assert_eq!((exit, list.lines().count()), (0, 23));
    assert!(list.contains("shopify          the fill level"), "{list}");
}
