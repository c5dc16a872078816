//! `tollway dashboard`, and the dashboard of `tollway serve`, from the outside.
#![allow(clippy::disallowed_methods, reason = "a test may fail")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::home::Home;
use crate::serve::serving::Serving;
use crate::terminal::{Terminal, is_over, tollway};

/// A program that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a request to the dashboard with this link; returns the JSON of its answer.
fn send(link: &str, method: &str, path: &str, body: &str) -> Value {
    let (address, token) = link.strip_prefix("http://").unwrap().split_once("/#t=").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\
         authorization: Bearer {token}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn get(link: &str, path: &str) -> Value {
    send(link, "GET", path, "")
}

/// Starts `tollway dashboard` in this home; returns it with its link.
fn start(home: &Home, more: &[&str]) -> (Killed, String) {
    let mut command = Command::new(tollway());
    command.current_dir(home.path()).env("HOME", home.path()).env_remove("XDG_STATE_HOME");
    command.args(["dashboard", "--json", "--listen", "127.0.0.1:0"]).args(more);
    let mut child = Killed(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (child, said["dashboard"].as_str().unwrap().to_owned())
}

/// P6: a dashboard beside the commands shows what they used, and its link may read.
#[test]
fn dashboard_alone_shows_what_commands_used() {
    let home = Home::with_config("policies.adobe.limits = ['5 requests / day']");
    for _ in 0..2 {
        assert_eq!(home.run(&["take", "adobe", "-q"]).0, 0);
    }
    let (_dashboard, link) = start(&home, &[]);
    let row = get(&link, "/v1/view/policies")["rows"][0].clone();
    assert_eq!(
        (&row["id"], &row["used"], &row["seen_by"]),
        (&"adobe/requests_per_day".into(), &2.into(), &"store".into())
    );
    assert_eq!(get(&link, "/v1/view/me")["right"], "read");
    assert_eq!(get(&start(&home, &["--write"]).1, "/v1/view/me")["right"], "write");
}

/// T23: without a terminal, the address has no token, and without tokens the page says how to make one.
#[test]
fn dashboard_prints_its_token_on_a_terminal_only() {
    let home = Home::with_config("policies.adobe.limits = ['5 requests / day']");
    let mut command = Command::new(tollway());
    command.current_dir(home.path()).env("HOME", home.path()).env_remove("XDG_STATE_HOME");
    command.args(["dashboard", "--write", "--listen", "127.0.0.1:0"]);
    let mut child = Killed(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("dashboard      http://127.0.0.1:") && !line.contains('#'), "{line}");
    let mut advice = String::new();
    BufReader::new(child.0.stderr.take().unwrap()).read_line(&mut advice).unwrap();
    assert!(advice.contains("[server.tokens]") && advice.contains("read = \"file:"), "{advice}");
}

/// T23: changes through a dashboard are logged with their author, whatever is logged otherwise.
#[test]
fn changes_through_a_dashboard_are_logged() {
    let home = Home::with_config(
        "policies.v.limits = ['9 / hour']\n[pipelines.pdf]\nengine = 'sqlite:pdf.db'\n[[pipelines.pdf.stages]]\n\
         name = 'work'\ntake = { v = { requests = 1 } }\nhandler = { command = ['true'] }",
    );
    let mut command = Command::new(tollway());
    command.current_dir(home.path()).env("HOME", home.path()).env_remove("XDG_STATE_HOME");
    command.env("TOLLWAY_LOG_LEVEL", "error").args([
        "dashboard",
        "--json",
        "--write",
        "--listen",
        "127.0.0.1:0",
    ]);
    let mut child = Killed(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let link = said["dashboard"].as_str().unwrap();
    send(link, "PUT", "/v1/policies/v/limits/requests_per_hour", r#"{"to":"5"}"#);
    let log = BufReader::new(child.0.stderr.take().unwrap());
    let mut lines = log.lines().map(Result::unwrap);
    let limit = lines.next().unwrap();
    assert!(limit.contains("a limit was set by=link at 127.0.0.1"), "{limit}");
    if cfg!(feature = "pipeline") {
        send(link, "POST", "/v1/pipelines/pdf/jobs", "{\"key\": \"a\"}\n");
        let jobs = lines.next().unwrap();
        assert!(jobs.contains("a pipeline was changed by=link at 127.0.0.1"), "{jobs}");
        assert!(jobs.contains("to=\"1 new\""), "{jobs}");
    }
}

/// P6: on a terminal, `serve` prints a link to a dashboard; elsewhere it opens only what the config says.
#[test]
fn serve_prints_a_link_on_a_terminal_only() {
    let home = Home::with_config("policies.adobe.limits = ['5 requests / day']");
    let serving = Serving::start(&home, &["--listen", "127.0.0.1:0"]);
    let said = serving.lines.join("\n");
    assert!(!said.contains("administration") && !said.contains("#t="), "{said}");
    assert_eq!(serving.stop(), (Some(0), String::new()));
    let serve = |more: &str| format!("{} serve --listen 127.0.0.1:0 {more}; echo over", tollway());
    let terminal = Terminal::new(&home, &serve(""));
    let screen = terminal.until(|screen| screen.contains("/#t=") && screen.contains("try"));
    // The screen has styles, too.
    let (before, token) = screen.split_once("/#t=").unwrap();
    let (_, address) = before.rsplit_once("http://").unwrap();
    let link = format!("http://{address}/#t={}", &token[..32]);
    assert_eq!(get(&link, "/v1/view/me")["right"], "read", "{link:?}");
    terminal.keys("C-c");
    terminal.until(is_over);
    let terminal = Terminal::new(&home, &serve("--dashboard off"));
    let screen = terminal.until(|screen| screen.contains("try"));
    assert!(!screen.contains("#t=") && !screen.contains("administration"), "{screen}");
    // It goes on when its terminal is closed.
    terminal.keys("C-c");
    terminal.until(is_over);
}

/// P6: a dashboard beside a pipeline takes jobs and changes, and never keeps the file from those who run it.
#[cfg(feature = "pipeline")]
#[test]
fn dashboard_leaves_the_file_of_jobs_to_others() {
    let home = Home::with_config(
        "policies.v.limits = ['9 / hour']\n[pipelines.pdf]\nengine = 'sqlite:pdf.db'\n[[pipelines.pdf.stages]]\n\
         name = 'work'\ntake = { v = { requests = 1 } }\nhandler = { command = ['true'] }",
    );
    let (_dashboard, link) = start(&home, &["--write"]);
    let jobs = "{\"key\": \"a\"}\n{\"key\": \"b\"}\n";
    assert_eq!(send(&link, "POST", "/v1/pipelines/pdf/jobs", jobs)["new"], 2);
    let ready = || get(&link, "/v1/view/pipelines/pdf")["stages"][0]["ready"].clone();
    assert_eq!(ready(), 2);
    // Commands that own the file for a moment, between looks at it.
    assert_eq!(home.run(&["pipeline", "pause", "work"]).0, 0);
    home.write("more.jsonl", "{\"key\": \"c\"}\n");
    assert_eq!(home.run(&["pipeline", "enqueue", "more.jsonl"]).0, 0);
    assert_eq!(ready(), 3);
    let paused = &get(&link, "/v1/view/pipelines/pdf")["stages"][0]["paused"];
    assert_eq!(paused, true);
    assert_eq!(send(&link, "POST", "/v1/pipelines/pdf/resume", "{}")["stages"][0]["paused"], false);
    assert_eq!(get(&link, "/v1/view/pipelines/pdf/jobs?state=ready")["total"], 3);
}
