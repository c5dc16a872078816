//! Authentication with the token, in every form.

use tempfile::NamedTempFile;
use tollway_server::ConfigWithServer;

use super::setup;
use super::tools::redis_cli;
use crate::redis_client::RedisClient;
use crate::running::Running;

const TOKEN: &str = "0123456789abcdef-a-token";

fn guarded() -> (Running, NamedTempFile) {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(&file, TOKEN).unwrap();
    let path = file.path().display();
    (setup(&format!("[server.tokens]\nresp = \"file:{path}\"\n")).start(), file)
}

/// T22: every command before and after authentication, with a right, a wrong and a nearly right token.
#[test]
fn commands_need_auth_first() {
    let (server, _file) = guarded();
    let no = "-NOAUTH Authentication required.\r\n";
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let guarded: [&[&str]; 7] = [
        &["CL.THROTTLE", "k", "1", "1", "60"],
        &["PING"],
        &["ECHO", "x"],
        &["SELECT", "0"],
        &["CLIENT", "ID"],
        &["COMMAND"],
        &["COMMAND", "DOCS"],
    ];
    let mut client = RedisClient::of(&server);
    for words in guarded {
        assert_eq!(client.ask(words), no, "{words:?}");
    }
    for token in ["", "wrong", &TOKEN[1..], &format!("{TOKEN}x"), &TOKEN.to_uppercase()] {
        assert_eq!(client.ask(&["AUTH", token]), wrong, "{token:?}");
        assert_eq!(client.ask(&["AUTH", "default", token]), wrong, "{token:?}");
        assert_eq!(client.ask(&["HELLO", "3", "AUTH", "default", token]), wrong, "{token:?}");
        assert_eq!(client.ask(&["PING"]), no);
    }
    assert_eq!(client.ask(&["AUTH", "somebody", TOKEN]), wrong);
    assert!(client.ask(&["HELLO", "3"]).starts_with("-NOAUTH HELLO must be called"));
    assert_eq!(client.ask(&["AUTH", TOKEN]), "+OK\r\n");
    for words in guarded {
        assert!(!client.ask(words).starts_with('-'), "{words:?}");
    }
    // A wrong token does not end an authenticated session.
    assert_eq!(client.ask(&["AUTH", "wrong"]), wrong);
    assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
    assert_eq!(client.ask(&["RESET"]), "+RESET\r\n");
    assert_eq!(client.ask(&["PING"]), no);
}

#[test]
fn every_form_of_auth_authenticates_one_connection() {
    let (server, _file) = guarded();
    let ways: [&[&str]; 3] = [
        &["AUTH", TOKEN],
        &["AUTH", "default", TOKEN],
        &["HELLO", "3", "AUTH", "default", TOKEN, "SETNAME", "me"],
    ];
    for words in ways {
        let mut client = RedisClient::of(&server);
        assert!(!client.ask(words).starts_with('-'), "{words:?}");
        assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
    }
    assert_eq!(RedisClient::of(&server).ask(&["PING"]), "-NOAUTH Authentication required.\r\n");
    assert_eq!(redis_cli(&server, &["--no-auth-warning", "-a", TOKEN, "PING"]), "PONG");
}

/// T19: before authentication, only small requests are accepted.
#[test]
fn unauthenticated_request_must_be_small() {
    let (server, _file) = guarded();
    let mut client = RedisClient::of(&server);
    client.write("*11\r\n").unwrap();
    assert_eq!(client.closed(), "-ERR Protocol error: unauthenticated multibulk length\r\n");
}

#[test]
fn token_added_by_reload_is_required_at_once() {
    let server = setup("").start();
    let mut client = RedisClient::of(&server);
    assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
    let file = NamedTempFile::new().unwrap();
    std::fs::write(&file, TOKEN).unwrap();
    let config =
        ConfigWithServer::parse(&format!("[server.tokens]\nresp = \"file:{}\"\n", file.path().display()));
    server.server.reload(&config.unwrap()).unwrap();
    assert_eq!(client.ask(&["PING"]), "-NOAUTH Authentication required.\r\n");
    assert_eq!(client.ask(&["AUTH", TOKEN]), "+OK\r\n");
    assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
}
