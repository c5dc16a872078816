//! A web server with one page.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, OnceLock};

/// A page at `/` of a free port, served until the process ends.
pub(crate) struct Page {
    port: u16,
    text: Arc<OnceLock<String>>,
}

impl Page {
    pub(crate) fn serve(text: String) -> Self {
        let page = Self::later();
        page.show(text);
        page
    }

    /// A server whose page is set before it is first opened.
    pub(crate) fn later() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let text = Arc::new(OnceLock::new());
        let page = Self { port, text: Arc::clone(&text) };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let head =
                    BufReader::new(&stream).lines().take_while(|line| !line.as_ref().unwrap().is_empty());
                let _requested: Vec<_> = head.collect();
                let body: &str = text.wait();
                let length = body.len();
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/html";
                let _ = write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{body}");
            }
        });
        page
    }

    pub(crate) fn show(&self, text: String) {
        self.text.set(text).unwrap();
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}
