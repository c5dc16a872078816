//! `CL.THROTTLE`: a limit that the caller chooses.

use super::tools::redis_cli;
use super::{server, setup};
use crate::redis_client::RedisClient;

/// B10: redis-cli shows the same as with redis-cell.
#[test]
fn redis_cli_output_matches_redis_cell() {
    let server = server();
    let take = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        redis_cli(&server, &words).lines().map(|line| line.parse().unwrap()).collect::<Vec<i64>>()
    };
    // One a day: nothing refills during the test, but the seconds pass.
    assert_eq!(take("CL.THROTTLE user123 2 1 86400")[..4], [0, 3, 2, -1]);
    assert_eq!(take("cl.throttle user123 2 1 86400 2")[..4], [0, 3, 0, -1]);
    let denied = take("CL.THROTTLE user123 2 1 86400");
    assert_eq!(denied[..3], [1, 3, 0]);
    assert!((86_300..=86_400).contains(&denied[3]), "{denied:?}");
    assert!((3 * 86_400 - 100..=3 * 86_400).contains(&denied[4]), "{denied:?}");
    assert_eq!(take("CL.THROTTLE somebody-else 2 1 86400")[..4], [0, 3, 2, -1]);
    assert_eq!(
        redis_cli(&server, &["-3", "CL.THROTTLE", "user123", "0", "1", "86400"]).lines().next(),
        Some("1")
    );
}

#[test]
fn zero_quantity_reads_and_oversized_quantity_is_limited() {
    let server = server();
    let mut client = RedisClient::of(&server);
    assert_eq!(client.throttle(&["k", "4", "1", "86400", "0"]), [0, 5, 5, -1, 0]);
    assert_eq!(client.throttle(&["k", "4", "1", "86400", "6"]), [1, 5, 5, -1, 0]);
    assert_eq!(client.throttle(&["k", "4", "1", "86400", "9223372036854775807"]), [1, 5, 5, -1, 0]);
    assert_eq!(client.throttle(&["k", "4", "1", "86400", "3"])[..4], [0, 5, 2, -1]);
    assert_eq!(client.throttle(&["k", "4", "1", "86400", "0"])[..4], [0, 5, 2, -1]);
}

#[test]
fn usage_survives_a_new_burst_or_count() {
    let server = server();
    let mut client = RedisClient::of(&server);
    assert_eq!(client.throttle(&["k", "9", "1", "86400", "6"])[..4], [0, 10, 4, -1]);
    assert_eq!(client.throttle(&["k", "19", "2", "86400", "0"])[..4], [0, 20, 14, -1]);
    assert_eq!(client.throttle(&["k", "4", "1", "86400", "0"])[..3], [1, 5, 0]);
    // Another period is another limit.
    assert_eq!(client.throttle(&["k", "9", "1", "3600", "0"])[..4], [0, 10, 10, -1]);
}

/// T19: every invalid argument gets an error that explains it, and takes nothing.
#[test]
fn invalid_throttle_arguments_are_errors() {
    let server = server();
    let mut client = RedisClient::of(&server);
    let usage = "Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]";
    let long = "k".repeat(1_025);
    for (words, told) in [
        (&[][..], usage),
        (&["k", "1", "1"], usage),
        (&["k", "1", "1", "60", "1", "1"], usage),
        (&["k", "x", "1", "60"], "Cell error: Couldn't parse as integer: x"),
        (&["k", "1", "1.5", "60"], "Cell error: Couldn't parse as integer: 1.5"),
        (&["k", "1", "1", ""], "Cell error: Couldn't parse as integer: "),
        (
            &["k", "1", "1", "60", "99999999999999999999"],
            "Cell error: Couldn't parse as integer: 99999999999999999999",
        ),
        (&["k", "1", "0", "60"], "Cell error: Zero rates are not supported"),
        (&["k", "1", "1", "0"], "Cell error: Zero rates are not supported"),
        (&["k", "-1", "1", "60"], "ERR max_burst is -1; it must be from 0 to 999999999999999"),
        (&["k", "1", "-1", "60"], "ERR count is -1; it must be from 0 to 1000000000000000"),
        (&["k", "1", "1", "-60"], "ERR period is -60; it must be from 0 to 31622400"),
        (&["k", "1", "1", "31622401"], "ERR period is 31622401; it must be from 0 to 31622400"),
        (&["k", "1", "1", "60", "-1"], "ERR quantity is -1; it must be from 0 to 9223372036854775807"),
        (
            &["k", "9223372036854775807", "1", "60"],
            "ERR max_burst is 9223372036854775807; it must be from 0 to 999999999999999",
        ),
        (&["a\0b", "1", "1", "60"], r"ERR the subject contains '\0', which is not allowed"),
        (&[&long, "1", "1", "60"], "ERR the subject has 1025 bytes, more than the 1024 allowed"),
    ] {
        let words: Vec<&str> = ["CL.THROTTLE"].iter().chain(words).copied().collect();
        assert_eq!(client.ask(&words), format!("-{told}\r\n"), "{words:?}");
    }
    client.write(b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\n\xff\r\n$1\r\n1\r\n$1\r\n1\r\n$2\r\n60\r\n").unwrap();
    assert_eq!(client.reply(), "-ERR the key is not UTF-8; write other bytes in hexadecimal\r\n");
    assert_eq!(client.throttle(&["k", "1", "1", "86400", "0"]), [0, 2, 2, -1, 0]);
    // The largest values still work.
    assert_eq!(
        client.throttle(&["k", "999999999999999", "1000000000000000", "31622400"])[..3],
        [0, 1_000_000_000_000_000, 999_999_999_999_999]
    );
}

#[test]
fn policy_with_the_reserved_name_is_an_error() {
    let server = setup("[policies.\"cl.throttle.60\"]\nlimits = [\"5 / minute\"]\n").start();
    let mut client = RedisClient::of(&server);
    let told = "-ERR the config already has a policy cl.throttle.60; choose another name\r\n";
    assert_eq!(client.ask(&["CL.THROTTLE", "k", "1", "1", "60"]), told);
}

#[test]
fn resp_works_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("resp.sock");
    let path = path.to_str().unwrap();
    let _server = super::Setup::of(&format!("[server]\nresp = \"unix:{path}\"\n")).start();
    assert_eq!(
        super::tools::run("redis-cli", &["-s", path, "CL.THROTTLE", "k", "0", "1", "86400", "0"]),
        "0\n1\n1\n-1\n0"
    );
}
