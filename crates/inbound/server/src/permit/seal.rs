//! The seal on permits: made with a secret from the config or the store, so that every server and a restart know it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::time::sleep;
use tollway::ticket::Ticket;
use tollway::{Limiter, Secret, SetLimitError};

use super::token;
use crate::ServeError;
use crate::bounds::SECRET_RETRY_INTERVAL;

/// How much of the HMAC is kept: 128 bits, which cannot be guessed over a network.
const TAG_BYTES: usize = 16;

/// Seals permits and opens them.
pub(crate) struct Seal {
    /// The secret of the config, which comes before those of the store.
    configured: Option<Secret>,
    /// One of our own, for as long as there is no other.
    own: Secret,
    /// The first seals; all are believed. Never empty.
    keys: ArcSwap<Vec<Hmac<Sha256>>>,
}

/// A text that is no permit of ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownPermit;

impl Seal {
    /// The seal of all who share the limiter's store. A store that does not answer keeps no server from starting: until
    /// it does, permits are known here only.
    pub(crate) async fn new(limiter: &Limiter, configured: Option<Secret>) -> Result<Self, ServeError> {
        let mut own = Secret::default();
        getrandom::fill(&mut own).map_err(|error| ServeError::Machine(error.to_string()))?;
        let keys = configured.iter().chain([&own]).map(key).collect();
        let seal = Self { configured, own, keys: ArcSwap::from_pointee(keys) };
        match seal.ask(limiter).await {
            Ok(()) => {}
            Err(_) if configured.is_some() => {}
            Err(SetLimitError::NotKept) => tracing::info!(
                "this store keeps no secret for permits: only this server accepts them, until it restarts; servers that \
                 name the same secret with `permits` in [server.tokens] accept each other's"
            ),
            Err(error) => {
                tracing::warn!(%error, "the store keeps no secret for permits yet; they are known to this server only");
            }
        }
        Ok(seal)
    }

    /// A seal that only this process knows: of a server that serves no permits.
    pub(crate) fn of_process() -> Result<Self, ServeError> {
        let mut own = Secret::default();
        getrandom::fill(&mut own).map_err(|error| ServeError::Machine(error.to_string()))?;
        Ok(Self { configured: None, own, keys: ArcSwap::from_pointee(vec![key(&own)]) })
    }

    /// Queries the store again until it has given its secret; then never ends, so that it can stand beside what does.
    pub(crate) async fn settle(&self, limiter: &Limiter) {
        while let Err(error) = self.ask(limiter).await {
            tracing::debug!(%error, "the store gave no secret for permits");
            if matches!(error, SetLimitError::NotKept) {
                break;
            }
            sleep(SECRET_RETRY_INTERVAL).await;
        }
        std::future::pending().await
    }

    async fn ask(&self, limiter: &Limiter) -> Result<(), SetLimitError> {
        let state = limiter.shared_secrets(self.own).await?;
        // Ours stays believed: permits may be about that were sealed with it before the store had an answer.
        let keys = self.configured.iter().chain(&state).chain([&self.own]).map(key).collect();
        self.keys.store(Arc::new(keys));
        Ok(())
    }

    /// A permit as its caller holds it.
    pub(crate) fn close(&self, ticket: &Ticket) -> Option<String> {
        let mut bytes = token::write(ticket)?;
        let tag = self.keys.load().first()?.clone().chain_update(&bytes).finalize().into_bytes();
        bytes.extend(tag.iter().take(TAG_BYTES));
        Some(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The ticket of a permit that was sealed by us or by another who shares the store.
    pub(crate) fn open(&self, permit: &str) -> Result<Ticket, UnknownPermit> {
        let bytes = URL_SAFE_NO_PAD.decode(permit).map_err(|_| UnknownPermit)?;
        let (ticket, tag) = bytes.split_last_chunk::<TAG_BYTES>().ok_or(UnknownPermit)?;
        let keys = self.keys.load();
        let sealed_with =
            |key: &Hmac<Sha256>| key.clone().chain_update(ticket).verify_truncated_left(tag).is_ok();
        if !keys.iter().any(sealed_with) {
            return Err(UnknownPermit);
        }
        token::read(ticket).ok_or(UnknownPermit)
    }
}

fn key(secret: &Secret) -> Hmac<Sha256> {
    Hmac::new(&(*secret).into_block())
}

/// A secret is shorter than a block of the hash: the rest are zeros, as HMAC has it.
trait IntoBlock {
    fn into_block(self) -> hmac::digest::Key<Hmac<Sha256>>;
}

impl IntoBlock for Secret {
    fn into_block(self) -> hmac::digest::Key<Hmac<Sha256>> {
        let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
        block.iter_mut().zip(self).for_each(|(place, byte)| *place = byte);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn seal(limiter: &Limiter) -> Seal {
        Seal::new(limiter, None).await.unwrap()
    }

    async fn ticket(limiter: &Limiter) -> Ticket {
        limiter.take("api").subject("ann").await.unwrap().into_ticket()
    }

    #[tokio::test]
    async fn a_permit_is_valid_only_on_servers_that_share_the_store() {
        let limiter = || Limiter::builder().policy("api", ["9 / minute"]).unwrap().build();
        let (ours, others) = (limiter(), limiter());
        let ticket = ticket(&ours).await;
        let permit = seal(&ours).await.close(&ticket).unwrap();
        assert_eq!(seal(&ours).await.open(&permit), Ok(ticket));
        assert_eq!(seal(&others).await.open(&permit), Err(UnknownPermit));
    }

    /// Also where stores are not shared, or keep no secret; permits sealed with the store's stay valid.
    #[tokio::test]
    async fn servers_with_the_same_configured_secret_accept_each_others_permits() {
        let limiter = || Limiter::builder().policy("api", ["9 / minute"]).unwrap().build();
        let (ours, others) = (limiter(), limiter());
        let with = async |limiter, secret| Seal::new(limiter, Some([secret; 32])).await.unwrap();
        let ticket = ticket(&ours).await;
        let permit = with(&ours, 7).await.close(&ticket).unwrap();
        assert_eq!(with(&others, 7).await.open(&permit), Ok(ticket.clone()));
        assert_eq!(with(&others, 8).await.open(&permit), Err(UnknownPermit));
        let earlier = seal(&ours).await.close(&ticket).unwrap();
        assert_eq!(with(&ours, 7).await.open(&earlier), Ok(ticket));
    }

    #[tokio::test]
    async fn a_permit_with_one_bit_changed_is_unknown() {
        let limiter = Limiter::builder().policy("api", ["9 / minute"]).unwrap().build();
        let seal = seal(&limiter).await;
        let permit = seal.close(&ticket(&limiter).await).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&permit).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(seal.open(&URL_SAFE_NO_PAD.encode(changed)), Err(UnknownPermit), "bit {bit}");
        }
        for text in
            ["", "x", "not a permit", &permit[1..], &permit[..permit.len() - 1], &format!("{permit}=")]
        {
            assert_eq!(seal.open(text), Err(UnknownPermit), "{text}");
        }
    }
}
