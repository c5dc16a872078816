//! Replies compared with those of a real Redis.

use tollway_testkit::servers::RedisServer;

use super::tools::redis_cli;
use super::{server, setup};
use crate::redis_client::{RedisClient, request};

/// B10: replies to all other commands and to mistakes match Redis byte for byte.
#[test]
fn replies_match_redis() {
    let (redis, server) = (RedisServer::start(), server());
    let (mut theirs, mut ours) = (RedisClient::at(redis.addr()), RedisClient::of(&server));
    let long = "w".repeat(200);
    let requests: [&[&str]; 34] = [
        &["PING"],
        &["ping", "hello"],
        &["PING", "a", "b"],
        &["ECHO", "hello"],
        &["ECHO", ""],
        &["ECHO"],
        &["ECHO", "a", "b"],
        &["SELECT", "0"],
        &["SELECT", "99"],
        &["SELECT", "x"],
        &["SELECT"],
        &["CLIENT"],
        &["CLIENT", "SETNAME", "me"],
        &["client", "setname", "two words"],
        &["CLIENT", "SETNAME"],
        &["CLIENT", "SETNAME", "a", "b"],
        &["CLIENT", "ID", "x"],
        &["CLIENT", "NOSUCH"],
        &["CLIENT", &long],
        &["COMMAND", "NOSUCH"],
        &["AUTH"],
        &["AUTH", "x"],
        &["AUTH", "default", "x"],
        &["AUTH", "nobody", "x"],
        &["AUTH", "a", "b", "c"],
        &["HELLO", "x"],
        &["HELLO", "4"],
        &["HELLO", "3", "NOSUCH"],
        &["HELLO", "3", "AUTH", "nobody", "x"],
        &["HELLO", "3", "SETNAME", "two words"],
        &["NOSUCH"],
        &["NOSUCH", "a", "b\r\nc", ""],
        &["NOSUCH", &long, &long],
        &["RESET"],
    ];
    for words in requests {
        assert_eq!(ours.ask(words), theirs.ask(words), "{words:?}");
    }
    let long_name = request(&[&long]);
    for bytes in [
        &long_name[..],
        b"\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"ping\r\n",
        b"echo 'a b'\r\n",
        b"echo \"\\x41\\n\"\n",
    ] {
        let asked = [bytes, b"PING\r\n"].concat();
        ours.write(&asked).unwrap();
        theirs.write(&asked).unwrap();
        loop {
            let reply = ours.reply();
            assert_eq!(reply, theirs.reply(), "{bytes:?}");
            if reply == "+PONG\r\n" {
                break;
            }
        }
    }
}

/// The commands that client libraries send on connect succeed: ioredis and its ready check, node-redis, go-redis, redis-py
/// and Jedis, lettuce, StackExchange.Redis.
#[test]
fn client_library_handshakes_succeed() {
    let server = server();
    let preambles: [&[&[&str]]; 6] = [
        &[&["INFO"]],
        &[&["HELLO", "3"], &["CLIENT", "SETINFO", "LIB-NAME", "node-redis"], &["SELECT", "0"]],
        &[
            &["HELLO", "3"],
            &["CLIENT", "SETINFO", "LIB-NAME", "go-redis(,go1.24)"],
            &["CLIENT", "SETNAME", "me"],
        ],
        &[&["CLIENT", "SETINFO", "LIB-NAME", "redis-py"], &["CLIENT", "SETINFO", "LIB-VER", "6.4.0"]],
        &[&["HELLO", "3", "SETNAME", "lettuce"], &["PING"]],
        &[
            &["CLIENT", "SETNAME", "host"],
            &["CLIENT", "ID"],
            &["INFO", "replication"],
            &["INFO", "server"],
            &["ECHO", "x"],
        ],
    ];
    for preamble in preambles {
        let mut client = RedisClient::of(&server);
        for words in preamble {
            let reply = client.ask(words);
            assert!(!reply.starts_with('-'), "{words:?}: {reply}");
        }
        assert!(client.throttle(&["k", "99999", "1", "60"])[0] == 0);
    }
}

/// The fields of `INFO` are a subset of those of Redis.
#[test]
fn info_fields_are_a_subset_of_redis() {
    let (redis, server) = (RedisServer::start(), server());
    let (mut theirs, mut ours) = (RedisClient::at(redis.addr()), RedisClient::of(&server));
    for protocol in ["2", "3"] {
        theirs.ask(&["HELLO", protocol]);
        ours.ask(&["HELLO", protocol]);
        for words in
            [&["INFO"][..], &["info", "REPLICATION"], &["INFO", "server", "persistence"], &["INFO", "all"]]
        {
            let (ours, theirs) = (ours.ask(words), theirs.ask(words));
            assert_eq!(ours.chars().next(), theirs.chars().next(), "{words:?}");
            let told = |text: &str| {
                text.lines()
                    .skip(1)
                    .map(|line| line.split(':').next().unwrap().to_owned())
                    .collect::<Vec<_>>()
            };
            let known = told(&theirs);
            let lines = told(&ours).into_iter().filter(|line| line != "txt" && line != "tollway_version");
            lines.for_each(|line| assert!(known.contains(&line), "{words:?}: {line} in {theirs}"));
        }
        assert_eq!(ours.ask(&["INFO", "nosuch"]), theirs.ask(&["INFO", "nosuch"]));
    }
    assert!(ours.ask(&["INFO", "replication"]).contains("role:master\r\n"));
}

/// T19: a protocol error gets the message of Redis and closes the connection.
#[test]
fn protocol_error_closes_the_connection() {
    let (redis, server) = (RedisServer::start(), server());
    for bytes in [
        &b"*1\r\nPING\r\n"[..],
        b"*3\r\n$4\r\nECHO\r\n:1\r\n",
        b"*x\r\n",
        b"*1x\r\n",
        b"*99999999999\r\n",
        b"*01\r\n",
        b"*1\r\n$x\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$+4\r\nPING\r\n",
        b"*1\r\n$99999999999\r\n",
        b"PING \"a\r\n",
        b"PING 'a'b\r\n",
        b"QUIT\r\nPING\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n",
        b"Host: localhost\r\n\r\nPING\r\n",
    ] {
        let told = |mut client: RedisClient| {
            client.write(bytes).unwrap();
            client.closed()
        };
        let (ours, theirs) = (told(RedisClient::of(&server)), told(RedisClient::at(redis.addr())));
        assert_eq!(ours, theirs, "{:?}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(RedisClient::of(&server).ask(&["PING"]), "+PONG\r\n");
}

/// The token acts as Redis's password.
#[test]
fn replies_before_auth_match_redis() {
    let token = "0123456789abcdef";
    let redis = RedisServer::start_with(&["--requirepass", token]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, token).unwrap();
    let server = setup(&format!("[server.tokens]\nresp = \"file:{}\"\n", file.path().display())).start();
    let (mut theirs, mut ours) = (RedisClient::at(redis.addr()), RedisClient::of(&server));
    let requests: [&[&str]; 13] = [
        &["PING"],
        &["NOSUCH"],
        &["PING", "a", "b"],
        &["HELLO", "4"],
        &["HELLO", "3", "AUTH", "default", "wrong"],
        &["AUTH", "wrong"],
        &["AUTH", "default", "wrong"],
        &["AUTH", "nobody", token],
        &["AUTH", token],
        &["PING"],
        &["AUTH", "wrong"],
        &["PING"],
        &["RESET"],
    ];
    for words in requests {
        assert_eq!(ours.ask(words), theirs.ask(words), "{words:?}");
    }
}

#[test]
fn hello_introduces_the_server_in_both_protocols() {
    let server = server();
    let mut client = RedisClient::of(&server);
    let second = client.ask(&["HELLO", "2"]);
    assert!(second.starts_with("*14\r\n$6\r\nserver\r\n$7\r\ntollway\r\n"), "{second}");
    let third = client.ask(&["HELLO", "3"]);
    assert!(
        third.starts_with("%7\r\n$6\r\nserver\r\n$7\r\ntollway\r\n") && third.contains("proto\r\n:3\r\n"),
        "{third}"
    );
    // The protocol stays selected.
    assert_eq!(client.ask(&["HELLO"]), third);
    assert_eq!(client.ask(&["COMMAND", "DOCS"]), "%0\r\n");
    assert_eq!(client.throttle(&["k", "1", "1", "86400"])[..4], [0, 2, 1, -1]);
    assert_eq!(client.ask(&["RESET"]), "+RESET\r\n");
    assert_eq!(client.ask(&["HELLO"]), second);
    let ids = [client.ask(&["CLIENT", "ID"]), RedisClient::of(&server).ask(&["CLIENT", "ID"])];
    assert_ne!(ids[0], ids[1]);
}

/// Commands that libraries and redis-cli send automatically succeed.
#[test]
fn clients_start_cleanly() {
    let server = server();
    let mut client = RedisClient::of(&server);
    assert_eq!(client.ask(&["CLIENT", "SETINFO", "LIB-NAME", "redis-py"]), "+OK\r\n");
    assert_eq!(client.ask(&["CLIENT", "SETINFO", "lib-ver", "5.0"]), "+OK\r\n");
    assert_eq!(
        client.ask(&["CLIENT", "SETINFO", "lib-other", "x"]),
        "-ERR Unrecognized option 'lib-other'\r\n"
    );
    assert_eq!(client.ask(&["COMMAND"]), "*0\r\n");
    assert_eq!(client.ask(&["COMMAND", "DOCS"]), "*0\r\n");
    assert_eq!(redis_cli(&server, &["-n", "0", "PING"]), "PONG");
    assert_eq!(redis_cli(&server, &["-3", "ECHO", "hello"]), "hello");
}

/// T19: random protocol-like bytes. Every response consists of complete replies, and the server keeps serving.
#[test]
fn hostile_bytes_only_end_their_connection() {
    let server = server();
    let mut random = tollway_testkit::Random::new(19);
    let pieces = [
        "*",
        "$",
        "\r\n",
        "\r",
        "\n",
        "1",
        "3",
        "-1",
        "9999999",
        "PING",
        "CL.THROTTLE",
        "\0",
        "\"",
        "\\x",
        " ",
        "ü",
        "\u{1b}[2J",
    ];
    for _ in 0..300 {
        let length = random.below(40);
        let bytes: String = (0..length).map(|_| *random.pick(&pieces)).collect();
        let mut client = RedisClient::of(&server);
        // The server may close the connection first.
        let _ = client.write(&bytes);
        client.end();
        let told = client.closed();
        assert!(told.is_empty() || told.ends_with("\r\n"), "{bytes:?}: {told:?}");
    }
    assert_eq!(RedisClient::of(&server).ask(&["PING"]), "+PONG\r\n");
}
