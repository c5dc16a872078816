//! A small HTTP/1 client: it writes any bytes, also invalid ones, and reads one response at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use crate::running::LONG;

pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// One connection.
pub(crate) struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

/// One response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body, which must be JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Client {
    pub(crate) fn tcp(address: SocketAddr) -> Self {
        Self::over_tcp(TcpStream::connect(address).unwrap())
    }

    pub(crate) fn over_tcp(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Self::over(stream)
    }

    pub(crate) fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self::over(stream)
    }

    pub(crate) fn over(stream: impl Stream + 'static) -> Self {
        Self { stream: BufReader::new(Box::new(stream)) }
    }

    /// Sends these bytes, and no more.
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes.as_ref())?;
        self.stream.get_mut().flush()
    }

    /// Sends a request and reads the response. Every header ends with CRLF.
    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n{headers}\r\n");
        self.write(head + body).unwrap();
        self.answer().unwrap()
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, "", body)
    }

    pub(crate) fn get(&mut self, path: &str, headers: &str) -> Answer {
        self.ask("GET", path, headers, "")
    }

    /// One take, in JSON.
    pub(crate) fn take(&mut self, question: &str) -> Answer {
        self.post("/v1/take", question)
    }

    /// The next response.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not an answer: {status_line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(0, |(_, length)| length.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Answer { status, headers, body: String::from_utf8(body).unwrap() })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// Whether the server has closed the connection. Nothing may be on its way.
    pub(crate) fn is_closed(&mut self) -> bool {
        let request = "GET /health HTTP/1.1\r\nhost: test\r\n\r\n";
        self.write(request).is_err() || self.answer().is_err()
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
