//! The signature, checked by the Python of the guide.

use std::io::Write;
use std::process::{Command, Stdio};

use tollway_notify::webhook::sign;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guide/incidents.md");

/// Calls the guide's function with what came over the wire.
const CALL: &str = "
import sys
headers, body = eval(sys.argv[2]), sys.stdin.buffer.read()
sys.exit(0 if is_from_tollway(headers, body, sys.argv[1].encode()) else 3)
";

/// The exit code of the guide's code.
pub fn verify(secret: &str, timestamp: &str, signature: &str, body: &str) -> i32 {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let code = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let headers = format!("{{'Tollway-Timestamp': {timestamp:?}, 'Tollway-Signature': {signature:?}}}");
    let mut python = Command::new("python3")
        .args(["-c", &format!("{code}{CALL}"), secret, &headers])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    python.wait().unwrap().code().unwrap()
}

#[test]
fn old_and_forged_requests_are_refused() {
    let old = 1_700_000_000;
    assert_eq!(verify("s", &old.to_string(), &sign("s", old, b"{}"), "{}"), 3, "a replay");
    let later = 9_999_999_999;
    assert_eq!(verify("s", &later.to_string(), &sign("s", later, b"{}"), "{}"), 3, "not yet");
}

/// RFC 4231 has no such message; this is what `openssl dgst -sha256 -hmac key` prints for `5.body`.
#[test]
fn signature_is_that_of_openssl() {
    let command = "printf 5.body | openssl dgst -sha256 -hmac key | sed 's/.*= //'";
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    let digits = String::from_utf8(output.stdout).unwrap();
    assert_eq!(sign("key", 5, b"body"), format!("v1={}", digits.trim()));
}
