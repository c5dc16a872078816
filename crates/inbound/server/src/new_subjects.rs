//! How many subjects that are new to the store a client network may bring.
//!
//! A caller that invents subjects fills the store: each leaves an account until its windows end. The store's answers say how
//! many accounts were made. Beyond its rate, a network's takes make none: new subjects share accounts then, and known ones
//! are counted as always. The bound is this process's.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;
use tollway::Span;
use tollway::core::NewAccounts;
use tollway_inbound::address::{AddressRules, Network, Peer};

/// Addresses that share their first bits are one client: what a provider assigns, and what a customer can rent cheaply.
const IPV4_PREFIX: u8 = 24;
const IPV6_PREFIX: u8 = 48;

/// The most networks that are remembered: each for the time that its new subjects use up, which is seconds. More networks
/// at once share one place.
const NETWORKS_MAX: usize = 16_384;

/// How many new subjects a network may bring in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewSubjectsRate {
    /// How many.
    pub amount: u64,
    /// In which time.
    pub period: Span,
}

/// A hundred a second.
impl Default for NewSubjectsRate {
    fn default() -> Self {
        Self { amount: 100, period: Span::from_secs(1) }
    }
}

/// The new subjects of all networks.
pub(crate) struct NewSubjects {
    started: Instant,
    /// The time that one new subject uses up, in microseconds; 0 if there is no bound, or the store has its own.
    interval: AtomicU64,
    period: AtomicU64,
    /// No network is above its rate from then on, in microseconds since the start.
    over_until: AtomicU64,
    /// When what a network brought is used up.
    networks: Mutex<HashMap<Option<Network>, u64>>,
    warned_until: AtomicU64,
    /// Takes that could make no account.
    pub(crate) bounded: AtomicU64,
}

impl NewSubjects {
    pub(crate) fn new(rate: Option<NewSubjectsRate>) -> Self {
        let new = Self {
            started: Instant::now(),
            interval: AtomicU64::new(0),
            period: AtomicU64::new(0),
            over_until: AtomicU64::new(0),
            networks: Mutex::default(),
            warned_until: AtomicU64::new(0),
            bounded: AtomicU64::new(0),
        };
        new.set(rate);
        new
    }

    /// Sets the rate; `None` is no bound.
    pub(crate) fn set(&self, rate: Option<NewSubjectsRate>) {
        let interval = |rate: NewSubjectsRate| rate.period.as_micros().checked_div(rate.amount);
        self.period.store(rate.map_or(0, |rate| rate.period.as_micros()), Ordering::Relaxed);
        self.interval.store(rate.and_then(interval).unwrap_or(0), Ordering::Relaxed);
    }

    /// Whether there is a bound.
    pub(crate) fn is_bounded(&self) -> bool {
        self.interval.load(Ordering::Relaxed) > 0
    }

    /// What happens to new subjects of a take from this network.
    pub(crate) fn allowed_to(&self, network: Network) -> NewAccounts {
        match self.over_until.load(Ordering::Relaxed) {
            // Nearly always: no clock is read.
            0 => NewAccounts::MakeAndCount,
            _ => self.allowed_at(network, self.now()),
        }
    }

    fn allowed_at(&self, network: Network, now: u64) -> NewAccounts {
        let over_until = self.over_until.load(Ordering::Relaxed);
        if now >= over_until {
            // Another network may have set it meanwhile.
            let _ = self.over_until.compare_exchange(over_until, 0, Ordering::Relaxed, Ordering::Relaxed);
            return NewAccounts::MakeAndCount;
        }
        let networks = self.networks.lock().unwrap_or_else(PoisonError::into_inner);
        let used_until = networks
            .get(&Some(network))
            .or_else(|| networks.get(&None).filter(|_| networks.len() >= NETWORKS_MAX));
        let is_over =
            used_until.is_some_and(|until| *until > now.saturating_add(self.period.load(Ordering::Relaxed)));
        if !is_over {
            return NewAccounts::MakeAndCount;
        }
        self.bounded.fetch_add(1, Ordering::Relaxed);
        NewAccounts::Share
    }

    /// A take from this network made so many accounts.
    pub(crate) fn made(&self, network: Network, accounts: u16) {
        if accounts > 0 && self.is_bounded() {
            self.made_at(network, accounts, self.now());
        }
    }

    fn made_at(&self, network: Network, accounts: u16, now: u64) {
        let interval = self.interval.load(Ordering::Relaxed);
        let period = self.period.load(Ordering::Relaxed);
        let mut networks = self.networks.lock().unwrap_or_else(PoisonError::into_inner);
        if networks.len() >= NETWORKS_MAX && !networks.contains_key(&Some(network)) {
            networks.retain(|_, until| *until > now);
        }
        let is_known = networks.len() < NETWORKS_MAX || networks.contains_key(&Some(network));
        let used_until = networks.entry(is_known.then_some(network)).or_default();
        // Takes that were in flight together may go beyond the rate: at most for as long again.
        let longest = now.saturating_add(period.saturating_mul(2));
        *used_until =
            (*used_until).max(now).saturating_add(interval.saturating_mul(accounts.into())).min(longest);
        let over_until = used_until.saturating_sub(period);
        if over_until > now {
            self.over_until.fetch_max(over_until, Ordering::Relaxed);
            drop(networks);
            self.warn(network, now);
        }
    }

    /// Once a minute.
    fn warn(&self, network: Network, now: u64) {
        if now >= self.warned_until.load(Ordering::Relaxed) {
            self.warned_until.store(now.saturating_add(Span::from_mins(1).as_micros()), Ordering::Relaxed);
            tracing::warn!(
                event = "RateLimiterNewSubjects",
                %network,
                "a network brings more new subjects than [server] new_subjects allows: they share accounts. If it is a \
                 proxy, name it in [server.address] trusted_networks"
            );
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// The network of a client; `None` if it is not known, or is this machine: then it is a proxy's or a program's own.
pub(crate) fn network_of(
    rules: &AddressRules,
    peer: Peer,
    forwarded: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> Option<Network> {
    let client = rules.client(peer, forwarded)?;
    if client.is_loopback() || rules.names(Peer::Address(client)) {
        return None;
    }
    let prefix = if matches!(client, IpAddr::V4(_)) { IPV4_PREFIX } else { IPV6_PREFIX };
    Some(Network::around(client, prefix))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn network(address: &str) -> Network {
        let peer = Peer::Address(address.parse().unwrap());
        network_of(&AddressRules::default(), peer, [] as [&str; 0]).unwrap()
    }

    #[test]
    fn a_network_above_its_rate_makes_no_accounts_for_a_while() {
        let subjects = NewSubjects::new(Some(NewSubjectsRate::default()));
        let (flood, other) = (network("2001:db8::1"), network("192.0.2.1"));
        let now = Span::from_secs(7).as_micros();
        for _ in 0..100 {
            assert_eq!(subjects.allowed_at(flood, now), NewAccounts::MakeAndCount);
            subjects.made_at(flood, 1, now);
        }
        subjects.made_at(flood, 5, now);
        assert_eq!(
            subjects.allowed_at(network("2001:db8:0:ffff::2"), now),
            NewAccounts::Share,
            "the same /48"
        );
        assert_eq!(subjects.allowed_at(other, now), NewAccounts::MakeAndCount);
        assert_eq!(subjects.allowed_at(flood, now + 49_000), NewAccounts::Share);
        assert_eq!(subjects.allowed_at(flood, now + 51_000), NewAccounts::MakeAndCount);
        assert_eq!(subjects.bounded.load(Ordering::Relaxed), 2);
    }

    /// Takes in flight together can go beyond the rate, but a network is not shut out for longer than that.
    #[test]
    fn a_network_waits_at_most_one_period() {
        let subjects = NewSubjects::new(Some(NewSubjectsRate::default()));
        let (flood, now) = (network("192.0.2.1"), 1);
        (0..5_000).for_each(|_| subjects.made_at(flood, 16, now));
        assert_eq!(subjects.allowed_at(flood, now + 999_000), NewAccounts::Share);
        assert_eq!(subjects.allowed_at(flood, now + 1_000_000), NewAccounts::MakeAndCount);
    }

    /// Memory for networks is bounded: those beyond it share one place, and the others keep theirs.
    #[test]
    fn networks_are_bounded() {
        let subjects = NewSubjects::new(Some(NewSubjectsRate::default()));
        for number in 0..40_000u32 {
            let address = std::net::Ipv4Addr::from(0x1000_0000 + (number << 8));
            subjects.made_at(network(&address.to_string()), 1, 5);
        }
        assert!(subjects.networks.lock().unwrap().len() <= NETWORKS_MAX + 1);
        assert_eq!(
            subjects.allowed_at(network("192.0.2.1"), 5),
            NewAccounts::Share,
            "the shared place is used up"
        );
        assert_eq!(subjects.allowed_at(network("16.0.0.1"), 5), NewAccounts::MakeAndCount);
    }

    #[test]
    fn proxies_and_this_machine_have_no_network() {
        let proxy = Peer::Address("10.0.0.9".parse().unwrap());
        let rules = AddressRules {
            trust: tollway_inbound::address::Trust::Networks {
                networks: vec!["10.0.0.0/8".parse().unwrap()],
                unix: true,
            },
            ..AddressRules::default()
        };
        assert_eq!(network_of(&rules, proxy, ["198.51.100.7"]), Some("198.51.100.0/24".parse().unwrap()));
        assert_eq!(network_of(&rules, proxy, [] as [&str; 0]), None);
        assert_eq!(network_of(&rules, Peer::Unix, [] as [&str; 0]), None);
        assert_eq!(network_of(&rules, Peer::Address("127.0.0.1".parse().unwrap()), [] as [&str; 0]), None);
    }
}
