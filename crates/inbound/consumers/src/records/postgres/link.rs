//! Keeps a connection open: detects its loss at once, and reconnects.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollway_core::Retry;

use super::error::silent;
use super::place::Place;
use super::session::Session;
use crate::records::changes::Changes;
use crate::records::{RecordsError, RecordsFault};

/// How often a liveness query runs: on a dead network the connection stays open, and change notifications would be missed.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The delay before the next connection attempt. Each process makes one at a time.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// How long a caller waits for the first attempt to connect.
const FIRST_WITHIN: Duration = Duration::from_secs(5);

/// Gives access to the current session.
#[derive(Clone)]
pub(super) struct Link(watch::Receiver<State>);

enum State {
    /// The first attempt is in progress.
    New,
    Up(Arc<Session>),
    /// Callers do not wait for the next attempt: a decision needs a quick error.
    Down(RecordsError),
}

impl Link {
    /// Connects and reconnects in the background.
    pub(super) fn keep(place: Place, changes: Changes) -> Self {
        let (sender, state) = watch::channel(State::New);
        tokio::spawn(async move {
            loop {
                let error = connected(&place, &changes, &sender).await;
                sender.send_replace(State::Down(error));
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        });
        Self(state)
    }

    /// The current session, or why there is none.
    pub(super) async fn session(mut self) -> Result<Arc<Session>, RecordsError> {
        let tried = self.0.wait_for(|state| !matches!(state, State::New));
        match tokio::time::timeout(FIRST_WITHIN, tried).await {
            Ok(Ok(state)) => match &*state {
                State::Up(session) => Ok(Arc::clone(session)),
                State::Down(error) => Err(error.clone()),
                State::New => Err(silent(Retry::Safe)),
            },
            Ok(Err(_)) | Err(_) => Err(silent(Retry::Safe)),
        }
    }
}

/// Runs one connection from start to end, and returns why it ended.
async fn connected(place: &Place, changes: &Changes, state: &watch::Sender<State>) -> RecordsError {
    let (session, driver) = match Session::open(place, changes).await {
        Ok((session, driver)) => (Arc::new(session), driver),
        Err(error) => {
            tracing::debug!(%error, "cannot connect to the records");
            return error;
        }
    };
    changes.set_followed(true);
    state.send_replace(State::Up(Arc::clone(&session)));
    until_lost(&session, driver).await;
    // First of all: reads from now on must not be cached.
    changes.set_followed(false);
    tracing::warn!("lost the connection to the records; the cache is off until it is back");
    let message = "the connection to the records is lost".to_owned();
    RecordsError { fault: RecordsFault::Network, retry: Retry::Safe, message }
}

/// Runs until the connection ends or the server stops responding.
async fn until_lost(session: &Session, mut driver: JoinHandle<()>) {
    loop {
        tokio::select! {
            _ = &mut driver => return,
            () = tokio::time::sleep(ASK_EVERY) => {}
        }
        if !session.is_alive().await {
            return;
        }
    }
}
