//! A worker: one thread with its own runtime, which serves its connections from their first byte to their last.
//!
//! A decision writes to nothing that workers share except the limiter. By default there is one worker per core, and a
//! connection never moves to another. Administration has its own worker.

mod administration_slots;
mod connection_deadlines;
mod workers;
pub(crate) mod yield_before_park;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tollway_inbound::address::Peer;

pub(crate) use connection_deadlines::{Busy, ConnectionDeadlines};
pub(crate) use workers::{Load, Workers};

use crate::bounds::LOOK_INTERVAL;
use crate::charge_budget::ChargeBudget;
use crate::connection::{self, Arrival};
use crate::counts::count;
use crate::grpc::Grpc;
use crate::handler::{AdminHandler, HttpHandler};
use crate::http::Http;
use crate::known_policies::KnownPolicies;
use crate::listener::ListenerKind;
use crate::resp::Resp;
use crate::server::ServerState;
use connection_deadlines::CoarseClock;

/// The state of one worker.
pub(crate) struct Worker {
    pub(crate) state: Arc<ServerState>,
    pub(crate) policies: KnownPolicies,
    pub(crate) http: Http,
    /// Of a gateway's worker.
    pub(crate) handler: Option<Rc<dyn HttpHandler>>,
    /// Of the administration's worker.
    pub(crate) admin_handler: Option<Rc<dyn AdminHandler>>,
    pub(crate) grpc: Grpc,
    pub(crate) resp: Resp,
    /// Charges in flight to the store.
    pub(crate) charges: Rc<ChargeBudget>,
    /// Bytes of incomplete bodies.
    pub(crate) unread: Rc<Cell<usize>>,
    clock: Rc<CoarseClock>,
    /// Bounded by the server's connection limits.
    connections: RefCell<HashMap<u64, Watched>>,
    next: Cell<u64>,
    stopping: Cell<bool>,
    emptied: Notify,
}

/// A connection, as its worker knows it.
struct Watched {
    listener: ListenerKind,
    peer: Peer,
    deadlines: Rc<ConnectionDeadlines>,
}

/// A connection's entry with its worker, for as long as it lasts.
pub(crate) struct Watch {
    worker: Rc<Worker>,
    number: u64,
    pub(crate) deadlines: Rc<ConnectionDeadlines>,
    /// Whether it has only a slot for health checks.
    pub(crate) health_only: bool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut connections = self.worker.connections.borrow_mut();
        connections.remove(&self.number);
        if connections.is_empty() {
            self.worker.emptied.notify_one();
        }
    }
}

impl Worker {
    fn new(state: Arc<ServerState>, workers: usize) -> Self {
        Self {
            handler: state.make_handler.as_ref().map(|make| make()),
            admin_handler: state.make_admin_handler.as_ref().map(|make| make()),
            state,
            policies: KnownPolicies::default(),
            http: Http::new(),
            grpc: Grpc::default(),
            resp: Resp::new(),
            charges: Rc::new(ChargeBudget::of_one(workers)),
            unread: Rc::default(),
            clock: Rc::default(),
            connections: RefCell::default(),
            next: Cell::new(0),
            stopping: Cell::new(false),
            emptied: Notify::new(),
        }
    }

    /// Whether connections should close after their requests in flight.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// The time since the worker started, as of its last check.
    pub(crate) fn time(&self) -> Duration {
        self.clock.get()
    }

    /// Registers a connection to this listener.
    pub(crate) fn watch(self: &Rc<Self>, kind: ListenerKind, peer: Peer) -> Watch {
        let health_only = kind.is_administration() && !self.make_room(peer);
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        let deadlines =
            Rc::new(ConnectionDeadlines::new(Rc::clone(&self.clock), self.state.timeouts.at(kind)));
        let watched = Watched { listener: kind, peer, deadlines: Rc::clone(&deadlines) };
        self.connections.borrow_mut().insert(number, watched);
        Watch { worker: Rc::clone(self), number, deadlines, health_only }
    }

    fn wake_all(&self) {
        self.connections.borrow().values().for_each(|known| known.deadlines.wake());
    }

    /// Cuts off connections that are overdue.
    fn look_at_all(&self) {
        for Watched { listener, deadlines, .. } in self.connections.borrow().values() {
            if deadlines.look() {
                count(&self.state.counts.at(*listener).cut_off);
            }
        }
    }
}

/// Serves connections until the acceptors are gone; then lets running requests finish within `grace`.
async fn run(state: Arc<ServerState>, workers: usize, mut inbox: mpsc::Receiver<Arrival>, grace: Duration) {
    let worker = Rc::new(Worker::new(state, workers));
    let looking = tokio::task::spawn_local(look_after(Rc::clone(&worker)));
    while let Some(arrival) = inbox.recv().await {
        tokio::task::spawn_local(connection::serve(Rc::clone(&worker), arrival));
    }
    worker.stopping.set(true);
    worker.wake_all();
    let all_gone = async {
        while !worker.connections.borrow().is_empty() {
            worker.emptied.notified().await;
        }
    };
    if timeout(grace, all_gone).await.is_err() {
        let left = worker.connections.borrow().len();
        tracing::warn!(connections = left, "requests took longer than the grace period and were cut off");
    }
    looking.abort();
}

/// Enforces the deadlines of all connections.
async fn look_after(worker: Rc<Worker>) {
    let begun = Instant::now();
    let mut ticks = interval(LOOK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let now = ticks.tick().await;
        worker.clock.set(now.duration_since(begun));
        worker.look_at_all();
    }
}
