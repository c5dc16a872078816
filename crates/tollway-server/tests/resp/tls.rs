//! The Redis protocol over TLS.

use crate::certificate::certificate;
use crate::redis_client::RedisClient;
use crate::setup;
use crate::tools::redis_cli;

const TOKEN: &str = "0123456789abcdef";

/// B10: redis-cli believes the certificate, shows its token and is answered; whoever does not speak TLS is closed and
/// disturbs nobody.
#[test]
fn redis_cli_speaks_tls() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificate(folder.path());
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let mut setup = setup(&format!("[server.tokens]\nresp = \"file:{}\"\n", token.display()));
    setup.config.tls = Some(files.clone());
    let server = setup.start();

    let mut plain = RedisClient::of(&server);
    plain.write("PING\r\n").unwrap();
    assert!(!plain.closed().contains("PONG"));

    let root = files.certificate.to_str().unwrap();
    let over_tls = ["-h", "localhost", "--tls", "--cacert", root];
    let ask = |words: &[&str]| redis_cli(&server, &[&over_tls, words].concat());
    assert!(ask(&["PING"]).starts_with("NOAUTH"));
    let with_token = ["--no-auth-warning", "-a", TOKEN];
    assert_eq!(ask(&[&with_token[..], &["PING"]].concat()), "PONG");
    let throttle = [&with_token[..], &["CL.THROTTLE", "ann", "4", "5", "60"]].concat();
    assert_eq!(ask(&throttle), "0\n5\n4\n-1\n12");
    assert_eq!(ask(&throttle).lines().nth(2), Some("3"));
}
