//! The accounts at vendors that calls count for, each with the limits of its api.
//!
//! Callers bring their own credentials, perhaps of several organisations. A credential is known by its HMAC under a secret
//! that the processes of a store share, so that it has the same account in all of them and is kept nowhere.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use sha2::Sha256;
use tollway::config::{Api, ApiAccounts};
use tollway::{Limiter, Secret, SetLimitError, Span, Timestamp};
use tollway_client::{ApiLimiter, ClientError};

use crate::bounds::{ACCOUNT_IDLE, ACCOUNTS_MAX, SECRET_RETRY};
use crate::headers::credential;
use crate::wishes::Wishes;

/// What is hashed before a credential: the secret signs other things, too.
const PURPOSE: &[u8] = b"tollway gateway account\0";

/// What the name of an account begins with that is one of a credential.
const KEY: &str = "key-";

/// How many bytes of an HMAC name an account.
const DIGEST_BYTES: usize = 10;

/// The account of credentials beyond the bound.
const OVERFLOW: &str = "other-keys";

/// The limits of every api and account.
pub(crate) struct Accounts {
    limiter: Limiter,
    secret: ArcSwap<Secret>,
    known: Mutex<HashMap<AccountName, Known>>,
}

/// An api, and an account of it; the account that all share has no name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AccountName {
    api: String,
    account: Option<String>,
}

struct Known {
    limits: ApiLimiter,
    used_at: Timestamp,
}

impl Accounts {
    pub(crate) fn new(limiter: Limiter) -> Result<Self, getrandom::Error> {
        let mut secret = Secret::default();
        getrandom::fill(&mut secret)?;
        Ok(Self { limiter, secret: ArcSwap::from_pointee(secret), known: Mutex::default() })
    }

    /// The limiter of the apis.
    pub(crate) fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Asks the store for the secret of its processes. An error if it does not answer now.
    pub(crate) async fn share_secret(&self) -> Result<(), SetLimitError> {
        match self.limiter.shared_secrets(**self.secret.load()).await {
            Ok(secrets) => {
                if let Some(secret) = secrets.first() {
                    self.secret.store(Arc::new(*secret));
                }
                Ok(())
            }
            // Only this process knows the accounts of such a store.
            Err(SetLimitError::NotKept) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The same until the store answers.
    pub(crate) async fn share_secret_in_the_end(&self) {
        while let Err(error) = self.share_secret().await {
            tracing::debug!(%error, "the store gave no secret for accounts");
            tokio::time::sleep(SECRET_RETRY).await;
        }
    }

    /// The limits of a call.
    pub(crate) fn limits(
        &self,
        api: &Api,
        headers: &HeaderMap,
        wishes: &Wishes,
    ) -> Result<ApiLimiter, ClientError> {
        let account = match (&wishes.account, api.accounts()) {
            (Some(named), _) => Some(named.clone()),
            (None, ApiAccounts::ByCredential) => {
                credential(headers).map(|value| self.digest(value.as_bytes()))
            }
            (None, ApiAccounts::One) => None,
        };
        self.of(AccountName { api: api.name().to_string(), account })
    }

    fn of(&self, name: AccountName) -> Result<ApiLimiter, ClientError> {
        let now = self.limiter.clock().now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get_mut(&name) {
            found.used_at = now;
            return Ok(found.limits.clone());
        }
        let name = match name.account {
            Some(_) if !make_room(&mut known, now) => {
                AccountName { account: Some(OVERFLOW.to_owned()), ..name }
            }
            _ => name,
        };
        if let Some(found) = known.get(&name) {
            return Ok(found.limits.clone());
        }
        let limits = match &name.account {
            Some(account) => ApiLimiter::for_account(&self.limiter, &name.api, account)?,
            None => ApiLimiter::new(&self.limiter, &name.api)?,
        };
        known.insert(name, Known { limits: limits.clone(), used_at: now });
        Ok(limits)
    }

    /// Calls of an api that were sent and have no answer yet.
    pub(crate) fn in_flight(&self, api: &str) -> u64 {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let of_api = known.iter().filter(|(name, _)| name.api == api);
        of_api.map(|(_, known)| known.limits.in_flight()).fold(0, u64::saturating_add)
    }

    /// Tells the store what was seen of vendors' answers, before the process ends.
    pub(crate) async fn flush(&self) {
        let known: Vec<ApiLimiter> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.values().map(|known| known.limits.clone()).collect()
        };
        for limits in known {
            limits.flush().await;
        }
    }

    fn digest(&self, credential: &[u8]) -> String {
        let mut key = hmac::digest::Key::<Hmac<Sha256>>::default();
        key.iter_mut().zip(**self.secret.load()).for_each(|(place, byte)| *place = byte);
        let digest = Hmac::<Sha256>::new(&key).chain_update(PURPOSE).chain_update(credential).finalize();
        let mut name = String::with_capacity(KEY.len() + 2 * DIGEST_BYTES);
        name.push_str(KEY);
        for byte in digest.into_bytes().iter().take(DIGEST_BYTES) {
            let digits = [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
            name.extend(digits.into_iter().flatten());
        }
        name
    }
}

/// Whether there is room for another account. Removes the one that was not used for longest, if that is long enough.
fn make_room(known: &mut HashMap<AccountName, Known>, now: Timestamp) -> bool {
    if known.len() < ACCOUNTS_MAX {
        return true;
    }
    let idle = known.iter().filter(|(_, known)| known.limits.is_idle());
    let oldest = idle.min_by_key(|(_, known)| known.used_at);
    let removed = oldest
        .filter(|(_, known)| now.since(known.used_at) >= Span::from(ACCOUNT_IDLE))
        .map(|(name, _)| name.clone());
    removed.is_some_and(|name| known.remove(&name).is_some())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollway_testkit::ManualClock;

    use super::*;

    fn accounts(clock: &Arc<ManualClock>) -> Accounts {
        let api = Api::profile("openai").unwrap();
        let limiter = Limiter::builder().clock(clock.clone()).with_api(api).unwrap().build();
        Accounts::new(limiter).unwrap()
    }

    fn account(accounts: &Accounts, key: &str) -> String {
        let headers = [(http::header::AUTHORIZATION, key.parse().unwrap())].into_iter().collect();
        let api = accounts.limiter.api("openai").unwrap();
        let limits = accounts.limits(&api, &headers, &Wishes::default()).unwrap();
        format!("{limits:?}")
    }

    #[tokio::test]
    async fn credentials_have_accounts_of_their_own_up_to_a_bound() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_000)));
        let accounts = accounts(&clock);
        let first = account(&accounts, "Bearer one");
        assert_eq!(account(&accounts, "Bearer one"), first);
        assert!(!first.contains("one") && first.contains("key-"), "{first}");
        for key in 1..ACCOUNTS_MAX {
            assert_ne!(account(&accounts, &format!("Bearer {key}")), first);
        }
        let beyond = account(&accounts, "Bearer beyond");
        assert!(beyond.contains(OVERFLOW), "{beyond}");
        assert_eq!(account(&accounts, "Bearer one"), first, "those that are known stay");
        clock.advance(Duration::from_secs(601).into());
        assert_ne!(account(&accounts, "Bearer later"), beyond, "one that was idle makes room");
        assert!(accounts.known.lock().unwrap().len() <= ACCOUNTS_MAX + 1);
    }

    #[tokio::test]
    async fn processes_of_a_store_know_a_credential_by_the_same_account() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_000)));
        let (one, mut other) = (accounts(&clock), accounts(&clock));
        assert_ne!(one.digest(b"key"), other.digest(b"key"));
        other.limiter = one.limiter.clone();
        one.share_secret().await.unwrap();
        other.share_secret().await.unwrap();
        assert_eq!(one.digest(b"key"), other.digest(b"key"));
    }
}
