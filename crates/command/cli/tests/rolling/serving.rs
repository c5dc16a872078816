//! `tollway serve` of a version, and takes over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::version::{Home, Running, Version};

/// How long an answer may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

pub(crate) struct Serving {
    process: Running,
    address: String,
}

impl Serving {
    /// Starts one on a free port. None if it refused to start: what it said.
    pub(crate) fn start(home: &Home, version: Version) -> Result<Self, String> {
        let arguments = ["serve", "--json", "--listen", "127.0.0.1:0"];
        let mut process = home.start(version, &arguments, &format!("serve-{version:?}"));
        let mut line = String::new();
        BufReader::new(process.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        match serde_json::from_str::<Value>(&line) {
            Ok(said) if said["listen"].is_string() => {
                Ok(Self { process, address: said["listen"].as_str().unwrap().to_owned() })
            }
            _ => Err(format!("{line}{}", process.log())),
        }
    }

    pub(crate) fn kill(mut self) {
        self.process.kill();
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

/// The outcome of a request.
pub(crate) enum Answer {
    /// The status and the body.
    Said(u16, Value),
    /// The server ended meanwhile, and what it decided is not known.
    Lost,
    /// No server listens.
    NotSent,
}

pub(crate) fn post(address: &str, path: &str, body: &str) -> Answer {
    let Ok(stream) = TcpStream::connect(address) else { return Answer::NotSent };
    match ask(stream, path, body) {
        Some((status, body)) => Answer::Said(status, body),
        None => Answer::Lost,
    }
}

fn ask(mut stream: TcpStream, path: &str, body: &str) -> Option<(u16, Value)> {
    stream.set_read_timeout(Some(ANSWERS_WITHIN)).ok()?;
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: tollway\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}
