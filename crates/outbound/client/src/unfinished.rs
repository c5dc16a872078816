//! Work that goes on after its call has returned: permits that go back, tokens that are settled, reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::limiter::ApiState;

/// How much of it is under way.
#[derive(Default)]
pub(crate) struct Unfinished {
    tasks: AtomicUsize,
    finished: Notify,
}

/// One task, until it is dropped.
pub(crate) struct UnfinishedTask(Arc<Unfinished>);

impl Unfinished {
    pub(crate) fn begin(self: &Arc<Self>) -> UnfinishedTask {
        self.tasks.fetch_add(1, Ordering::Relaxed);
        UnfinishedTask(Arc::clone(self))
    }

    /// Waits until nothing is under way.
    pub(crate) async fn wait(&self) {
        loop {
            let finished = self.finished.notified();
            if self.tasks.load(Ordering::Acquire) == 0 {
                return;
            }
            finished.await;
        }
    }
}

impl Drop for UnfinishedTask {
    fn drop(&mut self) {
        if self.0.tasks.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.finished.notify_waiters();
        }
    }
}

impl ApiState {
    /// Runs a task that a flush waits for. Without a runtime, at the end of a program, it is left out.
    pub(crate) fn in_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Ok(runtime) = Handle::try_current() {
            self.in_background_on(&runtime, task);
        }
    }

    /// The same on a runtime that the caller's thread may not belong to.
    pub(crate) fn in_background_on(&self, runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        let unfinished = self.unfinished.begin();
        runtime.spawn(async move {
            task.await;
            drop(unfinished);
        });
    }
}
