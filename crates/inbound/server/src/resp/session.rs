//! The state of one connection.

use std::rc::Rc;
use std::sync::atomic::{AtomicI64, Ordering};

use tollway_inbound::address::{Network, Peer};

use super::reply::Protocol;
use crate::ListenerKind;
use crate::admin::Right;
use crate::charge_budget::{ChargesInFlight, ConnectionCharges};
use crate::connection::Caller;
use crate::new_subjects::network_of;
use crate::worker::Worker;

/// A client's session.
pub(super) struct Session {
    id: i64,
    protocol: Protocol,
    /// Whether it has sent the token.
    authenticated: bool,
    /// Whether no token is needed.
    open: bool,
    ended: bool,
    peer: Peer,
    /// Whether it has just sent a wrong token.
    guessed: bool,
    charges: ConnectionCharges,
}

impl Session {
    pub(super) fn of(caller: &Caller) -> Self {
        static LAST: AtomicI64 = AtomicI64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let (peer, charges) = (caller.peer, Rc::clone(&caller.charges));
        Self {
            id,
            protocol: Protocol::default(),
            authenticated: false,
            open: false,
            ended: false,
            peer,
            guessed: false,
            charges,
        }
    }

    /// Room for one more charge in flight to the store.
    pub(super) fn admit(&self, worker: &Worker) -> Option<ChargesInFlight> {
        let in_flight = worker.charges.admit(&self.charges, 1);
        if in_flight.is_none() {
            worker.state.counts.charge_denied(&worker.state.limiter);
        }
        in_flight
    }

    /// The client's network, if its new subjects are bounded.
    pub(super) fn network(&self, worker: &Worker) -> Option<Network> {
        let is_bounded = worker.state.new_subjects.is_bounded();
        is_bounded.then(|| network_of(&worker.state.rules().address, self.peer, [] as [&[u8]; 0])).flatten()
    }

    /// A number that no other client of this process has.
    pub(super) fn id(&self) -> i64 {
        self.id
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Switches the protocol; `None` keeps it.
    pub(super) fn speak(&mut self, protocol: Option<Protocol>) {
        self.protocol = protocol.unwrap_or(self.protocol);
    }

    /// Applies what a reload may have changed.
    pub(super) fn follow(&mut self, worker: &Worker) {
        self.open = !worker.state.rules().tokens.guard(Right::Resp);
    }

    /// Whether no token is needed.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether it has sent the token, or none is needed.
    #[inline]
    pub(super) fn may_ask(&self) -> bool {
        self.authenticated || self.open
    }

    /// Checks a token. If none is needed, any is right, as in Redis. A wrong one does not end an authenticated session.
    pub(super) fn show_token(&mut self, worker: &Worker, user: &[u8], token: &[u8]) -> bool {
        let known = || worker.state.rules().tokens.find(token, Right::Resp).is_ok();
        let right = user == b"default" && (self.open || known());
        if !right && !self.open {
            self.guessed = true;
            worker.state.note_wrong_token(self.peer, ListenerKind::Resp);
        }
        self.authenticated |= right && !self.open;
        right
    }

    /// Whether it has sent a wrong token whose answer is not delayed yet.
    pub(super) fn has_guessed(&self) -> bool {
        self.guessed
    }

    /// The same; once for each.
    pub(super) fn take_guess(&mut self) -> bool {
        std::mem::take(&mut self.guessed)
    }

    /// Resets the state to that of a new connection.
    pub(super) fn reset(&mut self) {
        (self.protocol, self.authenticated) = (Protocol::default(), false);
    }

    /// Closes the connection after the replies so far.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }
}
