//! What bodies that are not whole yet may occupy: those of one connection, and those of all connections of a worker.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;

use super::problem::Problem;
use crate::bounds::{BODIES_BYTES_PER_CONNECTION_MAX, BODIES_BYTES_PER_WORKER_MAX, BODY_BYTES_MAX};

/// The room of one connection. A client of HTTP/2 can begin hundreds of bodies and end none of them.
#[derive(Debug, Default)]
pub(crate) struct BodyRoom {
    held: Cell<usize>,
    of_worker: Rc<Cell<usize>>,
}

/// A body as far as it has come. What it occupies is given back with it.
pub(super) struct Held<'r> {
    room: &'r BodyRoom,
    bytes: Vec<u8>,
}

impl BodyRoom {
    /// The room of a connection, beside all others of its worker.
    pub(crate) fn beside(of_worker: &Rc<Cell<usize>>) -> Self {
        Self { held: Cell::new(0), of_worker: Rc::clone(of_worker) }
    }

    fn take(&self, bytes: usize) -> bool {
        let (held, of_worker) =
            (self.held.get().saturating_add(bytes), self.of_worker.get().saturating_add(bytes));
        let fits = held <= BODIES_BYTES_PER_CONNECTION_MAX && of_worker <= BODIES_BYTES_PER_WORKER_MAX;
        if fits {
            self.held.set(held);
            self.of_worker.set(of_worker);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_sub(bytes));
        self.of_worker.set(self.of_worker.get().saturating_sub(bytes));
    }
}

impl<'r> Held<'r> {
    pub(super) fn new(room: &'r BodyRoom) -> Self {
        Self { room, bytes: Vec::new() }
    }

    /// Copies what came: to keep the pieces would cost more than their bytes, if they are small.
    pub(super) fn push(&mut self, more: &[u8]) -> Result<(), Problem> {
        if self.bytes.len().saturating_add(more.len()) > BODY_BYTES_MAX {
            return Err(Problem::body_too_large());
        }
        if !self.room.take(more.len()) {
            return Err(Problem::too_many_bodies());
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }

    /// It is whole.
    pub(super) fn into_bytes(mut self) -> Bytes {
        self.room.give_back(self.bytes.len());
        Bytes::from(std::mem::take(&mut self.bytes))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.room.give_back(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = BODY_BYTES_MAX;

    /// How many whole bodies' bytes find room, one after the other, none of them ended.
    fn begun<'r>(room: &'r BodyRoom) -> Vec<Held<'r>> {
        let begin = |_| {
            let mut held = Held::new(room);
            held.push(&[b'x'; MOST]).is_ok().then_some(held)
        };
        (0..100_000).map_while(begin).collect()
    }

    #[test]
    fn one_connection_holds_so_much_and_what_ends_makes_room() {
        let room = BodyRoom::default();
        let mut bodies = begun(&room);
        assert_eq!(bodies.len(), BODIES_BYTES_PER_CONNECTION_MAX / MOST);
        assert_eq!(bodies.pop().unwrap().into_bytes().len(), MOST);
        assert_eq!(begun(&room).len(), 1);
        drop(bodies);
        assert_eq!((room.held.get(), room.of_worker.get()), (0, 0));
    }

    #[test]
    fn all_connections_of_a_worker_hold_so_much() {
        let of_worker = Rc::default();
        let rooms: Vec<BodyRoom> = (0..1_000).map(|_| BodyRoom::beside(&of_worker)).collect();
        let bodies: Vec<Vec<Held<'_>>> = rooms.iter().map(begun).collect();
        assert_eq!(bodies.iter().flatten().count(), BODIES_BYTES_PER_WORKER_MAX / MOST);
        drop(bodies);
        assert_eq!(of_worker.get(), 0);
    }

    #[test]
    fn a_body_has_its_own_bound() {
        let room = BodyRoom::default();
        let mut held = Held::new(&room);
        held.push(&[b'x'; MOST]).unwrap_or_else(|_| panic!("as much as a body may have"));
        assert_eq!(held.push(b"x").err().map(|problem| problem.status()), Some(413));
    }
}
