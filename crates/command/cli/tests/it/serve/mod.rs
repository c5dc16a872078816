//! `tollway serve` from the outside.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests may fail the test"
)]

mod log;
#[cfg(feature = "redis")]
mod rack;
mod reload;
pub(crate) mod serving;
mod stop;

use std::process::Command;

use crate::home::Home;
use serving::{LONG, Serving, status, wait_until};
use tollway_testkit::servers::RedisServer;

/// Without a config it serves an example policy, and shows a command to try.
#[test]
fn serves_an_example_policy_without_a_config() {
    let home = Home::new();
    let serving = Serving::start(&home, &["--listen", "127.0.0.1:0"]);
    let address = serving.address("decisions");
    assert!(address.starts_with("127.0.0.1:"));
    assert!(serving.line("store").ends_with("memory:"));
    let curl = format!("curl -d '{{\"policy\": \"example\"}}' http://{address}/v1/take");
    assert!(serving.line("try").ends_with(&curl), "{:?}", serving.lines);
    assert_eq!([(); 6].map(|()| serving.take("example")), [200, 200, 200, 200, 200, 429]);
    assert_eq!(serving.stop(), (Some(0), String::new()));
}

/// The first policy of the file, which its author thought of first, not the first by name.
#[test]
fn suggested_command_takes_under_the_first_policy_of_the_file() {
    let home = Home::new();
    assert_eq!(home.run(&["init", "vendor"]).0, 0);
    let serving = Serving::start(&home, &["--listen", "127.0.0.1:0"]);
    assert!(serving.line("try").contains("{\"policy\": \"vendor\"}"), "{:?}", serving.lines);
    assert_eq!(serving.stop(), (Some(0), String::new()));
}

/// Lists every configured address, each with a command to try, and the commands work.
#[test]
fn startup_message_lists_addresses_and_commands() {
    let home = Home::new();
    home.write("resp.token", "0123456789abcdef");
    let doors =
        "listen = '127.0.0.1:0'\ngrpc = '127.0.0.1:0'\nresp = 'unix:resp.sock'\nadmin = '127.0.0.1:0'";
    for tokens in ["", "[server.tokens]\nresp = 'file:resp.token'"] {
        let config = format!("[policies.api]\nlimits = ['9 / hour']\n[server]\n{doors}\n{tokens}");
        home.write("tollway.toml", config);
        let mut serving = Serving::start(&home, &[]);
        for what in ["decisions", "gRPC", "Redis protocol", "administration", "store"] {
            serving.line(what);
        }
        let try_line = serving.line("try").to_owned();
        let commands = [try_line, serving.next_line(), serving.next_line()].map(|line| line[15..].to_owned());
        let answers = commands.map(|command| run_in_shell(&home, &command));
        assert!(answers[0].contains("\"granted\":true"), "{answers:?}");
        // A message of two bytes that means "serving".
        assert!(answers[1].contains("\\0  \\0  \\0  \\0 002  \\b 001"), "{answers:?}");
        assert_eq!(answers[2], "0\n5\n4\n-1\n12\n");
        assert_eq!(serving.stop(), (Some(0), String::new()));
    }
}

fn run_in_shell(home: &Home, command: &str) -> String {
    let ran = Command::new("sh").args(["-c", command]).current_dir(home.path()).output().unwrap();
    assert!(ran.status.success(), "{command}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn port_in_use_is_an_error_with_advice() {
    let home = Home::new();
    let first = Serving::start(&home, &["--listen", "127.0.0.1:0"]);
    let address = first.address("decisions");
    let mut second = Command::new(env!("CARGO_BIN_EXE_tollway"));
    let second = second.current_dir(home.path()).args(["serve", "--listen", &address]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains(&format!("{address} is in use")) && said.contains("listen elsewhere"), "{said}");
}

/// The command line can open every listener.
#[test]
fn every_listener_has_an_option() {
    let home = Home::new();
    let mut serving = Serving::start(
        &home,
        &[
            "--listen",
            "unix:tollway.sock?mode=0600",
            "--grpc",
            "127.0.0.1:0",
            "--resp",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ],
    );
    assert!(serving.line("decisions").ends_with("unix:tollway.sock"));
    assert!(serving.line("gRPC").contains("http://127.0.0.1:"));
    assert!(serving.line("administration").contains("http://127.0.0.1:"));
    let commands = [serving.line("try").to_owned(), serving.next_line(), serving.next_line()];
    let answers = commands.map(|line| run_in_shell(&home, &line[15..]));
    assert!(answers[0].contains("\"granted\":true") && answers[2].starts_with("0\n5\n"), "{answers:?}");
    assert_eq!(serving.stop().0, Some(0));
}

/// Fewer connections than configured are better than a server that fails when the last descriptor is used.
#[test]
fn a_low_ulimit_lowers_the_connections() {
    let home = Home::with_config("[policies.api]\nlimits = ['1000 / hour']\n[server]\nconnections = 5000");
    let serving = Serving::start_with_descriptors(&home, &["--listen", "127.0.0.1:0"], 64);
    let address = serving.address("decisions");
    let idle: Vec<_> = (0..40).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    assert_eq!(serving.take("api"), 200);
    drop(idle);
    assert_eq!(serving.take("api"), 200);
    let (code, log) = serving.stop();
    assert_eq!(code, Some(0), "{log}");
    let said = "5000 connections need ";
    assert!(
        log.matches(said).count() == 1 && log.contains("the limit is 64; serving at most 16 at a time"),
        "{log}"
    );
}

/// A file that is not a socket is not replaced.
#[test]
fn regular_file_at_the_socket_path_is_not_replaced() {
    let home = Home::new();
    home.write("precious", "x");
    for (address, code, words) in [
        ("unix:precious", 1, "a file that is not a socket is there"),
        ("unix:x.sock?mode=rw", 2, "like ?mode=0660"),
    ] {
        // Without the refusal it would serve forever.
        let refused = home.tollway(&["serve", "--listen", address]).timeout(LONG).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(code) && said.contains(words), "{said}");
    }
    assert_eq!(std::fs::read_to_string(home.path().join("precious")).unwrap(), "x");
}

#[test]
fn invalid_settings_fail_before_listening() {
    let home = Home::new();
    for (config, word, code) in [
        ("[server]\nlissten = '127.0.0.1:0'", "did you mean \"listen\"?", 78),
        ("[server]\nadmin = '0.0.0.0:0'\nlisten = '127.0.0.1:0'", "without a token", 78),
        ("[server.tokens]\nread = 'env:TOLLWAY_NO_SUCH'", "TOLLWAY_NO_SUCH", 78),
    ] {
        home.write("tollway.toml", config);
        let mut serve = Command::new(env!("CARGO_BIN_EXE_tollway"));
        let refused =
            serve.current_dir(home.path()).env_remove("TOLLWAY_CONFIG").arg("serve").output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains(word), "{config}: {said}");
        assert_eq!(refused.status.code(), Some(code), "{said}");
    }
}

/// A Redis that is replaced by one that is too old for the layout is a store that fails: `when_store_fails` decides, and the
/// log says why.
#[test]
fn redis_that_becomes_too_old_is_a_failed_store() {
    let mut redis = RedisServer::start();
    let policy = |name: &str| {
        format!("[policies.{name}]\nwhen_store_fails = '{name}'\nlimits = ['9 / hour from first call']\n")
    };
    let [open, closed] = ["open", "closed"].map(policy);
    let store = format!("[store]\nurl = '{}?layout=consumers'\n", redis.url());
    let home = Home::with_config(&format!("{store}{open}{closed}"));
    let serving = Serving::start(&home, &["--listen", "127.0.0.1:0"]);
    let take = |policy: &str| {
        let body = format!("{{\"policy\":\"{policy}\",\"subject\":\"{policy}\"}}");
        serving.ask("decisions", "POST /v1/take", "", &body)
    };
    wait_until("both are decided by the store", || {
        ["open", "closed"].map(take).iter().all(|answer| answer.contains("\"degraded\":false"))
    });
    redis.downgrade();
    wait_until("the log says why", || {
        take("closed");
        serving.log().contains("too old for layout=consumers: it is 6.2.")
    });
    assert_eq!(status(&take("closed")), 503);
    let answer = take("open");
    assert!(status(&answer) == 200 && answer.contains("\"degraded\":true"), "{answer}");
    assert_eq!(redis.command(&["DBSIZE"]), "0");
}

/// With its store away, the first lines say so.
#[test]
fn startup_message_says_that_the_store_is_away() {
    let redis = RedisServer::start();
    let url = redis.url();
    drop(redis);
    let home = Home::with_config(&format!("store.url = {url:?}\n[policies.api]\nlimits = ['9 / hour']"));
    let serving = Serving::start(&home, &["--listen", "127.0.0.1:0"]);
    let store = serving.lines.iter().position(|line| line.starts_with("store")).unwrap();
    assert!(serving.lines[store + 1].trim_start().starts_with("store unreachable: "), "{:?}", serving.lines);
    let said = serving.lines[store + 1..].join(" ");
    assert!(said.contains("`when_store_fails`"), "{said}");
    drop(serving);
}

/// One meter by default: commands without a store ask a server without one, and say so.
#[test]
fn commands_without_a_store_ask_the_server() {
    let home =
        Home::with_config("[policies.api]\nlimits = ['3 requests / day']\n[server]\nlisten = '127.0.0.1:0'");
    let serving = Serving::start(&home, &[]);
    assert_eq!(serving.take("api"), 200);
    let (code, shown, said) = home.run(&["usage", "api"]);
    assert_eq!(code, 0, "{said}");
    assert!(shown.contains("1 of 3"), "{shown}");
    assert!(said.contains("asking tollway serve"), "{said}");
    assert_eq!(home.run(&["take", "api"]).0, 0);
    assert_eq!(serving.take("api"), 200);
    assert_eq!(serving.take("api"), 429);
    assert_eq!(home.run(&["take", "api", "--max-wait", "0"]).0, 75);
    let (code, _, said) = home.run(&["limit", "set", "api.requests_per_day", "9"]);
    assert_eq!(code, 0, "{said}");
    serving.stop();
    // Without the server, commands count in their own file again.
    let (_, shown, said) = home.run(&["usage", "api"]);
    assert!(shown.contains("0 of 3") && !said.contains("asking"), "{shown}{said}");
}
