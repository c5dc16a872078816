//! A process that decides: a server of a rack, or a node that has no server.

use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::time::Instant;
use tollway::{Limiter, Policy, TakeError, Taken};
use tollway_testkit::Random;

use crate::link::{Link, Shared};
use crate::network::Region;
use crate::virtual_clock::VirtualClock;

/// How far the clock of a machine is off at most.
const CLOCK_OFF_MILLIS: u64 = 100;

/// One process, which may be killed and started again.
pub(crate) struct Server {
    running: Mutex<Option<Process>>,
    /// Killed ones are kept: a process that is gone tells the store nothing, but a dropped limiter would.
    killed: Mutex<Vec<Process>>,
    region: Region,
}

struct Process {
    limiter: Limiter,
    link: Arc<Link>,
}

/// How a take ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Granted {
        degraded: bool,
    },
    Denied,
    /// No decision: the store is away and the policy is `closed`.
    Failed,
    /// The process does not run.
    NoServer,
}

impl Server {
    pub(crate) fn new(region: Region) -> Self {
        Self { running: Mutex::default(), killed: Mutex::default(), region }
    }

    /// Starts it, as process `number`.
    pub(crate) fn start(
        &self,
        shared: &Arc<Shared>,
        policy: &Arc<Policy>,
        number: usize,
        started: Instant,
        random: &mut Random,
    ) {
        let link = Arc::new(Link::new(shared, number, self.region, Random::new(random.bits())));
        let off = i64::try_from(random.below(2 * CLOCK_OFF_MILLIS + 1)).expect("a small number");
        let clock = VirtualClock::new(started, off - CLOCK_OFF_MILLIS.cast_signed());
        let builder = Limiter::builder().with_policy(Arc::clone(policy)).expect("one policy");
        let store: Arc<Link> = Arc::clone(&link);
        let limiter = builder.store(store).clock(Arc::new(clock)).runtime(Handle::current()).build();
        *self.running.lock().unwrap() = Some(Process { limiter, link });
    }

    /// `kill -9`.
    pub(crate) fn kill(&self) {
        let killed = self.running.lock().unwrap().take().expect("it runs");
        killed.link.kill();
        self.killed.lock().unwrap().push(killed);
    }

    /// One take, up to the moment when its call goes out.
    pub(crate) async fn take(&self, policy: &Policy) -> Ended {
        let Some(limiter) = self.running.lock().unwrap().as_ref().map(|process| process.limiter.clone())
        else {
            return Ended::NoServer;
        };
        let granted = match limiter.try_take(policy.name().as_str()).await {
            Ok(Taken::Granted(granted)) => granted,
            Ok(Taken::Denied(_)) => return Ended::Denied,
            Err(_) => return Ended::Failed,
        };
        let degraded = granted.degraded();
        // Its answer may have come after its window.
        match granted.permit().begin().await {
            Ok(()) => Ended::Granted { degraded },
            Err(TakeError::Denied(_)) => Ended::Denied,
            Err(_) => Ended::Failed,
        }
    }

    /// Ends all of its limiters without a wait in real time.
    pub(crate) async fn close(&self) {
        let running = self.running.lock().unwrap().take();
        let killed = std::mem::take(&mut *self.killed.lock().unwrap());
        for process in running.into_iter().chain(killed) {
            let _ = process.limiter.close().await;
        }
    }
}
