//! An account of several windows and buckets packed beside its key: up to six in 96 bytes, up to sixteen in 240.

use super::Expiry;
use super::meter::{MeterDebit, PackedMeter};
use crate::algorithm::Meter;
use crate::bounds::LIMITS_PER_POLICY_MAX;
use crate::decide::deny_meters;
use crate::decision::{FastDecision, Reading};
use crate::{Account, Cost, Policy, PolicyKey, Span, Timestamp};

/// Up to six meters: nearly every account of several limits.
pub type PackedSix = PackedMany<6>;

/// The meters of any policy.
pub type PackedSixteen = PackedMany<LIMITS_PER_POLICY_MAX>;

/// A packed account of up to `METERS` windows and buckets and nothing else.
///
/// It does not store the meters' identities: the caller must keep the [`PolicyKey`] it was packed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedMany<const METERS: usize> {
    seen: Timestamp,
    expires: Expiry,
    /// Each meter's second number, and the low and high bits of its first: 48 bits suffice for nearly all.
    /// Only as many entries as the policy has limits are used.
    seconds: [u64; METERS],
    lows: [u32; METERS],
    highs: [u16; METERS],
}

/// The memory of one meter.
struct MeterCell<'a> {
    second: &'a mut u64,
    low: &'a mut u32,
    high: &'a mut u16,
}

/// One of the meters has no room.
struct Full;

const _: () = assert!(size_of::<PackedSix>() == 96, "two cache lines with its key");
const _: () = assert!(size_of::<PackedSixteen>() == 240, "five cache lines with its key");

impl MeterCell<'_> {
    #[inline(always)]
    fn meter(&self) -> PackedMeter {
        meter_of(*self.second, *self.low, *self.high)
    }

    /// Stores a meter, if it fits.
    #[inline(always)]
    fn put(self, meter: PackedMeter) -> Option<()> {
        let (first, second) = meter.numbers();
        *self.high = u16::try_from(first >> 32).ok()?;
        *self.low = first as u32;
        *self.second = second;
        Some(())
    }
}

#[inline(always)]
fn meter_of(second: u64, low: u32, high: u16) -> PackedMeter {
    PackedMeter::of_numbers(u64::from(high) << 32 | u64::from(low), second)
}

// Of each size, so that they are compiled here: stores would compile a generic one without the functions that it calls.
macro_rules! decide_fast {
    ($($type:ty),*) => {$(
        impl $type {
            /// The same as [`decide_fast`](crate::decide_fast), in place, with the key it was packed with.
            #[inline(never)]
            pub fn decide_fast(
                &mut self,
                key: &PolicyKey,
                policy: &Policy,
                cost: &Cost,
                now: Timestamp,
            ) -> Option<FastDecision> {
                self.decide(key, policy, cost, now)
            }
        }
    )*};
}
decide_fast!(PackedSix, PackedSixteen);

impl<const METERS: usize> PackedMany<METERS> {
    /// How many meters fit.
    pub const METERS: usize = METERS;

    /// Packs the account, if it fits and its meters are those of the policy with this key.
    pub fn pack(account: &Account, key: &PolicyKey) -> Option<Self> {
        let identities = account.meters.iter().map(|meter| meter.identity);
        let fits = account.extra.is_none() && account.meters.len() <= METERS;
        if !fits || !identities.eq(key.identities().iter().copied()) {
            return None;
        }
        let (seconds, lows, highs) = ([0; METERS], [0; METERS], [0; METERS]);
        let mut packed =
            Self { seen: account.seen, expires: Expiry::new(account.expires)?, seconds, lows, highs };
        for (meter, cell) in account.meters.iter().zip(packed.cells()) {
            cell.put(PackedMeter::pack(&meter.state)?)?;
        }
        Some(packed)
    }

    /// Unpacks the account with the key it was packed with. It may expire up to a second later than it did.
    pub fn unpack(&self, key: &PolicyKey) -> Account {
        let meters = self.meters(key.identities()).collect();
        Account { seen: self.seen, expires: self.expires(), meters, extra: None }
    }

    /// The newest clock reading that a change has recorded.
    pub fn seen(&self) -> Timestamp {
        self.seen
    }

    /// When the account may be deleted.
    pub fn expires(&self) -> Timestamp {
        self.expires.time()
    }

    /// The readings of its meters in order. The key it was packed with must match the policy's limits.
    pub fn readings(&self, policy: &Policy, now: Timestamp) -> impl Iterator<Item = Reading> {
        let meters = self.meters(policy.key().identities());
        let (seen, at) = (self.seen, now.max(self.seen));
        policy.limits().iter().zip(meters).map(move |(limit, meter)| limit.read(&meter, seen, at))
    }

    #[inline(always)]
    fn decide(
        &mut self,
        key: &PolicyKey,
        policy: &Policy,
        cost: &Cost,
        now: Timestamp,
    ) -> Option<FastDecision> {
        if policy.shadow() || !key.has_limits_of(policy) {
            return None;
        }
        let now = now.max(self.seen);
        // All or nothing: if a limit has no room, the debits of the limits before it are undone.
        let before = *self;
        let taken = self.take(policy, cost, now);
        if let Some(Ok(good_until)) = taken {
            return Some(FastDecision::Granted { now, good_until });
        }
        *self = before;
        taken.and_then(|_| self.deny_now(policy, cost, now))
    }

    /// Debits the meters in order and returns until when the permit may begin; stops at the first without room.
    #[inline(always)]
    fn take(&mut self, policy: &Policy, cost: &Cost, now: Timestamp) -> Option<Result<Timestamp, Full>> {
        let (elapsed, edge) = (now.since(self.seen), policy.edge());
        let (mut fresh_in, mut good_until) = (Span::ZERO, Timestamp::MAX);
        for ((limit, amount), cell) in policy.amounts(cost).zip(self.cells()) {
            let Ok(debited) = cell.meter().take(limit, MeterDebit { amount, elapsed, now, edge })? else {
                return Some(Err(Full));
            };
            cell.put(debited.meter)?;
            fresh_in = fresh_in.max(debited.fresh_in);
            if amount > 0 {
                good_until = good_until.min(debited.good_until);
            }
        }
        self.seen = now;
        self.expires = Expiry::at_most(now.plus(fresh_in));
        Some(Ok(good_until))
    }

    #[cold]
    fn deny_now(&mut self, policy: &Policy, cost: &Cost, now: Timestamp) -> Option<FastDecision> {
        for (limit, meter) in policy.limits().iter().zip(self.packed_meters()) {
            self.expires.not_before(meter.refilled_at(limit, self.seen));
        }
        let meters = self.meters(policy.key().identities());
        deny_meters(policy, cost, self.seen, meters, now)
    }

    fn meters(&self, identities: &[u32]) -> impl Iterator<Item = Meter> + Clone {
        let meter =
            |(identity, meter): (&u32, PackedMeter)| Meter { identity: *identity, state: meter.unpack() };
        identities.iter().zip(self.packed_meters()).map(meter)
    }

    fn packed_meters(&self) -> impl Iterator<Item = PackedMeter> + Clone + use<METERS> {
        let numbers = self.seconds.into_iter().zip(self.lows).zip(self.highs);
        numbers.map(|((second, low), high)| meter_of(second, low, high))
    }

    #[inline(always)]
    fn cells(&mut self) -> impl Iterator<Item = MeterCell<'_>> {
        let numbers = self.seconds.iter_mut().zip(&mut self.lows).zip(&mut self.highs);
        numbers.map(|((second, low), high)| MeterCell { second, low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::read_all;
    use std::sync::Arc;

    use crate::{Charge, PermitId, Subject, decide_fast};
    use proptest::prelude::*;

    const LIMITS: [&str; 16] = [
        "7 / second",
        "30 tokens / minute",
        "40 / 90 seconds from first call",
        "50 tokens / 3 minutes bucket",
        "11 / 7 seconds bucket burst 13",
        "2M bytes / second bucket",
        "60 / 2 minutes",
        "70 tokens / 5 minutes",
        "31 / 20 seconds from first call",
        "80 tokens / 4 minutes bucket",
        "17 / 9 seconds bucket burst 19",
        "3M bytes / 2 seconds bucket",
        "90 / 10 minutes",
        "100 tokens / 15 minutes",
        "51 / 45 seconds from first call",
        "5M bytes / 3 seconds bucket",
    ];

    /// A debit that makes a count too large to pack changes nothing; the caller must unpack the account.
    #[test]
    fn counts_that_are_too_large_are_not_packed() {
        const LARGE: u64 = 1 << 48;
        let limits = [format!("{} / day", 2 * LARGE), format!("{} / hour bucket", 2 * LARGE)];
        let policy = Policy::new("p", limits.iter().map(String::as_str)).unwrap();
        let (mut account, now) = (Account::new(&policy), Timestamp::from_secs(1_700_000_000));
        let mut packed = PackedSix::pack(&account, policy.key()).unwrap();
        let cost = policy.cost([("requests", LARGE)]).unwrap();
        let before = packed;
        assert_eq!(packed.decide_fast(policy.key(), &policy, &cost, now), None);
        assert_eq!(packed, before);
        decide_fast(&policy, &cost, &mut account, PermitId(0), now).unwrap();
        assert_eq!(PackedSix::pack(&account, policy.key()), None);
    }

    type Takes = Vec<(u64, u64, u64)>;

    fn takes() -> impl Strategy<Value = Takes> {
        proptest::collection::vec((0..40_000u64, 0..4u64, 0..60u64), 1..80)
    }

    proptest! {
        /// Packed and unpacked accounts return the same decisions and keep the same meters.
        #[test]
        fn packed_and_unpacked_accounts_agree(
            six in proptest::sample::subsequence(LIMITS.to_vec(), 2..=6),
            sixteen in proptest::sample::subsequence(LIMITS.to_vec(), 7..=16),
            edge in prop_oneof![Just(0), Just(20)],
            takes in takes(),
        ) {
            agrees::<6>(six, edge, &takes)?;
            agrees::<16>(sixteen, edge, &takes)?;
        }
    }

    fn agrees<const METERS: usize>(which: Vec<&str>, edge: u64, takes: &Takes) -> Result<(), TestCaseError> {
        let policy = Policy::new("p", which).unwrap().with_edge(Span::from_millis(edge));
        let mut now = Timestamp::from_secs(1_700_000_000);
        let mut account = Account::new(&policy);
        let mut packed = PackedMany::<METERS>::pack(&account, policy.key()).unwrap();
        for (millis, requests, tokens) in takes.iter().copied() {
            now = now.plus(Span::from_millis(millis * millis / 40_000));
            let amounts = [("requests", requests), ("tokens", tokens), ("bytes", tokens * 40_000)];
            let counted = amounts
                .into_iter()
                .filter(|(name, _)| policy.units().iter().any(|unit| unit.as_str() == *name));
            let cost = policy.cost(counted).unwrap();
            let wanted =
                decide_fast(&policy, &cost, &mut account, PermitId(0), now).map(|(decision, _)| decision);
            prop_assert_eq!(packed.decide(policy.key(), &policy, &cost, now), wanted);
            let unpacked = packed.unpack(policy.key());
            prop_assert_eq!(&unpacked.meters, &account.meters);
            prop_assert!(unpacked.expires >= account.expires);
            let readings: Vec<Reading> = packed.readings(&policy, now).collect();
            let charge = Charge::new(Arc::new(policy.clone()), Subject::SHARED).with_cost(cost);
            let whole = read_all(&[charge], std::slice::from_ref(&account), now);
            prop_assert_eq!(&readings, &whole[0].readings);
        }
        Ok(())
    }
}
