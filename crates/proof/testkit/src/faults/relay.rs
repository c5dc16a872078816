//! The thread of a proxy: accepts connections, carries bytes, and runs commands.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::pair::{Pair, reset_when_dropped};
use super::wire::Wire;
use super::{Counts, Fault};
use crate::Random;
use crate::servers::until;

/// The most connections; more are reset.
const MOST_PAIRS: usize = 1_024;

/// A local server accepts a connection faster than this, or not at all.
const CONNECTS_WITHIN: Duration = Duration::from_secs(1);

/// A command for the thread, which replies when it is done.
pub(super) enum Command {
    Set(Option<Fault>, SyncSender<()>),
    Count(SyncSender<Counts>),
    Stop,
}

/// The state of the thread.
pub(super) struct Relay {
    pub(super) listener: Option<TcpListener>,
    pub(super) addr: SocketAddr,
    pub(super) target: SocketAddr,
    pub(super) random: Random,
    pub(super) commands: Receiver<Command>,
    /// Has a byte in it when there is a command.
    pub(super) bell: UnixStream,
    pub(super) wire: Wire,
    pub(super) pairs: Vec<Pair>,
}

impl Relay {
    /// Runs until a stop command.
    pub(super) fn run(mut self) {
        while self.run_commands() {
            let ready = self.wait();
            self.accept();
            let now = now();
            for (pair, _) in self.pairs.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
                pair.step(&mut self.wire, now);
            }
            self.pairs.retain(|pair| !pair.is_over());
        }
    }

    /// Runs the waiting commands. Returns false at the end.
    fn run_commands(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Set(fault, done) => {
                    self.set(fault);
                    let _ = done.send(());
                }
                Command::Count(counts) => {
                    let open = self.pairs.len() as u64;
                    let _ = counts.send(Counts { open, ..self.wire.counts });
                }
                Command::Stop => return false,
            }
        }
        true
    }

    fn set(&mut self, fault: Option<Fault>) {
        // Accepts the connections that came before the fault.
        self.accept();
        self.wire.fault = fault;
        if fault == Some(Fault::Refuse) {
            self.listener = None;
        } else if self.listener.is_none() {
            let bind = || TcpListener::bind(self.addr).ok();
            let listener = until(Duration::from_secs(10), bind).expect("the port that the proxy had");
            listener.set_nonblocking(true).expect("a listener that does not block");
            self.listener = Some(listener);
        }
        if fault == Some(Fault::Reset) {
            self.wire.counts.resets += self.pairs.len() as u64;
            self.pairs.iter_mut().for_each(Pair::reset);
            self.pairs.clear();
        }
        let now = now();
        for pair in &mut self.pairs {
            pair.fault_changed(now);
            pair.step(&mut self.wire, now);
        }
        self.pairs.retain(|pair| !pair.is_over());
    }

    /// Waits until something can be done. Returns which pairs are ready.
    fn wait(&mut self) -> Vec<bool> {
        let now = now();
        let mut fds = vec![PollFd::new(&self.bell, PollFlags::IN)];
        if let Some(listener) = self.listener.as_ref().filter(|_| self.wire.accepts()) {
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        let mut owners = vec![None; fds.len()];
        let mut moments = Vec::with_capacity(self.pairs.len());
        for (index, pair) in self.pairs.iter().enumerate() {
            let interest = pair.interest(&self.wire, now);
            moments.push(interest.moment);
            // `poll` always reports the end of a connection: a pair without interest must not be listed.
            for (end, flags) in
                [interest.client, interest.server].into_iter().filter(|(_, flags)| !flags.is_empty())
            {
                fds.push(PollFd::new(end, flags));
                owners.push(Some(index));
            }
        }
        let limit = moments.iter().flatten().min().map(|&moment| moment.saturating_duration_since(now));
        let limit = limit.map(|limit| Timespec::try_from(limit).expect("a moment that is near"));
        // An interrupted wait is a short one.
        let _ = poll(&mut fds, limit.as_ref());
        let now = self::now();
        let mut ready: Vec<bool> =
            moments.iter().map(|moment| moment.is_some_and(|moment| moment <= now)).collect();
        for (fd, owner) in fds.iter().zip(owners) {
            if let (Some(owner), false) = (owner, fd.revents().is_empty()) {
                ready[owner] = true;
            }
        }
        // The bell is silent until it is rung again; it does not block.
        let _ = self.bell.read(&mut [0; 64]);
        ready
    }

    /// Accepts all waiting connections.
    fn accept(&mut self) {
        if !self.wire.accepts() {
            return;
        }
        while let Some(Ok((client, _))) = self.listener.as_ref().map(TcpListener::accept) {
            self.wire.counts.connections += 1;
            if self.wire.fault == Some(Fault::Reset) {
                self.wire.counts.resets += 1;
                reset_when_dropped(&client);
                continue;
            }
            match self.connect(&client) {
                Some(pair) => self.pairs.push(pair),
                None => {
                    self.wire.counts.not_connected += 1;
                    reset_when_dropped(&client);
                }
            }
        }
    }

    fn connect(&mut self, client: &TcpStream) -> Option<Pair> {
        if self.pairs.len() >= MOST_PAIRS {
            return None;
        }
        let server = TcpStream::connect_timeout(&self.target, CONNECTS_WITHIN).ok()?;
        let random = Random::new(self.random.bits());
        Pair::new(client.try_clone().ok()?, server, random).ok()
    }
}

/// Delays are in real time.
#[allow(clippy::disallowed_methods, reason = "the bytes of other processes are late in real time")]
fn now() -> Instant {
    Instant::now()
}
