//! The handle of a proxy.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::relay::{Command, Relay};
use super::wire::Wire;
use super::{Counts, Fault};
use crate::Random;
use crate::servers::{free_port, until};

/// A proxy in front of a server. Its own thread ends when it is dropped.
pub struct FaultProxy {
    addr: SocketAddr,
    commands: SyncSender<Command>,
    bell: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// A proxy in front of the server at this address, without a fault.
    pub fn to(target: SocketAddr) -> Self {
        Self::with_seed(target, 0)
    }

    /// The same, with another seed for jitter.
    pub fn with_seed(target: SocketAddr, seed: u64) -> Self {
        let (addr, listener) = until(Duration::from_secs(10), listen).expect("a free port on loopback");
        let (commands, receiver) = sync_channel(16);
        let (bell, their_end) = UnixStream::pair().expect("a pair of sockets");
        their_end.set_nonblocking(true).expect("a socket that does not block");
        let relay = Relay {
            listener: Some(listener),
            addr,
            target,
            random: Random::new(seed),
            commands: receiver,
            bell: their_end,
            wire: Wire::default(),
            pairs: Vec::new(),
        };
        let thread = thread::Builder::new().name(format!("fault-{}", addr.port())).spawn(|| relay.run());
        Self { addr, commands, bell, thread: Some(thread.expect("a thread for the proxy")) }
    }

    /// The address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets the fault, in place of an earlier one. It is in force when this returns.
    pub fn set(&self, fault: Fault) {
        self.change(Some(fault));
    }

    /// Clears the fault. Delayed bytes pass.
    pub fn clear(&self) {
        self.change(None);
    }

    /// The counters so far.
    pub fn counts(&self) -> Counts {
        let (send, receive) = sync_channel(1);
        self.tell(Command::Count(send));
        receive.recv().expect("the proxy's thread lives as long as the proxy")
    }

    fn change(&self, fault: Option<Fault>) {
        let (send, receive) = sync_channel(1);
        self.tell(Command::Set(fault, send));
        receive.recv().expect("the proxy's thread lives as long as the proxy");
    }

    fn tell(&self, command: Command) {
        // If the thread has ended, the wait for its reply fails.
        let _ = self.commands.send(command);
        let _ = (&self.bell).write_all(&[1]);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.tell(Command::Stop);
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// On a port that in practice stays free while a fault closes it.
fn listen() -> Option<(SocketAddr, TcpListener)> {
    let addr = (Ipv4Addr::LOCALHOST, free_port()).into();
    let listener = TcpListener::bind(addr).ok()?;
    listener.set_nonblocking(true).ok()?;
    Some((addr, listener))
}
