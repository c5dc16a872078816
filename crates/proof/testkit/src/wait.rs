//! Waits for a future without a runtime, so that the suite works with any store.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread until the future is ready.
pub fn wait_for<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn wait_for_wakes_from_another_thread() {
        let (send, receive) = mpsc::channel::<Waker>();
        let mut sent = false;
        let waker_thread = thread::spawn(move || receive.recv().unwrap().wake());
        let future = std::future::poll_fn(|context| {
            if std::mem::replace(&mut sent, true) {
                return Poll::Ready(7);
            }
            send.send(context.waker().clone()).unwrap();
            Poll::Pending
        });
        assert_eq!(wait_for(future), 7);
        waker_thread.join().unwrap();
    }
}
