//! A store of another process.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tollway_core::bounds::ACCOUNTS_LISTED_MAX;
use tollway_core::{
    AccountList, AccountListAnswer, Answer, Fault, Name, Operation, Outcomes, Retry, Setting, SettingChange,
    Settings, SettingsAnswer, Store, StoreError,
};

use crate::{SocketClient, SocketServer};

/// A call of a store.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SocketCall {
    Apply(Vec<Operation>),
    Settings,
    Change(SettingChange),
    Accounts(Option<Name>, usize),
}

/// Serves a store at this path until what it returns is dropped.
pub fn serve_store(path: &Path, store: Arc<dyn Store>) -> io::Result<SocketServer> {
    SocketServer::start(path, move |line| {
        let store = store.clone();
        async move { answer(&*store, &line).await }
    })
}

async fn answer(store: &dyn Store, line: &[u8]) -> Vec<u8> {
    let keeps_none = || wrong("this store keeps no settings");
    match serde_json::from_slice(line) {
        Ok(SocketCall::Apply(batch)) => {
            let applied = store.apply(&batch);
            encode(&applied.await)
        }
        Ok(SocketCall::Settings) => match store.settings() {
            Some(settings) => encode(&settings.settings().await),
            None => encode(&Err::<(), _>(keeps_none())),
        },
        Ok(SocketCall::Change(change)) => match store.settings() {
            Some(settings) => encode(&settings.change(change).await),
            None => encode(&Err::<(), _>(keeps_none())),
        },
        Ok(SocketCall::Accounts(policy, at_most)) => {
            let at_most = at_most.min(ACCOUNTS_LISTED_MAX);
            match store.accounts(policy.as_ref(), at_most) {
                Some(list) => encode(&list.await.map(Some)),
                None => encode(&Ok::<_, StoreError>(None::<AccountList>)),
            }
        }
        Err(error) => {
            let message =
                format!("the server does not know this call ({error}): restart it with this version");
            encode(&Err::<(), _>(wrong(&message)))
        }
    }
}

/// A store of another process, such as the memory of `tollway serve`.
pub struct SocketStore {
    client: SocketClient,
}

impl SocketStore {
    /// Connects to the process that serves its store at this path. None: no process answers there.
    pub fn connect(path: &Path) -> io::Result<Option<Self>> {
        Ok(SocketClient::connect(path)?.map(|client| Self { client }))
    }

    fn ask<T: DeserializeOwned + Send + 'static>(&self, call: &SocketCall) -> SettingsAnswer<T> {
        let asked = self.client.ask(encode(call));
        Box::pin(async move {
            let said = asked.await.map_err(|error| lost(&error))?;
            serde_json::from_slice::<Result<T, StoreError>>(&said).unwrap_or_else(|error| {
                let message = format!(
                    "the server answered otherwise than expected ({error}): restart it with this version"
                );
                Err(wrong(&message))
            })
        })
    }
}

impl Store for SocketStore {
    fn apply(&self, batch: &[Operation]) -> Answer {
        Answer::Later(self.ask::<Outcomes>(&SocketCall::Apply(batch.to_vec())))
    }

    fn settings(&self) -> Option<&dyn Settings> {
        Some(self)
    }

    fn accounts(&self, policy: Option<&Name>, at_most: usize) -> Option<AccountListAnswer> {
        let list = self.ask::<Option<AccountList>>(&SocketCall::Accounts(policy.cloned(), at_most));
        let cannot = || wrong("the store of the server cannot list accounts");
        Some(Box::pin(async move { list.await?.ok_or_else(cannot) }))
    }
}

impl Settings for SocketStore {
    fn settings(&self) -> SettingsAnswer<Vec<Setting>> {
        self.ask(&SocketCall::Settings)
    }

    fn change(&self, change: SettingChange) -> SettingsAnswer<()> {
        self.ask(&SocketCall::Change(change))
    }
}

/// A line of JSON. These types have no maps with other keys than strings, so that it cannot fail.
fn encode(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

fn wrong(message: &str) -> StoreError {
    StoreError { fault: Fault::Caller, retry: Retry::Useless, message: message.to_owned() }
}

fn lost(error: &io::Error) -> StoreError {
    let retry = if error.kind() == io::ErrorKind::WouldBlock { Retry::Safe } else { Retry::Unclear };
    let why = if error.kind() == io::ErrorKind::TimedOut { "be suspended" } else { "have ended" };
    let message = format!("the server did not answer ({error}); it may {why}");
    StoreError { fault: Fault::Network, retry, message }
}
