//! A line of several windows and buckets in 96 bytes: with its key it takes two cache lines.

use super::Expiry;
use super::meter::{Charge, PackedMeter};
use crate::algorithm::Meter;
use crate::decide::deny_meters;
use crate::decision::{FastDecision, Reading};
use crate::{Account, Cost, Policy, PolicyKey, Span, Timestamp};

/// How many meters fit.
const METERS_MAX: usize = 6;

/// A line of up to six windows and buckets and nothing else.
///
/// Whose meters they are it does not say: they are those of the policy that it was packed for, in its order. Whoever keeps
/// it must know that policy's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedMany {
    seen: Timestamp,
    expires: Expiry,
    /// Of each meter the second number, and of the first the lower and the higher bits; 48 are enough for nearly all. As many
    /// as the policy has limits; the others are not used.
    seconds: [u64; METERS_MAX],
    lows: [u32; METERS_MAX],
    highs: [u16; METERS_MAX],
}

/// Where a meter lies.
struct Place<'a> {
    second: &'a mut u64,
    low: &'a mut u32,
    high: &'a mut u16,
}

/// One of the meters has no room.
struct Full;

const _: () = assert!(size_of::<PackedMany>() == 96, "as it says");

impl Place<'_> {
    #[inline(always)]
    fn meter(&self) -> PackedMeter {
        meter_of(*self.second, *self.low, *self.high)
    }

    /// Puts a meter here, if it fits.
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
    /// The line in 96 bytes, if it fits and its meters are those of the policy with this key.
    pub fn pack(line: &Account, key: &PolicyKey) -> Option<Self> {
        let whose = line.meters.iter().map(|meter| meter.identity);
        let fits = line.extra.is_none() && line.meters.len() <= METERS_MAX;
        if !fits || !whose.eq(key.identities().iter().copied()) {
            return None;
        }
        let mut packed = Self { seen: line.seen, expires: Expiry::new(line.expires)?, ..Self::default() };
        for (meter, place) in line.meters.iter().zip(packed.places()) {
            place.put(PackedMeter::pack(&meter.state)?)?;
        }
        Some(packed)
    }

    /// The line again, given the key that it was packed with. It may live a second longer than it did.
    pub fn unpack(&self, key: &PolicyKey) -> Account {
        let meters = self.meters(key.identities()).collect();
        Account { seen: self.seen, expires: self.expires(), meters, extra: None }
    }

    /// When the line may be forgotten.
    pub fn expires(&self) -> Timestamp {
        self.expires.time()
    }

    /// What its meters show, one after the other; given the key that it was packed with, which must be of the policy's limits.
    pub fn readings(&self, policy: &Policy, now: Timestamp) -> impl Iterator<Item = Reading> {
        let meters = self.meters(policy.key().identities());
        let (seen, at) = (self.seen, now.max(self.seen));
        policy.limits().iter().zip(meters).map(move |(limit, meter)| limit.read(&meter, seen, at))
    }

    /// What [`decide_fast`](crate::decide_fast) does, where the line lies; given the key that it was packed with.
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
        // All or nothing (I3): where a limit has no room, those before it get back what was taken from them.
        let before = *self;
        let taken = self.take(policy, cost, now);
        if let Some(Ok(good_until)) = taken {
            return Some(FastDecision::Granted { now, good_until });
        }
        *self = before;
        taken.and_then(|_| self.deny_now(policy, cost, now))
    }

    /// Takes from one meter after the other, and says until when the permit may begin; or stops at one that has no room.
    #[inline(always)]
    fn take(&mut self, policy: &Policy, cost: &Cost, now: Timestamp) -> Option<Result<Timestamp, Full>> {
        let (elapsed, edge) = (now.since(self.seen), policy.edge());
        let (mut new_in, mut good_until) = (Span::ZERO, Timestamp::MAX);
        for ((limit, amount), place) in policy.amounts(cost).zip(self.places()) {
            let mut meter = place.meter();
            let Ok(debited) = meter.take(limit, Charge { amount, elapsed, now, edge })? else {
                return Some(Err(Full));
            };
            place.put(meter)?;
            new_in = new_in.max(debited.new_in);
            if amount > 0 {
                good_until = good_until.min(debited.good_until);
            }
        }
        self.seen = now;
        self.expires = Expiry::at_most(now.plus(new_in));
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
    fn places(&mut self) -> impl Iterator<Item = Place<'_>> {
        let numbers = self.seconds.iter_mut().zip(&mut self.lows).zip(&mut self.highs);
        numbers.map(|((second, low), high)| Place { second, low, high })
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

    /// What does not fit is left as it was, for whoever keeps whole lines.
    #[test]
    fn counts_that_are_too_large_are_not_packed() {
        const LARGE: u64 = 1 << 48;
        let limits = [format!("{} / day", 2 * LARGE), format!("{} / hour bucket", 2 * LARGE)];
        let policy = Policy::new("p", limits.iter().map(String::as_str)).unwrap();
        let (mut line, now) = (Account::new(&policy), Timestamp::from_secs(1_700_000_000));
        let mut packed = PackedMany::pack(&line, policy.key()).unwrap();
        let cost = policy.cost([("requests", LARGE)]).unwrap();
        let before = packed;
        assert_eq!(packed.decide_fast(policy.key(), &policy, &cost, now), None);
        assert_eq!(packed, before);
        decide_fast(&policy, &cost, &mut line, PermitId(0), now).unwrap();
        assert_eq!(PackedMany::pack(&line, policy.key()), None);
    }

    proptest! {
        /// Packed or not, the same takes come to the same answers, and leave the same meters.
        #[test]
        fn packed_and_whole_lines_agree(
            which in proptest::sample::subsequence(LIMITS.to_vec(), 2..=6),
            edge in prop_oneof![Just(0), Just(20)],
            takes in proptest::collection::vec((0..40_000u64, 0..4u64, 0..60u64), 1..80),
        ) {
            let policy = Policy::new("p", which).unwrap().with_edge(Span::from_millis(edge));
            let mut now = Timestamp::from_secs(1_700_000_000);
            let mut line = Account::new(&policy);
            let mut packed = PackedMany::pack(&line, policy.key()).unwrap();
            for (millis, requests, tokens) in takes {
                now = now.plus(Span::from_millis(millis * millis / 40_000));
                let amounts = [("requests", requests), ("tokens", tokens), ("bytes", tokens * 40_000)];
                let counted = amounts.into_iter().filter(|(name, _)| policy.units().iter().any(|unit| unit.as_str() == *name));
                let cost = policy.cost(counted).unwrap();
                let wanted = decide_fast(&policy, &cost, &mut line, PermitId(0), now).map(|(decision, _)| decision);
                prop_assert_eq!(packed.decide_fast(policy.key(), &policy, &cost, now), wanted);
                let unpacked = packed.unpack(policy.key());
                prop_assert_eq!(&unpacked.meters, &line.meters);
                prop_assert!(unpacked.expires >= line.expires);
                let readings: Vec<Reading> = packed.readings(&policy, now).collect();
                let charge = Charge::new(Arc::new(policy.clone()), Subject::SHARED).with_cost(cost);
                let whole = read_all(&[charge], std::slice::from_ref(&line), now);
                prop_assert_eq!(&readings, &whole[0].readings);
            }
        }
    }
}
