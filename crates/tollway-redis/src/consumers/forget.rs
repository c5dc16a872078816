//! A period that has become unlimited has no counter any more.

use tollway_core::{Answer, Cost, Operation, Party, Policy, Store, StoreError, Subject, Verb};

use super::Period;
use crate::RedisStore;
use crate::address::Layout;
use crate::error::wrong;

impl RedisStore {
    /// Deletes the counter of one period, in the layout `consumers`: the subject's limit of that period is gone, and so is
    /// what was counted for it. A policy names only the limits it has, so resetting it would leave this one.
    pub fn forget(
        &self,
        subject: &Subject,
        period: Period,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let answer = self.reset_period(subject, period);
        async move { answer?.await.map(|_| ()) }
    }

    /// As a reset under a policy of that limit alone: whatever its amount and its name, it is the same key.
    fn reset_period(&self, subject: &Subject, period: Period) -> Result<Answer, StoreError> {
        if self.layout != Layout::Consumers {
            return Err(wrong("only the layout consumers has a counter for each period".to_owned()));
        }
        let limit = format!("1 requests / {period} from first call");
        let policy = Policy::new("forget", [&*limit]).map_err(|error| wrong(error.to_string()))?;
        let party = Party { policy: &policy, subject, cost: &Cost::default() };
        Ok(self.apply(&[Operation { parties: &[party], verb: Verb::Reset }]))
    }
}
