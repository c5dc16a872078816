//! Commands of the Redis protocol on a schedule: each goes out at its time, also if earlier ones have no response yet.
//!
//! No common load generator does this for RESP. It runs in this process, on a core of its own, and never sleeps: a timer would
//! be late by more than a server takes.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::{OpenLoad, Timed};
use crate::stopwatch::Lap;

/// A server that does not answer for so long ends the run.
const TIMEOUT: Duration = Duration::from_secs(5);

const READ_BYTES: usize = 4_096;

/// The placeholder for a key.
pub(in crate::server) const KEY: &str = "KEY";

pub(in crate::server) struct Schedule {
    port: u16,
    words: String,
    keys: u32,
    connections: usize,
    per_second: u64,
}

/// A connection with the times at which its commands were due.
struct Client {
    stream: TcpStream,
    due: VecDeque<Duration>,
    unread: Vec<u8>,
}

impl Schedule {
    /// `command` has [`KEY`] where the key belongs.
    pub(in crate::server) fn new(
        port: u16,
        command: &str,
        keys: u32,
        connections: usize,
        per_second: u64,
    ) -> Self {
        Self { port, words: command.to_owned(), keys, connections, per_second }
    }

    fn connect(&self) -> Result<Client> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Client { stream, due: VecDeque::new(), unread: Vec::new() })
    }

    /// A command in the protocol of Redis, for a key that differs from request to request.
    fn command(&self, number: u64) -> Vec<u8> {
        // An odd factor visits the keys in a shuffled order.
        let key = number.wrapping_mul(2_654_435_761) % u64::from(self.keys);
        let words = self.words.replace(KEY, &format!("user:{key:08}"));
        let words: Vec<&str> = words.split(' ').collect();
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        bytes.into_bytes()
    }
}

impl OpenLoad for Schedule {
    fn run(&self, lasts: Duration) -> Result<Timed> {
        let mut clients = (0..self.connections).map(|_| self.connect()).collect::<Result<Vec<_>>>()?;
        let total = (lasts.as_secs_f64() * self.per_second as f64) as u64;
        let commands: Vec<Vec<u8>> = (0..total).map(|number| self.command(number)).collect();
        let due_at = |number: u64| Duration::from_secs_f64(number as f64 / self.per_second as f64);
        let (mut sent, mut micros) = (0, Vec::with_capacity(commands.len()));
        let lap = Lap::start();
        while micros.len() < commands.len() {
            let now = lap.time();
            ensure!(
                now < lasts + TIMEOUT,
                "{} of {total} commands have no response",
                commands.len() - micros.len()
            );
            while sent < total && due_at(sent) <= now {
                let client = &mut clients[sent as usize % self.connections];
                // A command is smaller than a socket's buffer, which is never full at these rates.
                client.stream.write_all(&commands[sent as usize])?;
                client.due.push_back(due_at(sent));
                sent += 1;
            }
            for client in clients.iter_mut().filter(|client| !client.due.is_empty()) {
                client.read(&lap, &mut micros)?;
            }
        }
        Ok(Timed::new(micros))
    }
}

impl Client {
    /// Reads the responses that are here.
    fn read(&mut self, lap: &Lap, micros: &mut Vec<u64>) -> Result<()> {
        let mut buffer = [0; READ_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(bytes) => self.unread.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let now = lap.time();
        while let Some(bytes) = response(&self.unread)? {
            self.unread.drain(..bytes);
            if let Some(due) = self.due.pop_front() {
                micros.push(u64::try_from(now.saturating_sub(due).as_micros())?);
            }
        }
        Ok(())
    }
}

/// The length of the first response, if it is complete: a number, or an array of numbers.
fn response(bytes: &[u8]) -> Result<Option<usize>> {
    let line = |from: usize| {
        let rest = bytes.get(from..)?;
        rest.windows(2).position(|pair| pair == b"\r\n").map(|end| from + end + 2)
    };
    let Some(head) = line(0) else { return Ok(None) };
    match bytes[0] {
        b':' => Ok(Some(head)),
        b'*' => {
            let count: usize = std::str::from_utf8(&bytes[1..head - 2])?.parse()?;
            Ok((0..count).try_fold(head, |from, _| line(from)))
        }
        _ => bail!("the server said {:?}", String::from_utf8_lossy(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_told_apart() {
        assert_eq!(response(b":12\r\n:13\r\n").unwrap(), Some(5));
        assert_eq!(response(b"*2\r\n:0\r\n:10\r\nrest").unwrap(), Some(13));
        assert_eq!(response(b"*2\r\n:0\r\n:1").unwrap(), None);
        assert_eq!(response(b"*2").unwrap(), None);
        assert!(response(b"-ERR no\r\n").is_err());
    }
}
