//! What is done to one resource: looked at, created, deleted.

use super::account::Account;
use super::error::ProvisionError;
use super::report::State;
use super::resources::{Resource, Spec};

impl Resource {
    /// Its state. Changes nothing.
    pub(super) async fn look(&self) -> Result<State, ProvisionError> {
        let account = &Account::find(&self.connect).await?;
        match &self.spec {
            Spec::Table { table, .. } => table.look(account).await,
            Spec::Parameter { parameter, .. } => parameter.look(account).await,
            Spec::Queue(queue) => queue.look(account).await,
            Spec::Topic(topic) => topic.look(account).await,
            Spec::Alarm(alarm) => alarm.look(account).await,
            Spec::Dashboard(dashboard) => dashboard.look(account).await,
        }
    }

    /// Creates it, or what is missing of it.
    pub(super) async fn make(&self) -> Result<(), ProvisionError> {
        let account = &Account::find(&self.connect).await?;
        match &self.spec {
            Spec::Table { table, .. } => table.make(account).await,
            Spec::Parameter { parameter, .. } => parameter.make(account).await,
            Spec::Queue(queue) => queue.make(account).await,
            Spec::Topic(topic) => topic.make(account).await,
            Spec::Alarm(alarm) => alarm.make(account).await,
            Spec::Dashboard(dashboard) => dashboard.make(account).await,
        }
    }

    /// Whether `--apply` made it.
    pub(super) async fn is_ours(&self) -> Result<bool, ProvisionError> {
        let account = &Account::find(&self.connect).await?;
        match &self.spec {
            Spec::Table { table, .. } => table.is_ours(account).await,
            Spec::Parameter { parameter, .. } => parameter.is_ours(account).await,
            Spec::Queue(queue) => queue.is_ours(account).await,
            Spec::Topic(topic) => topic.is_ours(account).await,
            Spec::Alarm(alarm) => alarm.is_ours(account).await,
            Spec::Dashboard(dashboard) => dashboard.is_ours(account).await,
        }
    }

    /// Deletes it, with everything in it.
    pub(super) async fn remove(&self) -> Result<(), ProvisionError> {
        let account = &Account::find(&self.connect).await?;
        match &self.spec {
            Spec::Table { table, .. } => table.remove(account).await,
            Spec::Parameter { parameter, .. } => parameter.remove(account).await,
            Spec::Queue(queue) => queue.remove(account).await,
            Spec::Topic(topic) => topic.remove(account).await,
            Spec::Alarm(alarm) => alarm.remove(account).await,
            Spec::Dashboard(dashboard) => dashboard.remove(account).await,
        }
    }
}
