//! Tollway: one policy, a handle per caller; takes ask the store, use a lease, or stay in memory.

use anyhow::{Result, ensure};
use tollway::core::{Lease, WhenStoreFails};
use tollway::{Limiter, LimiterBuilder, Policy, PolicyHandle, Taken};

use super::callers::{Caller, Entrant, Stage};
use super::periods::{PLENTY, Period};

const POLICY: &str = "bench";

/// A generous timeout: a shared machine may stall.
const TIMEOUT: &str = "deadline=10s";

/// Every take asks the store, batched with concurrent ones.
pub(super) struct Plain(Limiter);

/// Takes use leases.
pub(super) struct Leased(Limiter);

/// The memory store only.
pub(super) struct Memory(Limiter);

impl Entrant for Plain {
    type Caller = PolicyHandle;

    async fn start(stage: &Stage) -> Result<Self> {
        Ok(Self(limiter(stage, Lease::Off)?))
    }

    fn caller(&self, _number: usize) -> PolicyHandle {
        handle(&self.0)
    }

    async fn check(&self, subject: &str, takes: u64) -> Result<()> {
        let used = used(&self.0, subject).await?;
        ensure!(used == takes, "{takes} takes were granted and {used} counted");
        Ok(())
    }
}

impl Entrant for Leased {
    type Caller = PolicyHandle;

    async fn start(stage: &Stage) -> Result<Self> {
        Ok(Self(limiter(stage, Lease::On)?))
    }

    fn caller(&self, _number: usize) -> PolicyHandle {
        handle(&self.0)
    }

    async fn check(&self, subject: &str, takes: u64) -> Result<()> {
        let used = used(&self.0, subject).await?;
        ensure!(used >= takes, "{takes} takes were granted and only {used} counted");
        Ok(())
    }
}

impl Entrant for Memory {
    type Caller = PolicyHandle;

    async fn start(stage: &Stage) -> Result<Self> {
        Ok(Self(builder(stage, Lease::Off)?.build()))
    }

    fn caller(&self, _number: usize) -> PolicyHandle {
        handle(&self.0)
    }

    async fn check(&self, subject: &str, takes: u64) -> Result<()> {
        let used = used(&self.0, subject).await?;
        ensure!(used == takes, "{takes} takes were granted and {used} counted");
        Ok(())
    }
}

impl Caller for PolicyHandle {
    async fn take(&mut self, subject: &str) -> Result<bool> {
        Ok(matches!(self.try_take().subject(subject).await?, Taken::Granted(_)))
    }
}

/// A limiter with a store, with or without leases.
pub(super) fn limiter(stage: &Stage, lease: Lease) -> Result<Limiter> {
    let join = if stage.url.contains('?') { '&' } else { '?' };
    let url = format!("{}{join}{TIMEOUT}", stage.url);
    Ok(builder(stage, lease)?.store_at(&url.parse()?)?.build())
}

fn builder(stage: &Stage, lease: Lease) -> Result<LimiterBuilder> {
    let limits: Vec<String> = stage.periods.iter().map(in_words).collect();
    let policy = Policy::new(POLICY, limits.iter().map(String::as_str))?;
    // A grant without the store would not be a decision.
    let policy = policy.with_lease(lease).with_when_store_fails(WhenStoreFails::Closed);
    Ok(Limiter::builder().with_policy(policy)?)
}

fn in_words(Period { name, seconds }: &Period) -> String {
    format!("{name}: {PLENTY} / {seconds} seconds from first call")
}

pub(super) fn handle(limiter: &Limiter) -> PolicyHandle {
    limiter.policy(POLICY).expect("it was just built")
}

/// The count of the longest window: shorter ones may have ended.
pub(super) async fn used(limiter: &Limiter, subject: &str) -> Result<u64> {
    let usage = limiter.usage(POLICY).subject(subject).await?;
    Ok(usage.limits.last().map_or(0, |limit| limit.used))
}
