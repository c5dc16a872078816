//! A small Redis client: it sends any bytes, also invalid ones, and reads one reply at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use tollway_server::ListenerKind;

use crate::running::{LONG, Running};

/// One connection.
pub(crate) struct RedisClient {
    stream: BufReader<TcpStream>,
}

impl RedisClient {
    pub(crate) fn of(server: &Running) -> Self {
        Self::at(server.tcp(ListenerKind::Resp))
    }

    pub(crate) fn at(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    pub(crate) fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Sends these bytes, and no more.
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes.as_ref())
    }

    /// Sends a command and reads the reply.
    pub(crate) fn ask(&mut self, words: &[&str]) -> String {
        self.write(request(words)).unwrap();
        self.reply()
    }

    /// The next reply, as it came.
    pub(crate) fn reply(&mut self) -> String {
        let mut reply = Vec::new();
        self.read_reply(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    }

    fn read_reply(&mut self, reply: &mut Vec<u8>) {
        let begin = reply.len();
        assert!(self.stream.read_until(b'\n', reply).unwrap() > 0, "closed after {reply:?}");
        let line = String::from_utf8_lossy(&reply[begin..]).into_owned();
        let number = || line[1..].trim_end().parse::<usize>();
        match line.as_bytes()[0] {
            b'+' | b'-' | b':' | b'_' => {}
            b'$' | b'=' => {
                let Ok(length) = number() else { return };
                let begin = reply.len();
                reply.resize(begin + length + 2, 0);
                self.stream.read_exact(&mut reply[begin..]).unwrap();
            }
            b'*' => (0..number().unwrap()).for_each(|_| self.read_reply(reply)),
            b'%' => (0..2 * number().unwrap()).for_each(|_| self.read_reply(reply)),
            _ => panic!("not a reply: {line:?}"),
        }
    }

    /// The five numbers of `CL.THROTTLE`.
    pub(crate) fn throttle(&mut self, words: &[&str]) -> [i64; 5] {
        let words: Vec<&str> = ["CL.THROTTLE"].iter().chain(words).copied().collect();
        numbers(&self.ask(&words))
    }

    /// A second handle for writing while this one reads.
    pub(crate) fn writer(&self) -> TcpStream {
        self.stream.get_ref().try_clone().unwrap()
    }

    /// Closes the connection for writing.
    pub(crate) fn end(&mut self) {
        // Fails if the server has closed it already.
        let _ = self.stream.get_ref().shutdown(Shutdown::Write);
    }

    /// Waits until the server closes the connection, and returns what it sent until then.
    pub(crate) fn closed(&mut self) -> String {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("it was not closed: {error}"),
        }
        String::from_utf8_lossy(&rest).into_owned()
    }
}

/// The five numbers of a reply to `CL.THROTTLE`.
pub(crate) fn numbers(reply: &str) -> [i64; 5] {
    let numbers = reply.strip_prefix("*5\r\n").unwrap_or_else(|| panic!("{reply:?}"));
    let numbers = numbers.lines().map(|line| line.strip_prefix(':').unwrap().parse().unwrap());
    numbers.collect::<Vec<i64>>().try_into().unwrap()
}

/// A command as an array of bulk strings.
pub(crate) fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    bytes.into_bytes()
}
