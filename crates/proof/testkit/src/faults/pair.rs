//! One connection through the proxy: the client's end, the server's end, and a lane each way.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::sockopt::set_socket_linger;

use super::lane::{Lane, Pace};
use super::wire::Wire;
use super::{Fault, Way};
use crate::Random;

/// After this silence the server's reply, and so the request, is complete.
const REPLY_ENDS: Duration = Duration::from_millis(20);

/// A client's connection to the proxy, and the proxy's connection to the server.
pub(super) struct Pair {
    client: TcpStream,
    server: TcpStream,
    to_server: Lane,
    to_client: Lane,
    /// Bytes carried since the fault was set, to the server and to the client.
    carried: (u64, u64),
    /// When to reset the connection whose reply is dropped.
    reset_at: Option<Instant>,
    is_over: bool,
}

/// What a pair waits for.
pub(super) struct Interest<'a> {
    /// At the client's end.
    pub(super) client: (&'a TcpStream, PollFlags),
    /// At the server's end.
    pub(super) server: (&'a TcpStream, PollFlags),
    /// Or until this moment.
    pub(super) moment: Option<Instant>,
}

impl Pair {
    /// A connection with this number.
    pub(super) fn new(client: TcpStream, server: TcpStream, mut random: Random) -> io::Result<Self> {
        for end in [&client, &server] {
            end.set_nonblocking(true)?;
            end.set_nodelay(true)?;
        }
        let (to_server, to_client) = (Random::new(random.bits()), Random::new(random.bits()));
        Ok(Self {
            client,
            server,
            to_server: Lane::new(to_server),
            to_client: Lane::new(to_client),
            carried: (0, 0),
            reset_at: None,
            is_over: false,
        })
    }

    /// Whether both ends are closed.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The fault has changed: bytes delayed by the earlier one pass.
    pub(super) fn fault_changed(&mut self, now: Instant) {
        self.carried = (0, 0);
        self.to_server.hurry(now);
        self.to_client.hurry(now);
    }

    /// What it waits for.
    pub(super) fn interest(&self, wire: &Wire, now: Instant) -> Interest<'_> {
        let (mut client, mut server) = (PollFlags::empty(), PollFlags::empty());
        let (pace_there, pace_back) = self.paces(wire);
        client.set(PollFlags::IN, self.to_server.reads(pace_there));
        server.set(PollFlags::IN, self.to_client.reads(pace_back));
        let moments = [self.to_server.writes_at(pace_there), self.to_client.writes_at(pace_back)];
        // Bytes that are due but unwritten wait for the receiver.
        server.set(PollFlags::OUT, moments[0].is_some_and(|at| at <= now));
        client.set(PollFlags::OUT, moments[1].is_some_and(|at| at <= now));
        let later = moments.into_iter().chain([self.reset_at]).flatten().filter(|&at| at > now);
        Interest { client: (&self.client, client), server: (&self.server, server), moment: later.min() }
    }

    /// Does what can be done now. An error at one end resets the other.
    pub(super) fn step(&mut self, wire: &mut Wire, now: Instant) {
        if self.carry(wire, now).is_err() {
            self.reset();
        }
        if self.reset_at.is_some_and(|at| at <= now) && !self.is_over {
            wire.counts.replies_lost += 1;
            self.reset();
        }
        self.is_over |= self.to_server.is_closed() && self.to_client.is_closed();
    }

    fn carry(&mut self, wire: &mut Wire, now: Instant) -> io::Result<()> {
        self.carry_there(wire, now)?;
        self.cut_if_due(wire);
        if !self.is_over {
            self.carry_back(wire, now)?;
            self.cut_if_due(wire);
        }
        Ok(())
    }

    fn carry_there(&mut self, wire: &mut Wire, now: Instant) -> io::Result<()> {
        let (pace, _) = self.paces(wire);
        if self.to_server.reads(pace) {
            self.to_server.read(&self.client, now, wire.latency())?;
        }
        let bytes = self.to_server.write(&self.server, pace, now)?;
        wire.counts.to_server += bytes;
        self.carried.0 += bytes;
        Ok(())
    }

    fn carry_back(&mut self, wire: &mut Wire, now: Instant) -> io::Result<()> {
        let (_, pace) = self.paces(wire);
        if self.to_client.reads(pace) {
            self.to_client.read(&self.server, now, wire.latency())?;
        }
        self.lose_reply(wire, now);
        let bytes = self.to_client.write(&self.client, pace, now)?;
        wire.counts.to_client += bytes;
        self.carried.1 += bytes;
        Ok(())
    }

    /// Drops the whole reply if replies are lost.
    fn lose_reply(&mut self, wire: &mut Wire, now: Instant) {
        if self.to_client.is_empty() {
            return;
        }
        if self.reset_at.is_none() && wire.loses_replies() {
            wire.lose_one();
            self.reset_at = Some(now);
        }
        if let Some(at) = &mut self.reset_at {
            *at = now + REPLY_ENDS;
            self.to_client.discard();
        }
    }

    fn cut_if_due(&mut self, wire: &mut Wire) {
        let Some(Fault::CutAfter { way, bytes }) = wire.fault.filter(|_| !self.is_over) else { return };
        let carried = if way == Way::ToServer { self.carried.0 } else { self.carried.1 };
        if carried >= bytes {
            wire.counts.cuts += 1;
            self.is_over = true;
        }
    }

    fn paces(&self, wire: &Wire) -> (Pace, Pace) {
        (wire.pace(Way::ToServer, self.carried.0), wire.pace(Way::ToClient, self.carried.1))
    }

    /// Ends it with a reset at both ends.
    pub(super) fn reset(&mut self) {
        self.is_over = true;
        reset_when_dropped(&self.client);
        reset_when_dropped(&self.server);
    }
}

/// Makes the system reset this connection when it is dropped, instead of closing it cleanly.
pub(super) fn reset_when_dropped(stream: &TcpStream) {
    let _ = set_socket_linger(stream, Some(Duration::ZERO));
}
