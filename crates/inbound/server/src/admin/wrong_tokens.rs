//! Wrong tokens: each is counted, logged with its address, and answered late.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tollway::Limiter;
use tollway_inbound::address::{IPV6_PREFIX_DEFAULT, Network, Peer};

use crate::ListenerKind;
use crate::bounds::{WRONG_TOKEN_ADDRESSES_MAX, WRONG_TOKEN_DELAYS_MAX};
use crate::once_a_minute::OnceAMinute;

/// What is known of clients that sent wrong tokens.
pub(crate) struct WrongTokens {
    delays: Semaphore,
    /// For each address when it was last logged, and how many wrong tokens it has sent since then.
    addresses: Mutex<HashMap<Option<Network>, Guesses>>,
    /// For addresses beyond the bound.
    others_logged: OnceAMinute,
}

#[derive(Default)]
struct Guesses {
    logged: OnceAMinute,
    since: u64,
}

impl Default for WrongTokens {
    fn default() -> Self {
        let delays = Semaphore::new(WRONG_TOKEN_DELAYS_MAX);
        Self { delays, addresses: Mutex::default(), others_logged: OnceAMinute::default() }
    }
}

impl WrongTokens {
    /// Logs a wrong token: for each address at most once a minute, with how many there were since the last line.
    pub(crate) fn log(&self, limiter: &Limiter, peer: Peer, listener: ListenerKind) {
        let client = client(peer);
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if addresses.len() >= WRONG_TOKEN_ADDRESSES_MAX && !addresses.contains_key(&client) {
            addresses.retain(|_, guesses| !guesses.logged.is_over(limiter));
        }
        if addresses.len() >= WRONG_TOKEN_ADDRESSES_MAX && !addresses.contains_key(&client) {
            if self.others_logged.is_due(limiter) {
                tracing::warn!(
                    "wrong tokens from more than {WRONG_TOKEN_ADDRESSES_MAX} addresses in a minute"
                );
            }
            return;
        }
        let guesses = addresses.entry(client).or_default();
        guesses.since = guesses.since.saturating_add(1);
        if guesses.logged.is_due(limiter) {
            let peer = client.map_or_else(|| "unix socket".to_owned(), |client| client.to_string());
            let wrong = std::mem::take(&mut guesses.since);
            tracing::warn!(peer, ?listener, wrong, "wrong token");
        }
    }

    /// Waits before a wrong token is answered. Beyond the bound it does not: waiting requests hold memory.
    pub(crate) async fn delay(&self, delay: Duration) {
        if let Ok(_one) = self.delays.try_acquire() {
            tokio::time::sleep(delay).await;
        }
    }
}

/// The client of a connection: an IPv4 address or an IPv6 network. None for a unix socket.
fn client(peer: Peer) -> Option<Network> {
    let Peer::Address(address) = peer else { return None };
    let prefix = if address.is_ipv4() { 32 } else { IPV6_PREFIX_DEFAULT };
    Some(Network::around(address, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The map is bounded, and an address is remembered for a minute.
    #[test]
    fn a_flood_of_addresses_is_bounded() {
        let clock = std::sync::Arc::new(tollway_testkit::ManualClock::default());
        let limiter = Limiter::builder().clock(clock.clone()).build();
        let wrong = WrongTokens::default();
        let all = u32::try_from(3 * WRONG_TOKEN_ADDRESSES_MAX).unwrap();
        for address in 0..all {
            wrong.log(&limiter, Peer::Address(std::net::Ipv4Addr::from(address).into()), ListenerKind::Resp);
        }
        assert_eq!(wrong.addresses.lock().unwrap().len(), WRONG_TOKEN_ADDRESSES_MAX);
        clock.advance(tollway::Span::from_mins(2));
        wrong.log(&limiter, Peer::Address(std::net::Ipv4Addr::from(all).into()), ListenerKind::Resp);
        assert_eq!(wrong.addresses.lock().unwrap().len(), 1);
    }

    /// Each waiting request holds a slot; the next is answered at once.
    #[tokio::test]
    async fn delays_are_bounded() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let wrong = std::sync::Arc::new(WrongTokens::default());
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..WRONG_TOKEN_DELAYS_MAX {
            let wrong = wrong.clone();
            waiting.spawn(async move { wrong.delay(HOUR).await });
        }
        while wrong.delays.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        wrong.delay(HOUR).await;
        waiting.shutdown().await;
        assert_eq!(wrong.delays.available_permits(), WRONG_TOKEN_DELAYS_MAX);
    }
}
