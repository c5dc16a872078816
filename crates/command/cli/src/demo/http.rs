//! Minimal HTTP/1.1 for the demo: a head of bounded size, one request per connection.

use std::io::{self, BufRead, ErrorKind};

/// The longest head that is read.
const HEAD_BYTES_MAX: u64 = 4_096;

/// The process id of the calling worker.
pub(super) const WORKER: &str = "x-worker";
/// Seconds until a retry may succeed.
pub(super) const RETRY_AFTER: &str = "retry-after";

/// The first line and the headers of a request or response.
#[derive(Debug)]
pub(super) struct Head {
    first: String,
    headers: Vec<String>,
}

impl Head {
    /// Reads up to the empty line. The rest of `reader` is the body.
    pub(super) fn read(reader: impl BufRead) -> io::Result<Self> {
        let mut lines = reader.take(HEAD_BYTES_MAX);
        let first = line(&mut lines)?;
        let mut headers = Vec::new();
        loop {
            match line(&mut lines)? {
                header if header.is_empty() => return Ok(Self { first, headers }),
                header => headers.push(header),
            }
        }
    }

    /// One of the three words of the first line.
    pub(super) fn word(&self, index: usize) -> &str {
        self.first.split(' ').nth(index).unwrap_or_default()
    }

    /// A header that is a number.
    pub(super) fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        let value = |header: &String| {
            let (key, value) = header.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().parse().ok())?
        };
        self.headers.iter().find_map(value)
    }
}

/// Reads a line without its terminator. Fails if the head is truncated or too long.
fn line(lines: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    lines.read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(text) => Ok(text.strip_suffix('\r').unwrap_or(text).to_owned()),
        None => Err(io::Error::new(ErrorKind::InvalidData, "HTTP head truncated or too long")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_head_and_leaves_the_body() {
        let mut message = &b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nX: y\r\n\r\nbody"[..];
        let head = Head::read(&mut message).unwrap();
        assert_eq!(head.word(1), "429");
        assert_eq!(
            (head.number::<u64>(RETRY_AFTER), head.number::<u64>("x"), head.number::<u64>(WORKER)),
            (Some(3), None, None)
        );
        assert_eq!(message, b"body");
    }

    #[test]
    fn truncated_or_long_head_is_an_error() {
        assert!(Head::read(&b"GET / HTTP/1.1\r\nX-Worker: 1\r\n"[..]).is_err());
        assert!(Head::read(&b""[..]).is_err());
        let long = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1_000));
        assert!(Head::read(long.as_bytes()).is_err());
        let endless = "x".repeat(10_000);
        assert!(Head::read(endless.as_bytes()).is_err());
    }
}
