//! An account of several windows and buckets packed into 96 bytes: two cache lines with its key.

use super::Expiry;
use super::meter::{MeterDebit, PackedMeter};
use crate::algorithm::Meter;
use crate::decide::deny_meters;
use crate::decision::{FastDecision, Reading};
use crate::{Account, Cost, Policy, PolicyKey, Span, Timestamp};

/// The most meters that fit.
const METERS_MAX: usize = 6;

/// A packed account of up to six windows and buckets and nothing else.
///
/// It does not store the meters' identities: the caller must keep the [`PolicyKey`] it was packed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedMany {
    seen: Timestamp,
    expires: Expiry,
    /// Each meter's second number, and the low and high bits of its first: 48 bits suffice for nearly all.
    /// Only as many entries as the policy has limits are used.
    seconds: [u64; METERS_MAX],
    lows: [u32; METERS_MAX],
    highs: [u16; METERS_MAX],
}

/// The memory of one meter.
struct MeterCell<'a> {
    second: &'a mut u64,
    low: &'a mut u32,
    high: &'a mut u16,
}

/// One of the meters has no room.
struct Full;

const _: () = assert!(size_of::<PackedMany>() == 96, "two cache lines with its key");

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

impl PackedMany {
    /// Packs the account, if it fits and its meters are those of the policy with this key.
    pub fn pack(account: &Account, key: &PolicyKey) -> Option<Self> {
        let identities = account.meters.iter().map(|meter| meter.identity);
        let fits = account.extra.is_none() && account.meters.len() <= METERS_MAX;
        if !fits || !identities.eq(key.identities().iter().copied()) {
            return None;
        }
        let mut packed =
            Self { seen: account.seen, expires: Expiry::new(account.expires)?, ..Self::default() };
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

    /// The same as [`decide_fast`](crate::decide_fast), in place, with the key it was packed with.
    #[inline(never)]
    pub fn decide_fast(
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
            let mut meter = cell.meter();
            let Ok(debited) = meter.take(limit, MeterDebit { amount, elapsed, now, edge })? else {
                return Some(Err(Full));
            };
            cell.put(meter)?;
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

    fn packed_meters(&self) -> impl Iterator<Item = PackedMeter> + Clone + use<> {
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

    const LIMITS: [&str; 6] = [
        "7 / second",
        "30 tokens / minute",
        "40 / 90 seconds from first call",
        "50 tokens / 3 minutes bucket",
        "11 / 7 seconds bucket burst 13",
        "2M bytes / second bucket",
    ];

    /// A debit that makes a count too large to pack changes nothing; the caller must unpack the account.
    #[test]
    fn counts_that_are_too_large_are_not_packed() {
        const LARGE: u64 = 1 << 48;
        let limits = [format!("{} / day", 2 * LARGE), format!("{} / hour bucket", 2 * LARGE)];
        let policy = Policy::new("p", limits.iter().map(String::as_str)).unwrap();
        let (mut account, now) = (Account::new(&policy), Timestamp::from_secs(1_700_000_000));
        let mut packed = PackedMany::pack(&account, policy.key()).unwrap();
        let cost = policy.cost([("requests", LARGE)]).unwrap();
        let before = packed;
        assert_eq!(packed.decide_fast(policy.key(), &policy, &cost, now), None);
        assert_eq!(packed, before);
        decide_fast(&policy, &cost, &mut account, PermitId(0), now).unwrap();
        assert_eq!(PackedMany::pack(&account, policy.key()), None);
    }

    proptest! {
        /// Packed and unpacked accounts return the same decisions and keep the same meters.
        #[test]
        fn packed_and_unpacked_accounts_agree(
            which in proptest::sample::subsequence(LIMITS.to_vec(), 2..=6),
            edge in prop_oneof![Just(0), Just(20)],
            takes in proptest::collection::vec((0..40_000u64, 0..4u64, 0..60u64), 1..80),
        ) {
            let policy = Policy::new("p", which).unwrap().with_edge(Span::from_millis(edge));
            let mut now = Timestamp::from_secs(1_700_000_000);
            let mut account = Account::new(&policy);
            let mut packed = PackedMany::pack(&account, policy.key()).unwrap();
            for (millis, requests, tokens) in takes {
                now = now.plus(Span::from_millis(millis * millis / 40_000));
                let amounts = [("requests", requests), ("tokens", tokens), ("bytes", tokens * 40_000)];
                let counted = amounts.into_iter().filter(|(name, _)| policy.units().iter().any(|unit| unit.as_str() == *name));
                let cost = policy.cost(counted).unwrap();
                let wanted = decide_fast(&policy, &cost, &mut account, PermitId(0), now).map(|(decision, _)| decision);
                prop_assert_eq!(packed.decide_fast(policy.key(), &policy, &cost, now), wanted);
                let unpacked = packed.unpack(policy.key());
                prop_assert_eq!(&unpacked.meters, &account.meters);
                prop_assert!(unpacked.expires >= account.expires);
                let readings: Vec<Reading> = packed.readings(&policy, now).collect();
                let charge = Charge::new(Arc::new(policy.clone()), Subject::SHARED).with_cost(cost);
                let whole = read_all(&[charge], std::slice::from_ref(&account), now);
                prop_assert_eq!(&readings, &whole[0].readings);
            }
        }
    }
}
