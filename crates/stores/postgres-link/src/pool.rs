//! A small pool of sessions.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollway_core::{Fault, Retry, StoreError};

/// How long a call may wait for a session of this process.
const FREE_WITHIN: Duration = Duration::from_secs(3);

/// A connection with its statements, as a crate sets it up.
pub trait PoolSession: Sized + Send + 'static {
    /// How to open one.
    type Options: Send + Sync + 'static;

    /// Connects and sets it up.
    fn open(options: &Self::Options) -> impl Future<Output = Result<Self, StoreError>> + Send;

    /// Whether the connection has ended.
    fn is_closed(&self) -> bool;

    /// Ends a transaction that was refused; says whether the session can go on.
    fn recover(&self) -> impl Future<Output = bool> + Send;
}

/// At most so many sessions.
pub struct Pool<S: PoolSession> {
    options: S::Options,
    idle: Mutex<Vec<S>>,
    room: Arc<Semaphore>,
}

/// A session in use. Dropped, it is closed, unless it was handed back.
pub struct PooledSession<S: PoolSession> {
    session: S,
    pool: Arc<Pool<S>>,
    _room: OwnedSemaphorePermit,
}

impl<S: PoolSession> Pool<S> {
    /// A pool that connects when it is first used.
    pub fn new(options: S::Options, connections: usize) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(connections));
        Arc::new(Self { options, idle: Mutex::default(), room })
    }

    /// How its sessions are opened.
    pub fn options(&self) -> &S::Options {
        &self.options
    }

    /// A session: one that is idle, else a new one, else the next that is handed back.
    pub async fn lease(self: &Arc<Self>) -> Result<PooledSession<S>, StoreError> {
        let room = tokio::time::timeout(FREE_WITHIN, Arc::clone(&self.room).acquire_owned()).await;
        let Ok(Ok(room)) = room else { return Err(all_busy()) };
        let session = match self.take_idle() {
            Some(session) => session,
            None => S::open(&self.options).await?,
        };
        Ok(PooledSession { session, pool: Arc::clone(self), _room: room })
    }

    fn take_idle(&self) -> Option<S> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|session| !session.is_closed());
        idle.pop()
    }
}

impl<S: PoolSession> PooledSession<S> {
    /// The session.
    pub fn session(&self) -> &S {
        &self.session
    }

    /// For the next: its transaction has ended.
    pub fn return_to_pool(self) {
        let Self { session, pool, _room } = self;
        pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }

    /// After an error: a refused statement leaves the session usable, anything else closes it.
    pub async fn return_to_pool_after(self, error: &StoreError) {
        if error.fault != Fault::Network && self.session.recover().await {
            self.return_to_pool();
        }
    }
}

fn all_busy() -> StoreError {
    let message = "all connections to Postgres are busy".to_owned();
    StoreError { fault: Fault::Network, retry: Retry::Safe, message }
}
