//! The part of Redis's protocol that tests need to inspect a server.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Sends one command on its own connection. Returns what `redis-cli` prints: an array has a line for each element, nil is
/// empty, an error is its text. Fails after `timeout` of silence.
pub(super) fn ask(
    port: u16,
    password: Option<&str>,
    words: &[&str],
    timeout: Duration,
) -> io::Result<String> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(timeout))?;
    let mut stream = BufReader::new(stream);
    if let Some(password) = password {
        send(stream.get_mut(), &["AUTH", password])?;
        receive(&mut stream)?;
    }
    send(stream.get_mut(), words)?;
    receive(&mut stream)
}

fn send(stream: &mut TcpStream, words: &[&str]) -> io::Result<()> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    stream.write_all(bytes.as_bytes())
}

fn receive(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let Some(line) = line.strip_suffix("\r\n").filter(|line| !line.is_empty()) else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    let (kind, rest) = line.split_at(1);
    let length = || rest.parse::<i64>().map_err(io::Error::other);
    match kind {
        "+" | "-" | ":" => Ok(rest.to_owned()),
        "$" if length()? < 0 => Ok(String::new()),
        "$" => {
            let mut bytes = vec![0; length()? as usize + 2];
            stream.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - 2);
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        "*" => {
            let elements: io::Result<Vec<String>> = (0..length()?).map(|_| receive(stream)).collect();
            Ok(elements?.join("\n"))
        }
        _ => Err(io::Error::other(format!("not an answer of Redis: {line}"))),
    }
}
