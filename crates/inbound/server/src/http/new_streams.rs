//! New HTTP/2 streams: those that arrived together are answered in one pass, most of them at once.
//!
//! hyper would spawn a task for each, which then wakes its connection to send the response.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use hyper::rt::Executor;

type Stream = Pin<Box<dyn Future<Output = ()>>>;

/// The streams that the current connection has just opened: at most [`STREAMS_MAX`](crate::bounds::STREAMS_MAX).
#[derive(Clone, Default)]
pub(super) struct NewStreams(Rc<RefCell<VecDeque<Stream>>>);

impl<F: Future<Output = ()> + 'static> Executor<F> for NewStreams {
    fn execute(&self, stream: F) {
        self.0.borrow_mut().push_back(Box::pin(stream));
    }
}

impl NewStreams {
    /// Answers the streams; those that must wait become tasks. Returns whether there were any: then the connection has
    /// something to send.
    pub(super) fn answer(&self) -> bool {
        let mut any = false;
        loop {
            let next = self.0.borrow_mut().pop_front();
            let Some(mut stream) = next else { return any };
            any = true;
            // The task polls again and registers its own waker.
            if stream.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                tokio::task::spawn_local(stream);
            }
        }
    }
}
