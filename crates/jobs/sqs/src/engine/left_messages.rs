//! Messages that are left of jobs which were cancelled or have moved: SQS shows them, and they are no work.

use futures_util::future::join_all;
use tollway_core::{Name, Span};
use tollway_pipeline::*;

use super::{Inner, lock};

/// How many receives one look through a queue takes at most.
const RECEIVES_MAX: usize = 500;

/// How long messages are hidden while their queue is looked through.
const LOOK_VISIBILITY: Span = Span::from_secs(30);

impl Inner {
    /// Deletes messages of jobs that have left without being done. Those that this look does not reach are deleted when a worker
    /// receives them, or when SQS forgets them.
    pub(super) async fn delete_left_messages(&self, stage: &Name) -> Result<(), EngineError> {
        // Of messages that are handed over, none can be asked for.
        if self.delivered.is_some() {
            return Ok(());
        }
        let (table, queues) = (self.table().await?, self.queues(stage).await?);
        let (mut kept, mut all_seen) = (Vec::new(), false);
        for _ in 0..RECEIVES_MAX {
            let messages = queues.queue.receive(10, LOOK_VISIBILITY, Span::ZERO).await?;
            all_seen = messages.is_empty();
            if all_seen {
                break;
            }
            for message in messages {
                let known = match message.id {
                    Some(id) => table.record(&queues.queue.name, id).await?,
                    None => None,
                };
                match known.is_some_and(|known| known.record.has_left_behind(&message)) {
                    true => queues.queue.delete(&message.of.receipt).await,
                    false => kept.push(message.of.receipt),
                }
            }
        }
        join_all(kept.iter().map(|receipt| queues.queue.hide(receipt, 0))).await;
        if all_seen {
            lock(&self.outlooks).entry(stage.clone()).or_default().visible = kept.len() as u64;
        }
        Ok(())
    }

    /// Looks for such messages if SQS shows more than the ledger has jobs for, and jobs were cancelled or have moved: a move that
    /// was killed leaves the messages of all jobs that it took out.
    pub(super) async fn delete_surplus(&self, counts: &StageCounts) {
        let visible = lock(&self.outlooks).get(&counts.stage).map_or(0, |outlook| outlook.visible);
        let has_surplus = counts.of(State::Cancelled) > 0 && visible > counts.of(State::Ready);
        if !has_surplus || !self.left_looked_at.is_over(&counts.stage) {
            return;
        }
        self.left_looked_at.note(&counts.stage);
        if let Err(error) = self.delete_left_messages(&counts.stage).await {
            tracing::debug!(%error, "messages of jobs that have left could not be looked for");
        }
    }
}
