//! `[server]` of the config file.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use std::path::PathBuf;
use std::time::Duration;

use tollway::{ANONYMOUS_POLICY, Config, ListenAddress, ServerConfig, TlsFiles, Token};
use tollway_inbound::address::{ForwardingHeader, Trust};
use tollway_inbound::headers::HeaderChoice;

#[test]
fn every_key_of_the_server_is_read() {
    let config = Config::load("tests/config/good/server.toml").unwrap();
    let server = config.server().unwrap();
    let in_folder = |path: &str| PathBuf::from("tests/config/good").join(path);
    assert_eq!(server.listen, ListenAddress::Unix { path: in_folder("run/tollway.sock"), mode: Some(0o660) });
    assert_eq!(server.admin, Some("[::1]:9090".parse().unwrap()));
    assert_eq!((server.workers, server.connections, server.connections_per_address), (Some(4), 5_000, 100));
    assert_eq!((server.drain, server.grace), (Duration::from_secs(5), Duration::from_secs(30)));
    assert_eq!(server.headers, HeaderChoice { x_rate_limit: false, ratelimit: true });
    assert_eq!((server.headers_of("api"), server.headers_of("other")), (HeaderChoice::NONE, server.headers));
    let Trust::Networks { networks, unix } = &server.address.trust else { panic!("{:?}", server.address) };
    let networks: Vec<String> = networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["10.0.0.0/8", "2001:db8::/32", "192.0.2.7/32"]);
    assert!(*unix);
    assert_eq!((server.address.header, server.address.ipv6_prefix), (ForwardingHeader::Forwarded, 56));
    assert_eq!(server.subject_headers, ["x-api-key"]);
    assert_eq!(server.read_token, Some(Token::Variable("TOLLWAY_READ_TOKEN".to_owned())));
    assert_eq!(server.write_token, Some(Token::File(in_folder("secrets/write"))));
    let (certificate, key) = (in_folder("server.pem"), PathBuf::from("/etc/tollway/server.key"));
    assert_eq!(server.tls, Some(TlsFiles { certificate, key }));
}

#[test]
fn a_section_that_says_nothing_is_the_default() {
    assert_eq!(Config::parse("[server]").unwrap().server(), Some(&ServerConfig::default()));
    assert_eq!(Config::parse("").unwrap().server(), None);
    assert!(ServerConfig::default().listen.is_local());
}

/// C4: 1,000 an hour for each address of those without credentials, unless the file says otherwise.
#[test]
fn callers_without_credentials_have_a_policy() {
    let limits = |text: &str| {
        let config = Config::parse(text).unwrap();
        config.policy(ANONYMOUS_POLICY).map(|policy| policy.limits()[0].to_string())
    };
    let authorize = "[server.authorize]\nsubject_headers = ['x-api-key']\n";
    assert_eq!(limits(authorize), Some("1000 requests / hour from first call".to_owned()));
    let own = format!("{authorize}[policies.anonymous]\nlimits = ['7 / minute']");
    assert_eq!(limits(&own), Some("7 requests / minute".to_owned()));
    assert_eq!(limits("[server]"), None);
}

/// A token that stands in the file by mistake is not repeated in the message; only the line that shows where has it.
#[test]
fn a_token_does_not_stand_in_the_file() {
    let error = Config::parse("[server.tokens]\nread = 'hunter2hunter2hunter2'").unwrap_err();
    assert!(error.message().contains("does not say where the token is"), "{error}");
    assert!(!error.message().contains("hunter2"), "{error}");
}
