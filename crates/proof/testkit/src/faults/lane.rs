//! One direction of one connection: bytes that were read and not yet written.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::Random;

/// The most bytes buffered; then reading stops, and the sender gets backpressure.
const FULL: usize = 256 * 1024;

/// Slow bytes go in portions of this many milliseconds.
const PORTION: u64 = 10;

/// How bytes move.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// Without delay.
    Free,
    /// Not at all.
    Held,
    /// This many bytes a second.
    Slow(u64),
    /// This many more bytes.
    Upto(u64),
}

/// Bytes in flight.
pub(super) struct Lane {
    /// The buffered pieces, and when each may be written.
    waiting: VecDeque<(Instant, Vec<u8>)>,
    /// The number of buffered bytes.
    bytes: usize,
    /// The next slow portion may go from here on.
    portion_at: Option<Instant>,
    /// The sender has closed its side.
    ended: bool,
    /// The receiver's side has been closed.
    closed: bool,
    /// Decides jitter: deterministic for each piece of a connection.
    random: Random,
}

impl Lane {
    pub(super) fn new(random: Random) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, portion_at: None, ended: false, closed: false, random }
    }

    /// Whether there is room for more.
    pub(super) fn reads(&self, pace: Pace) -> bool {
        !matches!(pace, Pace::Held) && !self.ended && self.bytes < FULL
    }

    /// When there will be something to write.
    pub(super) fn writes_at(&self, pace: Pace) -> Option<Instant> {
        let due = self.waiting.front()?.0;
        match pace {
            Pace::Held => None,
            Pace::Slow(_) => Some(self.portion_at.map_or(due, |portion| portion.max(due))),
            Pace::Free | Pace::Upto(_) => Some(due),
        }
    }

    /// Whether bytes wait in it.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the sender has closed and everything was written.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Lets the buffered bytes pass at once.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.portion_at = None;
        for (due, _) in &mut self.waiting {
            *due = now.min(*due);
        }
    }

    /// Reads what is available. It is written later, in order.
    pub(super) fn read(
        &mut self,
        mut from: &TcpStream,
        now: Instant,
        (fixed, jitter): (Duration, Duration),
    ) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        let Some(length) = if_ready(from.read(&mut buffer))? else { return Ok(()) };
        if length == 0 {
            self.ended = true;
            return Ok(());
        }
        let late = fixed + Duration::from_nanos(self.random.between(0, jitter.as_nanos() as u64));
        let due = self.waiting.back().map_or(now, |(last, _)| *last).max(now + late);
        self.waiting.push_back((due, buffer[..length].to_vec()));
        self.bytes += length;
        Ok(())
    }

    /// Writes what may go now; returns how many bytes.
    pub(super) fn write(&mut self, to: &TcpStream, pace: Pace, now: Instant) -> io::Result<u64> {
        let mut written = 0;
        while self.writes_at(pace).is_some_and(|at| at <= now) {
            let most = match pace {
                Pace::Slow(rate) => rate.saturating_mul(PORTION) / 1_000,
                Pace::Upto(limit) if limit == written => break,
                Pace::Upto(limit) => limit - written,
                Pace::Free | Pace::Held => u64::MAX,
            };
            let Some(length) = self.write_some(to, most.max(1))? else { break };
            written += length;
            if let Pace::Slow(rate) = pace {
                self.portion_at = Some(now + Duration::from_secs_f64(length as f64 / rate as f64));
            }
        }
        if self.ended && self.waiting.is_empty() && !self.closed {
            self.closed = true;
            let _ = to.shutdown(Shutdown::Write);
        }
        Ok(written)
    }

    /// Writes at most `most` bytes of the first piece. `None` if the receiver is not ready.
    fn write_some(&mut self, mut to: &TcpStream, most: u64) -> io::Result<Option<u64>> {
        let Some((_, piece)) = self.waiting.front_mut() else { return Ok(None) };
        let some = piece.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        let Some(length) = if_ready(to.write(&piece[..some]))? else { return Ok(None) };
        piece.drain(..length);
        if piece.is_empty() {
            self.waiting.pop_front();
        }
        self.bytes -= length;
        Ok(Some(length as u64))
    }

    /// Drops the buffered bytes.
    pub(super) fn discard(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }
}

/// `None` if the other side is not ready.
fn if_ready(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(length) => Ok(Some(length)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// The delay of each of ten pieces that arrive at the same moment, on a lane with this seed.
    fn lateness(seed: u64) -> Vec<Duration> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let mut lane = Lane::new(Random::new(seed));
        #[allow(clippy::disallowed_methods, reason = "any moment will do")]
        let now = Instant::now();
        for _ in 0..10 {
            sender.write_all(b"piece").unwrap();
            lane.read(&receiver, now, (Duration::from_millis(5), Duration::from_millis(20))).unwrap();
        }
        lane.waiting.iter().map(|(due, _)| *due - now).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_delays() {
        assert_eq!(lateness(3), lateness(3));
        assert_ne!(lateness(3), lateness(4));
    }

    #[test]
    fn delayed_pieces_keep_their_order_and_bounds() {
        let lateness = lateness(3);
        assert!(lateness.is_sorted() && lateness[0] < lateness[9]);
        assert!(lateness[0] >= Duration::from_millis(5) && lateness[9] <= Duration::from_millis(25));
    }
}
