//! HTTP/2 frame by frame, for hostile clients.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::running::LONG;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// `GET /` and `POST /` over http, by the static table of HPACK.
pub(crate) const GET: &[u8] = &[0x82, 0x86, 0x84];
pub(crate) const POST: &[u8] = &[0x83, 0x86, 0x84];

/// A connection that speaks HTTP/2 frame by frame.
pub(crate) struct Raw(TcpStream);

impl Raw {
    /// Sends the preface and the settings.
    pub(crate) fn over(mut stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(LONG))?;
        stream.set_write_timeout(Some(LONG))?;
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
        let mut raw = Self(stream);
        raw.frames(&[frame(SETTINGS, 0, 0, &[])])?;
        Ok(raw)
    }

    /// Waits until the server has handled all frames so far: it handles them in order.
    #[allow(dead_code, reason = "not every test waits")]
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        self.frames(&[frame(PING, 0, 0, &[0; 8])])?;
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head)?;
            let [a, b, c, kind, flags, ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            self.0.read_exact(&mut payload)?;
            match (kind, flags & ACK) {
                (PING, ACK) => return Ok(()),
                (PING, _) => self.frames(&[frame(PING, ACK, 0, &payload)])?,
                _ => {}
            }
        }
    }

    pub(crate) fn frames(&mut self, frames: &[Vec<u8>]) -> io::Result<()> {
        self.0.write_all(&frames.concat())
    }

    /// Sends the frames of each round until the server closes the connection. Reads meanwhile, so that it is not cut off
    /// for not reading.
    pub(crate) fn flood(mut self, mut round: impl FnMut(u32) -> Vec<Vec<u8>>) {
        let mut reading = self.0.try_clone().unwrap();
        let reader = std::thread::spawn(move || {
            let mut sink = [0; 65_536];
            while reading.read(&mut sink).is_ok_and(|read| read > 0) {}
        });
        for number in 0.. {
            if self.frames(&round(number)).is_err() || reader.is_finished() {
                break;
            }
        }
        reader.join().unwrap();
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The id of the n-th stream of a client.
pub(crate) fn stream(number: u32) -> u32 {
    number * 2 + 1
}
