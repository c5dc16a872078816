//! The stages of a pipeline: their queues, their settings, and what is made for them.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableStatus,
    TimeToLiveSpecification,
};
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::types::QueueAttributeName;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tollway_core::{Name, Retry, Span, Timestamp};
use tollway_pipeline::bounds::STAGES_MAX;
use tollway_pipeline::{EngineError, EngineFault, SqsUrl, StageChange, StageQueues, StageSettings};

use super::Inner;
use super::clients::retried;
use super::error::{failed, storage};
use super::queue::{Queue, StageQueue};
use super::table::{Guard, Item, PART, SORT, TTL, Write, Written, read_text, text};

/// The partition of the stages.
const STAGES: &str = "stages";
const DOCUMENT: &str = "doc";

/// How old settings of other processes may be.
const SETTINGS_FRESH: Duration = Duration::from_secs(1);

/// How often a write of settings that another process was first with is repeated.
const ATTEMPTS: u32 = 20;

/// The longest that SQS keeps a message.
pub(super) const RETENTION_MAX: Span = Span::from_days(14);

/// How often a new table is looked at until it can be used, and the pause between.
const TABLE_LOOKS_MAX: u32 = 120;
const TABLE_LOOK_EVERY: Duration = Duration::from_millis(500);

/// A stage as the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredStage {
    settings: StageSettings,
    queue: String,
    /// `after` has changed, and held jobs may have to be released for it.
    #[serde(default)]
    release: bool,
}

impl Inner {
    /// The name of a stage's queue. The ledger's partitions are named for it.
    pub(super) fn queue_name(&self, stage: &Name) -> Result<String, EngineError> {
        self.queue_names(stage).map(|(queue, _)| queue)
    }

    /// The same, and the name of the queue of its dead letters.
    fn queue_names(&self, stage: &Name) -> Result<(String, String), EngineError> {
        let known = self.configured(stage);
        let queue = known.and_then(|known| known.queue.as_deref());
        let dead = known.and_then(|known| known.dead_letter_queue.as_deref());
        let (queue, dead) = self.url.queue_names(stage, queue, dead);
        for (name, key) in [(&queue, "queue"), (&dead, "dead_letter_queue")] {
            SqsUrl::check_queue(name).map_err(|why| {
                EngineError::caller(format!("stage {}: {why}; set its `{key}`", stage.as_str()))
            })?;
        }
        Ok((queue, dead))
    }

    fn configured(&self, stage: &Name) -> Option<&StageQueues> {
        self.url.stages().iter().find(|known| known.stage == *stage)
    }

    /// The queues of a stage.
    pub(super) async fn queues(&self, stage: &Name) -> Result<Arc<StageQueue>, EngineError> {
        let mut known = self.stage_queues.lock().await;
        if let Some(found) = known.get(stage) {
            return Ok(found.clone());
        }
        let (name, dead) = self.queue_names(stage)?;
        let found = Arc::new(StageQueue {
            stage: stage.clone(),
            queue: self.open_queue(&name).await?,
            dead: self.open_queue(&dead).await?,
        });
        known.insert(stage.clone(), found.clone());
        Ok(found)
    }

    async fn open_queue(&self, name: &str) -> Result<Queue, EngineError> {
        let url = retried!(self.queue_url(name).await)?;
        let url = url.ok_or_else(|| {
            storage(Retry::Useless, format!("{}: it has no URL", self.clients.queue_in_messages(name)))
        })?;
        Ok(Queue::start(name, url, &self.clients, &self.requests, self.delivered.clone()))
    }

    /// The URL of a queue, which is made if the engine's URL says so.
    async fn queue_url(&self, name: &str) -> Result<Option<String>, EngineError> {
        let client = self.clients.sqs().await?;
        let service = self.clients.queue_in_messages(name);
        let missing = |code: &str| code.ends_with("NonExistentQueue") || code == "QueueDoesNotExist";
        match client.get_queue_url().queue_name(name).send().await {
            Ok(found) => Ok(found.queue_url),
            Err(error) if self.url.creates() && error.code().is_some_and(missing) => {
                let retention = (RETENTION_MAX.as_micros() / 1_000_000).to_string();
                let request = client.create_queue().queue_name(name);
                let request = request.attributes(QueueAttributeName::MessageRetentionPeriod, retention);
                Ok(request.send().await.map_err(|error| failed(&service, &error))?.queue_url)
            }
            Err(error) => Err(failed(&service, &error)),
        }
    }

    /// Every stage that the ledger knows, with its settings.
    pub(super) async fn stages(&self) -> Result<Vec<StageSettings>, EngineError> {
        if let Some((at, settings)) = &*super::lock(&self.settings)
            && at.elapsed() < SETTINGS_FRESH
        {
            return Ok(settings.clone());
        }
        let (items, _) = self.table().await?.list(STAGES, None, STAGES_MAX).await?;
        let settings: Vec<StageSettings> =
            items.iter().filter_map(read).map(|stored| stored.settings).collect();
        *super::lock(&self.settings) = Some((Instant::now(), settings.clone()));
        Ok(settings)
    }

    pub(super) async fn is_paused(&self, stage: &Name) -> Result<bool, EngineError> {
        Ok(self.stages().await?.iter().any(|known| known.stage == *stage && known.paused))
    }

    /// Makes sure that the ledger knows a stage.
    pub(super) async fn know_stage(&self, stage: &Name) -> Result<(), EngineError> {
        if super::lock(&self.known_stages).contains(stage) {
            return Ok(());
        }
        self.change_stage(stage, &StageChange::default(), None).await?;
        super::lock(&self.known_stages).insert(stage.clone());
        Ok(())
    }

    /// Changes the settings of a stage, and makes it if it is new.
    pub(super) async fn set_stage(
        &self,
        stage: &Name,
        change: StageChange,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        if change.after.as_ref().is_some_and(|after| after.contains(stage)) {
            let message = format!("stage {} cannot wait for itself", stage.as_str());
            return Err(EngineError::caller(message));
        }
        for before in change.after.iter().flatten() {
            self.know_stage(before).await?;
        }
        if self.change_stage(stage, &change, None).await? {
            self.release_stage(stage, now).await?;
            self.change_stage(stage, &StageChange::default(), Some(false)).await?;
        }
        if let Some(outlook) = super::lock(&self.outlooks).get_mut(stage) {
            outlook.ready(0);
        }
        self.hint();
        Ok(())
    }

    /// Whether held jobs may have to be released; `release` says so for the next time.
    async fn change_stage(
        &self,
        stage: &Name,
        change: &StageChange,
        release: Option<bool>,
    ) -> Result<bool, EngineError> {
        let queue = self.queue_name(stage)?;
        let table = self.table().await?;
        let key = (STAGES.to_owned(), stage.as_str().to_owned());
        for _ in 0..ATTEMPTS {
            let found = table.get(&key).await?;
            let stored = found.as_ref().and_then(read);
            let mut changed = stored.clone().unwrap_or_else(|| StoredStage {
                settings: StageSettings {
                    stage: stage.clone(),
                    paused: false,
                    concurrency: None,
                    after: Vec::new(),
                },
                queue: queue.clone(),
                release: false,
            });
            changed.queue.clone_from(&queue);
            let settings = &mut changed.settings;
            settings.paused = change.paused.unwrap_or(settings.paused);
            settings.concurrency = change.concurrency.unwrap_or(settings.concurrency);
            if let Some(after) = change.after.as_ref().filter(|after| **after != settings.after) {
                settings.after.clone_from(after);
                changed.release = true;
            }
            changed.release = release.unwrap_or(changed.release);
            let (is_new, releases) = (stored.as_ref() != Some(&changed), changed.release);
            if !is_new {
                *super::lock(&self.settings) = None;
                return Ok(releases);
            }
            let version =
                found.as_ref().and_then(|item| super::table::read_number(item, super::table::VERSION));
            if self.write_stage(&key, &changed, version.unwrap_or(0)).await? {
                *super::lock(&self.settings) = None;
                return Ok(releases);
            }
        }
        Err(EngineError { fault: EngineFault::Busy, retry: Retry::Safe, message: busy(stage) })
    }

    async fn write_stage(
        &self,
        key: &(String, String),
        stage: &StoredStage,
        seen: u64,
    ) -> Result<bool, EngineError> {
        let document =
            serde_json::to_string(stage).map_err(|error| storage(Retry::Useless, error.to_string()))?;
        let item = Item::from([
            (PART.to_owned(), text(&key.0)),
            (SORT.to_owned(), text(&key.1)),
            (super::table::VERSION.to_owned(), super::table::number(seen + 1)),
            (DOCUMENT.to_owned(), text(&document)),
        ]);
        let guard = if seen == 0 { Guard::Absent } else { Guard::Version(seen) };
        let written = self.table().await?.write(vec![Write::Put(item, guard)]).await?;
        Ok(matches!(written, Written::Yes))
    }

    /// Makes the table, if the URL says so and it is not there.
    pub(super) async fn create_table(&self) -> Result<(), EngineError> {
        retried!(self.create_table_once().await)
    }

    async fn create_table_once(&self) -> Result<(), EngineError> {
        let client = self.clients.dynamodb().await?;
        let name = self.url.ledger();
        let service = self.clients.table_in_messages(name);
        if self.table_status().await?.is_none() {
            let wrong =
                |error: aws_sdk_dynamodb::error::BuildError| storage(Retry::Useless, error.to_string());
            let mut request = client.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
            for (attribute, kind) in [(PART, KeyType::Hash), (SORT, KeyType::Range)] {
                let key = KeySchemaElement::builder().attribute_name(attribute).key_type(kind);
                let text = AttributeDefinition::builder().attribute_name(attribute);
                let text = text.attribute_type(ScalarAttributeType::S);
                request = request.key_schema(key.build().map_err(wrong)?);
                request = request.attribute_definitions(text.build().map_err(wrong)?);
            }
            match request.send().await {
                Ok(_) => {}
                // Another process was faster.
                Err(error) if error.code() == Some("ResourceInUseException") => {}
                Err(error) => return Err(failed(&service, &error)),
            }
        }
        for _ in 0..TABLE_LOOKS_MAX {
            if self.table_status().await? == Some(true) {
                // What expires is also purged by the pipeline, so a failure here does no harm.
                if let Ok(ttl) = TimeToLiveSpecification::builder().attribute_name(TTL).enabled(true).build()
                {
                    let request = client.update_time_to_live().table_name(name);
                    let _ = request.time_to_live_specification(ttl).send().await;
                }
                return Ok(());
            }
            tokio::time::sleep(TABLE_LOOK_EVERY).await;
        }
        Err(storage(Retry::Safe, format!("{service}: it was made, and cannot be used yet")))
    }

    /// Whether the table can be used; none if it is not there.
    async fn table_status(&self) -> Result<Option<bool>, EngineError> {
        let name = self.url.ledger();
        match self.clients.dynamodb().await?.describe_table().table_name(name).send().await {
            Ok(found) => {
                Ok(Some(found.table.and_then(|table| table.table_status) == Some(TableStatus::Active)))
            }
            Err(error) if error.code() == Some("ResourceNotFoundException") => Ok(None),
            Err(error) => Err(failed(&self.clients.table_in_messages(name), &error)),
        }
    }

    /// When a done job may be deleted.
    pub(super) fn expires(&self, stage: &Name, now: Timestamp) -> Option<Timestamp> {
        let known = self.configured(stage);
        Some(now.plus(known.map_or(RETENTION_MAX, |known| known.retention)))
    }
}

fn read(item: &Item) -> Option<StoredStage> {
    serde_json::from_str(read_text(item, DOCUMENT)?).ok()
}

fn busy(stage: &Name) -> String {
    format!("the settings of stage {} are being changed by others; try again", stage.as_str())
}
