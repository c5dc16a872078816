//! What is done to one resource: looked at, created, deleted.

use super::account::Account;
use super::error::ProvisionError;
use super::report::State;
use super::resources::{Resource, Spec};

/// Calls the method of this name of whatever kind of resource it is.
macro_rules! call {
    ($resource:expr, $method:ident) => {{
        let account = &Account::find(&$resource.connect).await?;
        match &$resource.spec {
            Spec::Table { table, .. } => table.$method(account).await,
            Spec::Parameter { parameter, .. } => parameter.$method(account).await,
            Spec::Queue(queue) => queue.$method(account).await,
            Spec::Topic(topic) => topic.$method(account).await,
            Spec::Alarm(alarm) => alarm.$method(account).await,
            Spec::Dashboard(dashboard) => dashboard.$method(account).await,
        }
    }};
}

impl Resource {
    /// Its state. Changes nothing.
    pub(super) async fn look(&self) -> Result<State, ProvisionError> {
        call!(self, look)
    }

    /// Creates it, or what is missing of it.
    pub(super) async fn make(&self) -> Result<(), ProvisionError> {
        call!(self, make)
    }

    /// Whether `--apply` made it.
    pub(super) async fn is_ours(&self) -> Result<bool, ProvisionError> {
        call!(self, is_ours)
    }

    /// Deletes it, with everything in it.
    pub(super) async fn remove(&self) -> Result<(), ProvisionError> {
        call!(self, remove)
    }
}
