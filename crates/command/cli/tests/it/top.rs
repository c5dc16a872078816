//! `tollway top`: one frame, the snapshot, and a terminal that is given back whatever ends it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use serde_json::Value;

use crate::home::Home;
use crate::serve::serving::{Serving, wait_until};
use crate::terminal::{Terminal, tollway};

const TOKEN: &str = "0123456789abcdef-a-token";

/// A server with one policy of two requests an hour.
fn home(more: &str) -> Home {
    Home::with_config(&format!(
        "policies.adobe.limits = ['2 requests / hour']\n[server]\nlisten = '127.0.0.1:0'\nadmin = '127.0.0.1:0'\n{more}"
    ))
}

fn url(serving: &Serving) -> String {
    format!("http://{}", serving.address("administration"))
}

/// The row of the policy in the snapshot that the command prints.
fn row(home: &Home, arguments: &[&str]) -> Option<Value> {
    let (code, answer, error) = home.run(&[&["top", "--json"], arguments].concat());
    assert_eq!(code, 0, "{error}");
    let snapshot: Value = serde_json::from_str(&answer).unwrap();
    assert!(snapshot["sentence"]["text"].is_string(), "{snapshot}");
    snapshot["rows"].as_array().unwrap().iter().find(|row| row["id"] == "adobe/requests_per_hour").cloned()
}

/// G10: what a server sends is one frame, or its snapshot as it came.
#[test]
fn one_frame_and_the_snapshot_of_a_server() {
    let home = home("");
    let serving = Serving::start(&home, &[]);
    for status in [200, 200, 429] {
        assert_eq!(serving.take("adobe"), status);
    }
    let server = ["--server", &url(&serving)];
    wait_until("the snapshot has the denial", || {
        row(&home, &server).is_some_and(|row| row["used"] == 2 && row["denied_5m"] == 1)
    });
    let (code, frame, error) = home.run(&[&["top", "--once"], &server[..]].concat());
    assert_eq!((code, error.as_str()), (0, ""), "{frame}");
    let line = frame.lines().find(|line| line.starts_with("adobe requests_per_")).unwrap();
    assert!(line.contains("\u{2588}\u{2588}") && line.contains("2/2"), "{frame}");
    assert!(frame.starts_with("tollway top  serve "), "{frame}");
    assert!(!frame.contains('\u{1b}'), "no colours in a file: {frame}");
}

/// With a config and nothing that runs, the store says what is used.
#[test]
fn without_a_server_the_store_is_read() {
    let home = Home::with_config(
        "policies.adobe.limits = ['2 requests / hour']\n[store]\nurl = 'file:state'\n[server]\nadmin = '127.0.0.1:1'",
    );
    assert_eq!(home.run(&["take", "adobe", "-q"]).0, 0);
    wait_until("the store's count is shown", || row(&home, &[]).is_some_and(|row| row["used"] == 1));
}

#[test]
fn tokens_are_read_from_a_file_or_a_variable() {
    let home = home("[server.tokens]\nread = 'file:token'");
    home.write("token", TOKEN);
    home.write("wrong", "another-token-0123456789");
    let serving = Serving::start(&home, &[]);
    let url = url(&serving);
    let top = |arguments: &[&str], variable: Option<&str>| {
        let mut command = home.tollway(&[&["top", "--once", "--server", &url], arguments].concat());
        command.env_remove("TOLLWAY_TOKEN");
        command.envs(variable.map(|token| ("TOLLWAY_TOKEN", token)));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(top(&["--token-file", "token"], None), (Some(0), String::new()));
    assert_eq!(top(&[], Some(TOKEN)).0, Some(0));
    for (arguments, variable, words) in [
        (&[][..], None, "wants a token"),
        (&["--token-file", "wrong"], None, "does not know this token"),
        (&["--token-file", "nowhere"], None, "there is no file nowhere"),
    ] {
        let (code, said) = top(arguments, variable);
        assert_ne!(code, Some(0), "{said}");
        assert!(said.contains(words) && !said.contains("another-token"), "{said}");
    }
    // The config of this machine says where the server and its token are.
    let (_, said) = top(&["--token-file", "token", "--json"], None);
    assert_eq!(said, "");
}

#[test]
fn what_is_no_administration_is_said() {
    let home = home("");
    let serving = Serving::start(&home, &[]);
    let decisions = format!("http://{}", serving.address("decisions"));
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (server, words) in [
        (decisions.as_str(), "answers, but not as the administration"),
        (&format!("http://{free}"), "does not answer"),
        ("http://token@127.0.0.1:9090", "a token belongs in --token-file"),
        ("ftp://127.0.0.1:9090", "write the administration address"),
    ] {
        let (code, _, said) = home.run(&["top", "--once", "--server", server]);
        assert_ne!(code, 0, "{server}");
        assert!(said.contains(words), "{server}: {said}");
    }
    let (code, _, said) = home.run(&["top", "--server", &url(&serving)]);
    assert!(code == 2 && said.contains("tollway top --once"), "no terminal: {said}");
}

/// The script types `over` once the command has ended, with the state of the terminal.
fn script(server: &str) -> String {
    format!(
        "echo before; {} top --server {server}; echo exit $?; stty -a | tr -d ';' | tr ' ' '\\n' | grep -x -e icanon -e echo; echo over",
        tollway()
    )
}

/// The shell is back on the screen that was there before, and shows what is typed.
fn is_given_back(screen: &str, exit: &str) -> bool {
    // A slow shell prompts after the script was typed.
    let has = |line: &str| screen.lines().any(|found| found.trim_end().trim_start_matches("$ ") == line);
    has("before") && has(exit) && has("icanon") && has("echo") && has("over") && !screen.contains("q quit")
}

fn shows_limits(screen: &str) -> bool {
    screen.contains("adobe requests_per_") && screen.contains("q quit")
}

#[test]
fn the_terminal_is_given_back_after_q_and_control_c() {
    let home = home("");
    let serving = Serving::start(&home, &[]);
    serving.take("adobe");
    for key in ["q", "C-c"] {
        // Each has a tmux of its own.
        let elsewhere = Home::new();
        let terminal = Terminal::new(&elsewhere, &script(&url(&serving)));
        terminal.until(shows_limits);
        terminal.keys(key);
        terminal.until(|screen| is_given_back(screen, "exit 0"));
    }
}

#[test]
fn the_terminal_is_given_back_after_sigterm() {
    let home = home("");
    let serving = Serving::start(&home, &[]);
    serving.take("adobe");
    let command = format!("sh -c 'echo $$ > pid; exec {} top --server {}'", tollway(), url(&serving));
    let terminal = Terminal::new(
        &home,
        &format!(
            "echo before; {command}; echo exit $?; stty -a | tr -d ';' | tr ' ' '\\n' | grep -x -e icanon -e echo; echo over"
        ),
    );
    terminal.until(shows_limits);
    let pid = std::fs::read_to_string(home.path().join("pid")).unwrap();
    assert!(std::process::Command::new("kill").args(["-TERM", pid.trim()]).status().unwrap().success());
    terminal.until(|screen| is_given_back(screen, "exit 0"));
}

/// Another size is another layout, and colours are off if the reader says so.
#[test]
fn the_screen_follows_the_size_and_no_color() {
    let home = home("");
    let serving = Serving::start(&home, &[]);
    serving.take("adobe");
    serving.take("adobe");
    let terminal = Terminal::new(&home, &script(&url(&serving)));
    let wide =
        terminal.until(|screen| shows_limits(screen) && screen.contains("5 MIN") && screen.contains("2/2"));
    // Red, of the sixteen colours that the reader has chosen.
    assert!(wide.contains("38;5;1m"), "{wide}");
    terminal.resize(40, 12);
    terminal.until(|screen| {
        screen.contains("adobe requests") && screen.contains("USED WAITS") && !screen.contains("5 MIN")
    });
    terminal.resize(100, 30);
    terminal.until(|screen| screen.contains("5 MIN"));
    let elsewhere = Home::new();
    let plain = Terminal::new(&elsewhere, &format!("export NO_COLOR=1; {}", script(&url(&serving))));
    let screen = plain.until(|screen| shows_limits(screen) && screen.contains("2/2"));
    assert!(!screen.contains("38;5"), "{screen}");
}

/// A server that goes away leaves its figures on the screen, marked; when it is back, they go on.
#[test]
fn a_server_may_go_away_and_come_back() {
    let home = home("");
    let serving = Serving::start(&home, &[]);
    serving.take("adobe");
    let address = serving.address("administration");
    let terminal = Terminal::new(&home, &script(&url(&serving)));
    terminal.until(|screen| shows_limits(screen) && screen.contains("1/2"));
    serving.stop();
    terminal.until(|screen| screen.contains("the server does not answer") && screen.contains("1/2"));
    let again = Serving::start(&home, &["--admin", &address]);
    for status in [200, 200, 429] {
        assert_eq!(again.take("adobe"), status, "its memory is new");
    }
    terminal.until(|screen| !screen.contains("does not answer") && screen.contains("2/2"));
    terminal.keys("q");
    terminal.until(|screen| is_given_back(screen, "exit 0"));
}

/// Typing a filter, and the list of keys.
#[test]
fn keys_do_what_the_list_says() {
    let home = home("[policies.other]\nlimits = ['9 / hour']");
    let serving = Serving::start(&home, &[]);
    serving.take("adobe");
    serving.take("other");
    let terminal = Terminal::new(&home, &script(&url(&serving)));
    terminal.until(|screen| shows_limits(screen) && screen.contains("other "));
    terminal.keys("/oth");
    terminal.until(|screen| screen.contains("other ") && !screen.contains("adobe requests_per_"));
    terminal.keys("Escape");
    terminal.until(shows_limits);
    terminal.keys("?");
    terminal.until(|screen| screen.contains("Page Up, Page Down") && screen.contains("show all again"));
    terminal.keys("q");
    terminal.until(|screen| is_given_back(screen, "exit 0"));
}
