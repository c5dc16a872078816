//! Memory bounds of incomplete bodies: of one connection, and of all connections of a worker.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;

use super::problem::Problem;
use crate::bounds::{
    BODIES_BYTES_PER_CONNECTION_MAX, BODIES_BYTES_PER_WORKER_MAX, BODY_BYTES_MAX, OPEN_STREAM_BYTES,
};

/// The memory of one connection's incomplete bodies. An HTTP/2 client can begin hundreds and complete none.
#[derive(Debug, Default)]
pub(crate) struct BodyMemory {
    held: Cell<usize>,
    of_worker: Rc<Cell<usize>>,
}

/// The bytes of an incomplete body; dropping it releases its memory.
pub(super) struct PartialBody<'r> {
    memory: &'r BodyMemory,
    bytes: Vec<u8>,
}

/// The memory of an open stream; dropping it releases it.
pub(super) struct OpenStream(Rc<Cell<usize>>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(OPEN_STREAM_BYTES));
    }
}

impl BodyMemory {
    /// The memory of a connection, which also counts in its worker's total.
    pub(crate) fn beside(of_worker: &Rc<Cell<usize>>) -> Self {
        Self { held: Cell::new(0), of_worker: Rc::clone(of_worker) }
    }

    /// Memory of an open stream, which counts only in the worker's total: streams of a connection are few.
    pub(super) fn open_stream(&self) -> Option<OpenStream> {
        let of_worker = self.of_worker.get().saturating_add(OPEN_STREAM_BYTES);
        (of_worker <= BODIES_BYTES_PER_WORKER_MAX).then(|| {
            self.of_worker.set(of_worker);
            OpenStream(Rc::clone(&self.of_worker))
        })
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

impl<'r> PartialBody<'r> {
    pub(super) fn new(memory: &'r BodyMemory) -> Self {
        Self { memory, bytes: Vec::new() }
    }

    /// Copies the bytes: small frames would each keep more memory than their length.
    pub(super) fn push(&mut self, more: &[u8]) -> Result<(), Problem> {
        if self.bytes.len().saturating_add(more.len()) > BODY_BYTES_MAX {
            return Err(Problem::body_too_large());
        }
        if !self.memory.take(more.len()) {
            return Err(Problem::too_many_bodies());
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }

    /// The complete body.
    pub(super) fn into_bytes(mut self) -> Bytes {
        self.memory.give_back(self.bytes.len());
        Bytes::from(std::mem::take(&mut self.bytes))
    }
}

impl Drop for PartialBody<'_> {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = BODY_BYTES_MAX;

    /// As many bodies of maximal length as the memory allows, none of them complete.
    fn begun<'r>(memory: &'r BodyMemory) -> Vec<PartialBody<'r>> {
        let begin = |_| {
            let mut held = PartialBody::new(memory);
            held.push(&[b'x'; MOST]).is_ok().then_some(held)
        };
        (0..100_000).map_while(begin).collect()
    }

    #[test]
    fn body_memory_per_connection_is_bounded_and_released() {
        let memory = BodyMemory::default();
        let mut bodies = begun(&memory);
        assert_eq!(bodies.len(), BODIES_BYTES_PER_CONNECTION_MAX / MOST);
        assert_eq!(bodies.pop().unwrap().into_bytes().len(), MOST);
        assert_eq!(begun(&memory).len(), 1);
        drop(bodies);
        assert_eq!((memory.held.get(), memory.of_worker.get()), (0, 0));
    }

    #[test]
    fn body_memory_per_worker_is_bounded() {
        let of_worker = Rc::default();
        let rooms: Vec<BodyMemory> = (0..1_000).map(|_| BodyMemory::beside(&of_worker)).collect();
        let bodies: Vec<Vec<PartialBody<'_>>> = rooms.iter().map(begun).collect();
        assert_eq!(bodies.iter().flatten().count(), BODIES_BYTES_PER_WORKER_MAX / MOST);
        drop(bodies);
        assert_eq!(of_worker.get(), 0);
    }

    #[test]
    fn body_length_is_bounded() {
        let memory = BodyMemory::default();
        let mut held = PartialBody::new(&memory);
        held.push(&[b'x'; MOST]).unwrap_or_else(|_| panic!("within the bound"));
        assert_eq!(held.push(b"x").err().map(|problem| problem.status()), Some(413));
    }
}
