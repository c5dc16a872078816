//! What a page reads each second of the policies that it shows: cheap however many policies there are.

use std::sync::Arc;

use tollway_core::bounds::OPERATIONS_PER_BATCH_MAX;
use tollway_core::{Action, Charge, Charges, Name, Operation, Policy, Subject};

use crate::policy::usage::{Usage, usage_in};
use crate::take::pending_take::wrong_answer;
use crate::{Limiter, TakeError};

impl Limiter {
    /// A policy as it is in force, without a handle.
    pub fn policy_in_force(&self, name: &str) -> Option<Arc<Policy>> {
        self.find(name).ok().map(|bound| Arc::clone(&bound.policy))
    }

    /// The policies in force, sorted by name. Unlike [`policies`](Self::policies), it is no sign that the limiter is in use.
    pub fn policies_in_force(&self) -> Vec<Arc<Policy>> {
        self.registry().policies()
    }

    /// A number that grows whenever policies or their limits change.
    pub fn policies_generation(&self) -> u64 {
        self.registry().generation()
    }

    /// How many policies are in force.
    pub fn policies_len(&self) -> usize {
        self.registry().policies_len()
    }

    /// Whether accounts are in this process, so that reading them costs no request.
    pub fn is_in_process(&self) -> bool {
        self.registry().state().in_process()
    }

    /// What the meters of these accounts show, read in one batch; `None` for a policy that is not in force. At most
    /// [`OPERATIONS_PER_BATCH_MAX`] are read.
    pub async fn usage_of_accounts(
        &self,
        accounts: &[(Name, Subject)],
    ) -> Result<Vec<Option<Usage>>, TakeError> {
        let find = |(policy, subject): &(Name, Subject)| {
            let policy = self.policy_in_force(policy.as_str())?;
            let charge = Charge::new(policy, subject.clone());
            Some(Operation { charges: Charges::from_buf([charge]), action: Action::Peek })
        };
        let operations: Vec<_> = accounts.iter().take(OPERATIONS_PER_BATCH_MAX).map(find).collect();
        let in_force: Vec<bool> = operations.iter().map(Option::is_some).collect();
        let batch: Vec<Operation> = operations.into_iter().flatten().collect();
        if batch.is_empty() {
            return Ok(in_force.iter().map(|_| None).collect());
        }
        let outcomes = self.registry().state().store.apply(&batch).await.map_err(TakeError::from)?;
        let mut outcomes = outcomes.into_iter();
        let read = in_force.into_iter().map(|in_force| {
            if !in_force {
                return Ok(None);
            }
            usage_in(outcomes.next().ok_or_else(wrong_answer)?).map(Some)
        });
        read.collect()
    }
}
