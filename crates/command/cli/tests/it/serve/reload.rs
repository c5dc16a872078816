//! Changes while the server runs: of its config file, and of the files that it names.

use super::serving::{Serving, status, wait_until};
use crate::home::Home;

/// The status of an administration request with this token.
fn policies_with(serving: &Serving, token: &str) -> u16 {
    let header = format!("authorization: Bearer {token}\r\n");
    status(&serving.ask("administration", "GET /v1/policies", &header, ""))
}

/// Whether this header names a consumer: only their calls are limited here and have headers.
fn names_a_consumer(serving: &Serving, header: &str) -> bool {
    let answer = serving.ask("decisions", "GET /v1/authorize", &format!("{header}: anna\r\n"), "");
    assert_eq!(status(&answer), 200, "{answer}");
    answer.contains("x-rate-limit-limit: ")
}

/// A3: a changed file is reloaded automatically, also after an invalid one.
#[test]
fn changed_config_is_applied() {
    let home = Home::new();
    let config = |policy: &str| {
        format!("[policies.{policy}]\nlimits = [\"1000 / hour\"]\n[server]\nlisten = \"127.0.0.1:0\"")
    };
    home.write("tollway.toml", config("one"));
    for arguments in [&["--admin", "127.0.0.1:0"][..], &["--store", "memory:"]] {
        let serving = Serving::start(&home, arguments);
        assert_eq!(serving.take("one"), 200);
        home.write("tollway.toml", config("two"));
        serving.until("two", 200);
        assert_eq!(serving.take("one"), 404);
        home.write("tollway.toml", "[policies.three]\nlimits = [\"nonsense\"]");
        serving.until_logged("keeping the previous config");
        assert_eq!([serving.take("two"), serving.take("three")], [200, 404]);
        home.write("tollway.toml", config("one"));
        serving.until("one", 200);
        let (code, log) = serving.stop();
        assert_eq!(code, Some(0), "{log}");
        assert_eq!(log.matches("config file reloaded").count(), 2, "{log}");
    }
}

/// Keys that need a restart are logged; the others apply. Options of the command line stay in force.
#[test]
fn keys_that_need_a_restart_are_logged() {
    let home = Home::new();
    let config = |policy: &str, server: &str| {
        format!("[policies.{policy}]\nlimits = ['1000 / hour']\n[server]\n{server}")
    };
    home.write("tollway.toml", config("one", "listen = '127.0.0.1:1'\nworkers = 1"));
    let serving = Serving::start(&home, &["--listen", "127.0.0.1:0"]);
    home.write(
        "tollway.toml",
        config(
            "two",
            "listen = '127.0.0.1:2'\nresp = 'unix:resp.sock'\nworkers = 2\ngrace = '3s'\nheaders = []",
        ),
    );
    serving.until_logged("reloaded, except keys that need a restart");
    assert_eq!([serving.take("one"), serving.take("two")], [404, 200]);
    let (_, log) = serving.stop();
    let waiting: Vec<&str> = log.lines().filter(|line| line.contains("restart the server")).collect();
    assert_eq!(waiting.len(), 3, "{log}");
    for (line, key) in waiting.iter().zip(["resp", "workers", "grace"]) {
        assert!(line.contains(&format!("`{key}` of [server] has changed; restart the server")), "{line}");
    }
}

/// A3: the dashboard shows the pipelines of the reloaded config.
#[cfg(feature = "pipeline")]
#[test]
fn changed_pipelines_are_shown() {
    let home = Home::new();
    let config = |stage: &str| {
        format!(
            "[policies.one]\nlimits = ['1000 / hour']\n[server]\nlisten = '127.0.0.1:0'\nadmin = '127.0.0.1:0'\n\
             [server.tokens]\nwrite = 'file:token'\n[pipelines.p]\nengine = 'sqlite:p.db'\n\
             [[pipelines.p.stages]]\nname = '{stage}'\nhandler = {{ command = ['true'] }}"
        )
    };
    home.write("token", "0123456789abcdef-write");
    home.write("tollway.toml", config("work"));
    let serving = Serving::start(&home, &[]);
    let token = "authorization: Bearer 0123456789abcdef-write\r\n";
    let pause = |stage: &str| {
        let body = format!("{{\"stage\":\"{stage}\"}}");
        status(&serving.ask("administration", "POST /v1/pipelines/p/pause", token, &body))
    };
    assert_eq!([pause("work"), pause("other")], [200, 404]);
    home.write("tollway.toml", config("other"));
    wait_until("the new stage is known", || pause("other") == 200);
    assert_eq!(pause("work"), 404);
}

/// T25: policies, consumers and `[server]` are applied together or not at all. The error here is outside the file: it names
/// a missing token.
#[test]
fn config_is_applied_as_a_whole_or_not_at_all() {
    let home = Home::new();
    home.write("old.token", "0123456789abcdef-old");
    let config = |policy: &str, header: &str, token: &str| {
        format!(
            "[policies.{policy}]\nlimits = ['1000 / hour']\n\
             [consumers]\nrecords = 'sqlite::memory:'\nheader = '{header}'\nper_hour = 1000\nanonymous_per_hour = -1\n\
             [server]\nlisten = '127.0.0.1:0'\nadmin = '127.0.0.1:0'\n[server.tokens]\nread = 'file:{token}'"
        )
    };
    home.write("tollway.toml", config("one", "x-one", "old.token"));
    let serving = Serving::start(&home, &[]);
    let seen = || {
        let takes = [serving.take("one"), serving.take("two")];
        let consumers = ["x-one", "x-two"].map(|header| names_a_consumer(&serving, header));
        (takes, consumers, policies_with(&serving, "0123456789abcdef-old"))
    };
    let before = seen();
    assert_eq!(before, ([200, 404], [true, false], 200));
    home.write("tollway.toml", config("two", "x-two", "new.token"));
    serving.until_logged("keeping the previous config");
    assert_eq!(seen(), before);
    let metrics =
        serving.ask("administration", "GET /metrics", "authorization: Bearer 0123456789abcdef-old\r\n", "");
    assert!(metrics.contains("\ntollway_config_wrong 1\n"), "{metrics}");
    home.write("new.token", "0123456789abcdef-new");
    serving.signal("-HUP");
    serving.until("two", 200);
    assert_eq!(seen(), ([404, 200], [false, true], 401));
    assert_eq!(policies_with(&serving, "0123456789abcdef-new"), 200);
}

/// SIGHUP reloads the files that the config names. The config itself does not change, so its watch sees nothing.
#[test]
fn sighup_reloads_tokens() {
    let home = Home::new();
    home.write("token", "0123456789abcdef-old");
    home.write(
        "tollway.toml",
        "[policies.one]\nlimits = ['9 / hour']\n[server]\nlisten = '127.0.0.1:0'\nadmin = '127.0.0.1:0'\n\
         [server.tokens]\nread = 'file:token'",
    );
    let serving = Serving::start(&home, &[]);
    home.write("token", "0123456789abcdef-new");
    let statuses =
        || ["0123456789abcdef-old", "0123456789abcdef-new"].map(|token| policies_with(&serving, token));
    assert_eq!(statuses(), [200, 401]);
    serving.signal("-HUP");
    wait_until("the new token is required", || statuses() == [401, 200]);
}

/// A renewed certificate is loaded on SIGHUP, and not before.
#[cfg(feature = "tls")]
#[test]
fn sighup_reloads_certificates() {
    use std::process::Command;

    let home = Home::new();
    let make_certificate = |trusted: &str| {
        tollway_testkit::servers::self_signed_certificate(home.path());
        std::fs::copy(home.path().join("server.pem"), home.path().join(trusted)).unwrap();
    };
    make_certificate("old.pem");
    home.write(
        "tollway.toml",
        "[policies.one]\nlimits = ['9 / hour']\n[server]\nlisten = '127.0.0.1:0'\n\
         [server.tls]\ncertificate = 'server.pem'\nkey = 'server.key'",
    );
    let serving = Serving::start(&home, &[]);
    let address = serving.address("decisions");
    let (_, port) = address.split_once(':').unwrap();
    let is_reached = |trusted: &str| {
        let mut curl = Command::new("curl");
        curl.current_dir(home.path()).args(["-s", "-o", "/dev/null", "--cacert", trusted]);
        curl.args(["--resolve", &format!("localhost:{port}:127.0.0.1")]);
        curl.arg(format!("https://localhost:{port}/openapi.json")).status().unwrap().success()
    };
    assert!(is_reached("old.pem"));
    make_certificate("new.pem");
    assert!(is_reached("old.pem") && !is_reached("new.pem"));
    serving.signal("-HUP");
    wait_until("the new certificate is shown", || is_reached("new.pem"));
    assert!(!is_reached("old.pem"));
}

/// SIGHUP would end a process without a handler.
#[test]
fn sighup_without_a_config_is_ignored() {
    let home = Home::new();
    let serving = Serving::start(&home, &["--listen", "127.0.0.1:0"]);
    serving.signal("-HUP");
    serving.until_logged("no config file to reload");
    assert_eq!(serving.take("example"), 200);
    assert_eq!(serving.stop().0, Some(0));
}
