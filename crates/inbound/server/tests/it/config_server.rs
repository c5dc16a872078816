//! `[server]` of the config file, and the error messages for mistakes in the sections of servers and consumers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tollway::Config;
use tollway_consumers::ANONYMOUS_POLICY;
use tollway_inbound::address::{ForwardingHeader, Trust};
use tollway_inbound::headers::HeaderChoice;
use tollway_server::{
    ConfigWithServer, ListenAddress, NamedToken, ServerConfig, TlsFiles, Token, TokenRight,
};

#[test]
fn every_key_of_the_server_is_read() {
    let config = ConfigWithServer::load("tests/config/good/server.toml").unwrap();
    let server = config.server().unwrap();
    let in_folder = |path: &str| PathBuf::from("tests/config/good").join(path);
    assert_eq!(server.listen, ListenAddress::Unix { path: in_folder("run/tollway.sock"), mode: Some(0o660) });
    assert_eq!(server.admin, Some("[::1]:9090".parse().unwrap()));
    assert_eq!((server.workers, server.connections, server.connections_per_address), (Some(4), 5_000, 100));
    assert_eq!((server.drain, server.grace), (Duration::from_secs(5), Duration::from_secs(30)));
    assert_eq!(server.headers, HeaderChoice { ratelimit: true, ..HeaderChoice::NONE });
    assert_eq!((server.headers_of("api"), server.headers_of("other")), (HeaderChoice::NONE, server.headers));
    let Trust::Networks { networks, unix } = &server.address.trust else { panic!("{:?}", server.address) };
    let networks: Vec<String> = networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["10.0.0.0/8", "2001:db8::/32", "192.0.2.7/32"]);
    assert!(*unix);
    assert_eq!((server.address.header, server.address.ipv6_prefix), (ForwardingHeader::Forwarded, 56));
    assert_eq!(server.subject_headers, ["x-api-key"]);
    assert_eq!(server.read_token, Some(Token::Variable("TOLLWAY_READ_TOKEN".to_owned())));
    assert_eq!(server.write_token, Some(Token::File(in_folder("secrets/write"))));
    assert_eq!(server.decisions_token, Some(Token::Variable("TOLLWAY_DECISIONS".to_owned())));
    let token = Token::File(in_folder("secrets/alice"));
    let alice = NamedToken { name: "alice".to_owned(), token, right: TokenRight::Decide };
    assert_eq!(server.named_tokens, [alice]);
    let (certificate, key) = (in_folder("server.pem"), PathBuf::from("/etc/tollway/server.key"));
    assert_eq!((&server.hosts[0][..], server.hosts.len()), ("tollway.example.com", 1));
    assert_eq!(server.allowed_origins, ["https://app.example.com:8443"]);
    assert_eq!(server.tls, Some(TlsFiles { certificate, key }));
}

#[test]
fn empty_section_is_the_default() {
    assert_eq!(ConfigWithServer::parse("[server]").unwrap().server(), Some(&ServerConfig::default()));
    assert_eq!(ConfigWithServer::parse("").unwrap().server(), None);
    assert!(ServerConfig::default().listen.is_local());
}

/// C4: callers without credentials have 1,000 requests an hour per address, unless the file sets another limit.
#[test]
fn callers_without_credentials_have_a_policy() {
    let limits = |text: &str| {
        let config = ConfigWithServer::parse(text).unwrap();
        config.limits().policy(ANONYMOUS_POLICY).map(|policy| policy.limits()[0].to_string())
    };
    let authorize = "[server.authorize]\nsubject_headers = ['x-api-key']\n";
    assert_eq!(limits(authorize), Some("1000 requests / hour from first call".to_owned()));
    let own = format!("{authorize}[policies.anonymous]\nlimits = ['7 / minute']");
    assert_eq!(limits(&own), Some("7 requests / minute".to_owned()));
    assert_eq!(limits("[server]"), None);
}

/// The message does not repeat a token that is in the file by mistake; only the quoted line shows it.
#[test]
fn token_in_the_config_is_not_repeated_in_the_error() {
    let error = ConfigWithServer::parse("[server.tokens]\nread = 'hunter2hunter2hunter2'").unwrap_err();
    assert!(error.message().contains("does not say where the secret is"), "{error}");
    assert!(!error.message().contains("hunter2"), "{error}");
}

/// Each `wrong/NAME.toml` fails with exactly the text of `wrong/NAME.txt`. `TOLLWAY_BLESS` rewrites the texts; review the
/// diff before you keep it.
#[test]
fn every_config_error_matches_its_golden_text() {
    let entries = fs::read_dir("tests/config/wrong").unwrap();
    let mut fixtures: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    fixtures.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    fixtures.sort();
    assert!(fixtures.len() >= 5, "only {} fixtures were found", fixtures.len());
    for path in fixtures {
        let Err(error) = ConfigWithServer::load(&path) else { panic!("{} is accepted", path.display()) };
        let text = format!("{error}\n");
        let beside = path.with_extension("txt");
        if std::env::var_os("TOLLWAY_BLESS").is_some() {
            fs::write(&beside, &text).unwrap();
        }
        assert_eq!(text, fs::read_to_string(&beside).unwrap_or_default(), "{}", path.display());
    }
}

/// A mistake in the sections of limits has the same message in the server and in the library.
#[test]
fn limit_errors_match_the_library() {
    let entries = fs::read_dir("../../limiter/tollway/tests/config/wrong").unwrap();
    let fixtures = entries.map(|entry| entry.unwrap().path());
    let mut compared = 0;
    for path in fixtures.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
        assert_eq!(ConfigWithServer::load(&path).unwrap_err(), Config::load(&path).unwrap_err());
        compared += 1;
    }
    assert!(compared >= 25, "only {compared} fixtures were found");
}

/// A truncated file is read or rejected with a message, never a panic.
#[test]
fn truncated_config_never_panics() {
    let folders = ["tests/config/wrong", "tests/config/good"];
    for entry in folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()) {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for (end, _) in text.char_indices() {
            if let Err(error) = ConfigWithServer::parse(&text[..end]) {
                assert!(error.line().is_some_and(|line| line <= text.lines().count() + 1));
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

#[test]
fn example_config_is_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tollway.example.toml");
    assert!(ConfigWithServer::load(path).unwrap_or_else(|error| panic!("{error}")).server().is_some());
}
