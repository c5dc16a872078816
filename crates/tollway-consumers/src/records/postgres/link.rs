//! The connection, kept up: made again when it is lost, and known to be lost at once.

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

/// How often the server is asked whether it is still there: a network that loses everything says nothing, and news of
/// changes would be missed for as long.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How long after a failed attempt the next is made. Each process makes one at a time.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// How long a caller waits for the first attempt to connect.
const FIRST_WITHIN: Duration = Duration::from_secs(5);

/// Where to get the session of now.
#[derive(Clone)]
pub(super) struct Link(watch::Receiver<State>);

enum State {
    /// The first attempt is not over.
    New,
    Up(Arc<Session>),
    /// Callers do not wait for the next attempt: before a decision a quick error is better.
    Down(RecordsError),
}

impl Link {
    /// Connects in the background, again and again.
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

    /// The session of now, or why there is none.
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

/// From a connection's beginning to its end, which it answers.
async fn connected(place: &Place, changes: &Changes, state: &watch::Sender<State>) -> RecordsError {
    let (session, driver) = match Session::open(place, changes).await {
        Ok((session, driver)) => (Arc::new(session), driver),
        Err(error) => {
            tracing::debug!(%error, "no connection to the records");
            return error;
        }
    };
    changes.set_followed(true);
    state.send_replace(State::Up(Arc::clone(&session)));
    until_lost(&session, driver).await;
    // First this: reads from now on must not be cached.
    changes.set_followed(false);
    tracing::warn!("the connection to the records is lost; nothing cached is trusted until it is back");
    let message = "the connection to the records is lost".to_owned();
    RecordsError { fault: RecordsFault::Network, retry: Retry::Safe, message }
}

/// Until its connection ends, or the server no longer answers.
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
