//! A Redis that speaks TLS only is looked into as well.

use std::net::TcpListener;
use std::process::Command;

use tollway_testkit::servers::{RedisServer, certificates};

use super::{codes, told};
use crate::home::Home;

#[test]
fn checks_keys_over_tls() {
    let home = Home::new();
    let folder = certificates(home.path(), "tests");
    let file = |name: &str| folder.join(name).display().to_string();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (ca, cert, key) = (file("ca.crt"), file("one.crt"), file("one.key"));
    let tls_port = port.to_string();
    let options = [
        "--tls-port",
        &tls_port,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
    ];
    let redis = RedisServer::start_with(&options);
    let url = format!("rediss://default:anything@localhost:{port}?deadline=3s&ca={ca}&cert={cert}&key={key}");
    home.write("tollway.toml", format!("[store]\nurl = \"{url}\"\n"));
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
    redis.command(&["SET", "abc_PER_MINUTE", "1"]);
    assert_eq!(codes(&home, &[]), ["keys-without-ttl"]);
    // The fix runs unchanged.
    let fix = told(&home, &[], "keys-without-ttl", "fix");
    assert!(fix.contains("--tls") && fix.contains("--user default") && !fix.contains("anything"), "{fix}");
    let command = &fix[fix.find("redis-cli").unwrap()..];
    let done = Command::new("sh").args(["-c", command]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "1", "{command}: {done:?}");
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
}
