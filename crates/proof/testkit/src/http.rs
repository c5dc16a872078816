//! The little HTTP that tests need: messages with a content length.

use std::io::{self, BufRead, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Listens on a free port and serves each connection on a thread of its own, until the process ends. Where it listens.
pub(crate) fn serve_each(
    serve: impl Fn(&TcpStream) -> io::Result<()> + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let addr = listener.local_addr().expect("it listens");
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            // A client may disconnect in the middle of a request.
            thread::spawn(move || drop(serve(&client)));
        }
    });
    addr
}

/// One request or reply.
pub(crate) struct Message {
    /// Everything before the body, with the empty line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Message {
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if from.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let mut message = Self { head, body: Vec::new() };
        let length = message.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        message.body.resize(length, 0);
        from.read_exact(&mut message.body)?;
        Ok(message)
    }

    pub(crate) fn write(&self, mut to: &TcpStream) -> io::Result<()> {
        to.write_all(&[self.head.as_bytes(), &self.body].concat())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named =
            |line: &'_ str| line.split_once(':').is_some_and(|(known, _)| known.eq_ignore_ascii_case(name));
        let line = self.head.lines().find(|line| named(line))?;
        line.split_once(':').map(|(_, value)| value.trim())
    }
}
