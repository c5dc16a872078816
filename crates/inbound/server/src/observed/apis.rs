//! The limiters of the apis whose answers were reported, one for each account.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tollway::ticket::Ticket;
use tollway::{Limiter, Name, Subject};
use tollway_client::ApiLimiter;

use crate::bounds::OBSERVED_ACCOUNTS_MAX;
use crate::http::Problem;

#[derive(Default)]
pub(super) struct ObservedApis {
    limiters: Mutex<HashMap<(Name, Subject), Known>>,
    uses: AtomicU64,
}

struct Known {
    limiter: ApiLimiter,
    /// The number of its last use.
    used: u64,
}

impl ObservedApis {
    /// The limiter of the api whose policy the ticket was taken under. Of several apis with one policy, the first by name.
    pub(super) fn limiter_of(&self, limiter: &Limiter, ticket: &Ticket) -> Result<ApiLimiter, Problem> {
        let apis = limiter.apis();
        let found = ticket.charges.iter().find_map(|charge| {
            let api = apis.iter().find(|api| api.policy() == Some(&charge.policy))?;
            Some((api, &charge.subject))
        });
        let (api, account) = found.ok_or_else(Problem::not_of_an_api)?;
        let key = (api.name().clone(), account.clone());
        let used = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = limiters.get_mut(&key) {
            known.used = used;
            return Ok(known.limiter.clone());
        }
        let made = ApiLimiter::for_account(limiter, api.name().as_str(), account.as_str());
        let made = made.map_err(|_| Problem::not_of_an_api())?;
        if limiters.len() >= OBSERVED_ACCOUNTS_MAX {
            drop_least_recent(&mut limiters);
        }
        limiters.insert(key, Known { limiter: made.clone(), used });
        Ok(made)
    }

    pub(super) fn all(&self) -> Vec<ApiLimiter> {
        let limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        limiters.values().map(|known| known.limiter.clone()).collect()
    }
}

/// Its reports go on in the background: dropping it would wait for the store.
fn drop_least_recent(limiters: &mut HashMap<(Name, Subject), Known>) {
    let oldest = limiters.iter().min_by_key(|(_, known)| known.used).map(|(key, _)| key.clone());
    if let Some(known) = oldest.and_then(|key| limiters.remove(&key)) {
        tokio::spawn(async move { known.limiter.flush().await });
    }
}

#[cfg(test)]
mod tests {
    use tollway::Config;

    use super::*;

    async fn ticket(limiter: &Limiter, policy: &str, subject: &str) -> Ticket {
        limiter.take(policy).subject(subject).await.unwrap().into_ticket()
    }

    #[tokio::test]
    async fn limiters_are_by_account_and_bounded() {
        let config = "[policies.other]\nlimits = [\"9000 / minute\"]\n\
                      [apis.v]\nbase_url = \"http://127.0.0.1:1\"\nlimits = [\"9000 / minute\"]";
        let limiter = Limiter::builder().config(&Config::parse(config).unwrap()).unwrap().build();
        let apis = ObservedApis::default();
        for account in 0..=OBSERVED_ACCOUNTS_MAX {
            let ticket = ticket(&limiter, "v", &format!("account-{account}")).await;
            apis.limiter_of(&limiter, &ticket).unwrap();
        }
        assert_eq!(apis.all().len(), OBSERVED_ACCOUNTS_MAX);
        let other = ticket(&limiter, "other", "ann").await;
        assert_eq!(apis.limiter_of(&limiter, &other).unwrap_err().status(), 422);
    }
}
