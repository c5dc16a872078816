//! A small pool of sessions.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollway_core::{Fault, Retry, StoreError};

use crate::options::PostgresOptions;
use crate::session::Session;

/// How long a call may wait for a session of this process.
const FREE_WITHIN: Duration = Duration::from_secs(3);

/// At most as many sessions as the options say.
pub(crate) struct Pool {
    options: PostgresOptions,
    idle: Mutex<Vec<Session>>,
    room: Arc<Semaphore>,
}

/// A session in use. Dropped, it is closed, unless it was handed back.
pub(crate) struct PooledSession {
    session: Session,
    pool: Arc<Pool>,
    _room: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(options: PostgresOptions) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(options.connections));
        Arc::new(Self { options, idle: Mutex::default(), room })
    }

    pub(crate) fn options(&self) -> &PostgresOptions {
        &self.options
    }

    /// A session: one that is idle, else a new one, else the next that is handed back.
    pub(crate) async fn lease(self: &Arc<Self>) -> Result<PooledSession, StoreError> {
        let room = tokio::time::timeout(FREE_WITHIN, Arc::clone(&self.room).acquire_owned()).await;
        let Ok(Ok(room)) = room else { return Err(all_busy()) };
        let session = match self.take_idle() {
            Some(session) => session,
            None => Session::open(&self.options).await?,
        };
        Ok(PooledSession { session, pool: Arc::clone(self), _room: room })
    }

    fn take_idle(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|session| !session.is_closed());
        idle.pop()
    }
}

impl PooledSession {
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// For the next: its transaction has ended.
    pub(crate) fn return_to_pool(self) {
        let Self { session, pool, _room } = self;
        pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }

    /// After an error: a refused statement leaves the session usable, anything else closes it.
    pub(crate) async fn return_to_pool_after(self, error: &StoreError) {
        if error.fault != Fault::Network && self.session.recover().await {
            self.return_to_pool();
        }
    }
}

fn all_busy() -> StoreError {
    let message = "all connections to Postgres are busy".to_owned();
    StoreError { fault: Fault::Network, retry: Retry::Safe, message }
}
