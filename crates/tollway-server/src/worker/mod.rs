//! A worker: one thread with a runtime of its own, which serves its connections from their first byte to their last.
//!
//! Workers share the limiter and nothing that a decision writes to besides. There are as many as cores, and each
//! connection stays where it was handed to, so no request pays for being moved. Administration has one of its own.

mod crew;
mod pulse;
mod rest;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

pub(crate) use crew::{Crew, Load};
pub(crate) use pulse::Pulse;
pub(crate) use rest::Rest;

use crate::bounds::LOOK_INTERVAL;
use crate::connection::{self, Arrival};
use crate::counts::count;
use crate::grpc::Grpc;
use crate::http::Http;
use crate::known_policies::KnownPolicies;
use crate::listener::Door;
use crate::resp::Resp;
use crate::server::Shared;
use pulse::CoarseClock;

/// What a worker has at hand.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) policies: KnownPolicies,
    pub(crate) http: Http,
    pub(crate) grpc: Grpc,
    pub(crate) resp: Resp,
    /// Bytes of bodies that are not whole yet.
    pub(crate) unread: Rc<Cell<usize>>,
    clock: Rc<CoarseClock>,
    /// No more than the server has places for.
    pulses: RefCell<HashMap<u64, (Door, Rc<Pulse>)>>,
    next: Cell<u64>,
    stopping: Cell<bool>,
    emptied: Notify,
}

/// A connection's entry with its worker, for as long as it lasts.
pub(crate) struct Watch {
    worker: Rc<Worker>,
    number: u64,
    pub(crate) pulse: Rc<Pulse>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut pulses = self.worker.pulses.borrow_mut();
        pulses.remove(&self.number);
        if pulses.is_empty() {
            self.worker.emptied.notify_one();
        }
    }
}

impl Worker {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            policies: KnownPolicies::default(),
            http: Http::new(),
            grpc: Grpc::default(),
            resp: Resp::new(),
            unread: Rc::default(),
            clock: Rc::default(),
            pulses: RefCell::default(),
            next: Cell::new(0),
            stopping: Cell::new(false),
            emptied: Notify::new(),
        }
    }

    /// Whether connections are to end when their requests are answered.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Begins to watch a connection that came through this door.
    pub(crate) fn watch(self: &Rc<Self>, door: Door) -> Watch {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        let pulse = Rc::new(Pulse::new(Rc::clone(&self.clock), self.shared.patience.at(door)));
        self.pulses.borrow_mut().insert(number, (door, Rc::clone(&pulse)));
        Watch { worker: Rc::clone(self), number, pulse }
    }

    fn wake_all(&self) {
        self.pulses.borrow().values().for_each(|(_, pulse)| pulse.wake());
    }

    /// Cuts off whoever is overdue, and counts who has asked since the last look.
    fn look_at_all(&self) {
        let mut asking = 0_u32;
        for (door, pulse) in self.pulses.borrow().values() {
            asking = asking.saturating_add(u32::from(pulse.has_asked()));
            if pulse.look() {
                count(&self.shared.counts.at(*door).cut_off);
            }
        }
        Rest::expect(asking);
    }
}

/// Serves what comes in until nobody is left who could send more; then lets those who are served finish, within `grace`.
async fn run(shared: Arc<Shared>, mut inbox: mpsc::Receiver<Arrival>, grace: Duration) {
    let worker = Rc::new(Worker::new(shared));
    let looking = tokio::task::spawn_local(look_after(Rc::clone(&worker)));
    while let Some(arrival) = inbox.recv().await {
        tokio::task::spawn_local(connection::serve(Rc::clone(&worker), arrival));
    }
    worker.stopping.set(true);
    worker.wake_all();
    let all_gone = async {
        while !worker.pulses.borrow().is_empty() {
            worker.emptied.notified().await;
        }
    };
    if timeout(grace, all_gone).await.is_err() {
        let left = worker.pulses.borrow().len();
        tracing::warn!(connections = left, "requests were cut off: they took longer than the grace period");
    }
    looking.abort();
}

/// Sees to it that no client is waited for too long.
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
