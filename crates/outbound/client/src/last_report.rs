//! The last report of a process: what its answers taught reaches the store although the program ends.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::limiter::ApiState;

/// How long the drop of an api's last limiter waits for the store.
const LAST_REPORT_MAX: Duration = Duration::from_secs(1);

impl Drop for ApiState {
    fn drop(&mut self) {
        let api = self.api();
        let Some(policy) = api.policy().filter(|_| self.seen().is_unreported()) else { return };
        let mut report = pin!(self.report_once(policy, None));
        // A store in this process answers at once.
        if report.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        let wait = || {
            if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() {
                runtime.block_on(async {
                    // What the store does not take within this time is lost, as that of a killed process.
                    let _ = tokio::time::timeout(LAST_REPORT_MAX, report).await;
                });
            }
        };
        // A thread of its own, because the caller's may belong to an async runtime.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("tollway-report".to_owned());
            let _ = thread.spawn_scoped(scope, wait).map(std::thread::ScopedJoinHandle::join);
        });
    }
}
