//! AWS SSM as a limit source (A3), against a server that answers as it does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "it/heard.rs"]
mod heard;

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use heard::Heard;
use tollway::source::{Origin, SourceStatus};
use tollway::{Limiter, Span};
use tollway_testkit::servers::{Ministack, python_tool};

/// Has boto3 do something with a client of SSM, `ssm`.
fn with_boto3(server: &Ministack, what: &str) {
    let client = "import boto3; ssm = boto3.client('ssm')";
    let mut python = Command::new(python_tool("python3"))
        .args(["-"])
        .env("AWS_ENDPOINT_URL", server.endpoint())
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(python.stdin.take().unwrap(), "{client}\n{what}").unwrap();
    assert!(python.wait().unwrap().success(), "{what}");
}

/// What `aws ssm put-parameter --overwrite` does.
fn put(server: &Ministack, name: &str, value: &str) {
    with_boto3(
        server,
        &format!("ssm.put_parameter(Name={name:?}, Value={value:?}, Type='String', Overwrite=True)"),
    );
}

/// A limiter of a config file with these policies.
fn configured(server: &Ministack, folder: &tempfile::TempDir, policies: &str) -> Limiter {
    let path = folder.path().join("tollway.toml");
    let endpoint = format!("region=us-east-1&endpoint={}&access=test:test", server.endpoint());
    std::fs::write(&path, policies.replace("WHERE", &endpoint)).unwrap();
    Limiter::from_config_blocking(path).unwrap()
}

const ADOBE: &str = r#"
    [policies.adobe]
    limits = ["200 requests / minute"]
    source = "ssm:/pdf-processing/adobe-api-rpm?WHERE"
    source_every = "1s"
"#;

fn amount(limiter: &Limiter) -> u64 {
    limiter.policies()[0].limits()[0].amount()
}

/// Waits for what comes within seconds, on a machine that may be busy.
fn until(what: &str, reached: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if reached() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("never {what}");
}

fn wait_for(limiter: &Limiter, what: impl Fn(&SourceStatus) -> bool) {
    // While a reload takes over, there may be none.
    until("read", || limiter.sources().first().is_some_and(&what));
}

/// What all tests here are warned of: sources are read in the background.
fn heard() -> &'static Heard {
    static HEARD: OnceLock<Heard> = OnceLock::new();
    HEARD.get_or_init(|| {
        let heard = Heard::default();
        tracing::subscriber::set_global_default(heard.clone()).unwrap();
        heard
    })
}

/// A3, A4: no parameter is the file's 200; one that is put is followed; one that is no number, and SSM away, leave the
/// last good value; each with a warning.
#[test]
fn a_parameter_is_polled_and_its_last_valid_value_kept() {
    let heard = heard();
    let (server, folder) = (Ministack::start(), tempfile::tempdir().unwrap());
    let name = "/pdf-processing/adobe-api-rpm";
    let limiter = configured(&server, &folder, ADOBE);
    assert_eq!((amount(&limiter), limiter.origin("adobe", "requests_per_minute")), (200, Origin::Config));
    let source = format!("ssm:{name} ");
    // On a busy machine the first read may take longer than the start waits for it.
    until("warned", || {
        heard.said(&[&source, "its parameter is missing", "the config's amounts are in force"])
    });
    put(&server, name, "250");
    wait_for(&limiter, |status| status.problem.is_none());
    assert_eq!(amount(&limiter), 250);
    let from = limiter.origin("adobe", "requests_per_minute");
    assert!(matches!(from, Origin::Source { title, .. } if title == format!("ssm:{name}")));
    put(&server, name, "two hundred");
    wait_for(&limiter, |status| status.problem.as_deref().is_some_and(|said| said.contains("two hundred")));
    assert_eq!(amount(&limiter), 250);
    assert!(heard.said(&[&source, "two hundred", "the last amounts read stay in force"]));
    server.kill();
    wait_for(&limiter, |status| status.problem.as_deref().is_some_and(|said| said.contains("could not be")));
    assert_eq!(amount(&limiter), 250);
    assert!(heard.said(&[&source, "could not be", "the last amounts read stay in force"]));
    server.restart_empty();
    put(&server, name, "100");
    wait_for(&limiter, |status| status.problem.is_none());
    assert_eq!(amount(&limiter), 100);
}

/// The store's value beats SSM's.
#[test]
fn a_limit_set_in_the_store_overrides_the_parameter() {
    let (server, folder) = (Ministack::shared(), tempfile::tempdir().unwrap());
    put(server, "/beaten", "250");
    let limiter = configured(server, &folder, &ADOBE.replace("/pdf-processing/adobe-api-rpm", "/beaten"));
    assert_eq!(amount(&limiter), 250);
    limiter.set_limit("adobe", "requests_per_minute", "300").now().unwrap();
    assert_eq!(amount(&limiter), 300);
    limiter.clear_limit("adobe", "requests_per_minute").now().unwrap();
    assert_eq!(amount(&limiter), 250);
}

/// With several limits each has a parameter below the name, more than fit on a page. A3: read every five minutes where the
/// config does not say how often.
#[test]
fn several_limits_have_a_parameter_each() {
    let (server, folder) = (Ministack::shared(), tempfile::tempdir().unwrap());
    let put_all = (0..25)
        .map(|n| format!("ssm.put_parameter(Name='/many/l{n}', Value='{}', Type='SecureString')", n + 7));
    with_boto3(server, &put_all.collect::<Vec<_>>().join("\n"));
    let limits = (10..26).map(|n| format!("\"l{n}: 5 units{n} / minute\"")).collect::<Vec<_>>().join(", ");
    let policies = format!("[policies.many]\nlimits = [{limits}]\nsource = \"ssm:/many?WHERE\"");
    let limiter = configured(server, &folder, &policies);
    let amounts: Vec<u64> = limiter.policies()[0].limits().iter().map(|limit| limit.amount()).collect();
    let mut expected: Vec<u64> = (17..32).collect();
    expected.push(5);
    assert_eq!(amounts, expected, "{:?}", limiter.sources());
    assert_eq!(limiter.sources()[0].every, Span::from_secs(5 * 60));
    assert_eq!(limiter.sources()[0].problem.as_deref(), Some("l25: its parameter is missing"));
}

/// A reload of the file ends a source, and begins another.
#[test]
fn a_reload_follows_the_source_that_the_file_names_now() {
    let (server, folder) = (Ministack::shared(), tempfile::tempdir().unwrap());
    put(server, "/reload/one", "11");
    put(server, "/reload/two", "22");
    let text = |name: &str| ADOBE.replace("/pdf-processing/adobe-api-rpm", name);
    let limiter = configured(server, &folder, &text("/reload/one"));
    assert_eq!(amount(&limiter), 11);
    let path = folder.path().join("tollway.toml");
    let now = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, now.replace("/reload/one", "/reload/two")).unwrap();
    wait_for(&limiter, |status| status.title == "ssm:/reload/two" && status.read_at.is_some());
    assert_eq!(amount(&limiter), 22);
    let without: Vec<&str> = now.lines().filter(|line| !line.contains("source")).collect();
    std::fs::write(&path, without.join("\n")).unwrap();
    until("without a source", || limiter.sources().is_empty() && amount(&limiter) == 200);
}
