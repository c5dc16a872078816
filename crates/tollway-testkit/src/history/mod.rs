//! The over-admission checker: what threads asked and were told, judged afterwards.
//!
//! A call is known by when it was asked and when it was answered, in the harness's time; the store acted somewhere
//! between. So a call counts against a stretch of time only if it lies wholly inside, and the checker never raises a
//! false alarm; and a denial is wrong only if even with every call that might have come before it the cost fitted.

use tollway_core::{Calendar, Span, Timestamp};

/// One limit, as far as the checker must know it.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// At most this much in each window.
    Window(u64, Calendar),
    /// At most `burst` at once, and `amount` in each `period` after.
    Bucket {
        /// How much refills in a period.
        amount: u64,
        /// The period.
        period: Span,
        /// How much is saved up.
        burst: u64,
    },
    /// At most this many held at once.
    Slots(u64),
}

/// From when it was asked to when it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Asked.
    pub invoke: Timestamp,
    /// Answered.
    pub complete: Timestamp,
}

/// What the caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Granted.
    Admitted,
    /// Granted before, under the same id.
    Repeated,
    /// Denied.
    Denied,
    /// No answer: it may have been applied.
    Unknown,
    /// Granted without the store; not claimed to be exact.
    Degraded,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The caller's id, if it gave one.
    pub id: Option<u64>,
    /// Whose line.
    pub key: u64,
    /// What it takes of each limit, in order.
    pub costs: Vec<u64>,
    /// When.
    pub when: Stretch,
    /// What it was told.
    pub told: Told,
    /// When the permit was given back or done, if it was: all of its cost comes back then.
    pub back: Option<Stretch>,
}

/// All calls under one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The limits.
    pub rules: Vec<Rule>,
    /// By how much the store's clock may differ from the harness's.
    pub clock_error: Span,
    /// The calls, in any order.
    pub calls: Vec<Call>,
}

/// What is wrong with a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which rule of the checker: `A-1`, `A-2`, `A-4`.
    pub rule: &'static str,
    /// What was seen.
    pub detail: String,
}

impl History {
    /// Judges all calls: safe, live, once.
    pub fn check(&self) -> Result<(), Fault> {
        let mut keys: Vec<u64> = self.calls.iter().map(|call| call.key).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let calls: Vec<&Call> = self.calls.iter().filter(|call| call.key == key).collect();
            for (index, rule) in self.rules.iter().enumerate() {
                self.safe(index, rule, &calls)?;
            }
            self.live(&calls)?;
            once(&calls)?;
        }
        Ok(())
    }

    fn safe(&self, limit: usize, rule: &Rule, calls: &[&Call]) -> Result<(), Fault> {
        let admitted: Vec<&Call> = calls.iter().copied().filter(|call| call.told == Told::Admitted).collect();
        match rule {
            Rule::Window(amount, calendar) => safe_window(limit, *amount, calendar, &admitted),
            Rule::Bucket { amount, period, burst } => {
                let rate = Rate { amount: *amount, period: *period, burst: *burst, error: self.clock_error };
                safe_bucket(limit, rate, &admitted)
            }
            Rule::Slots(amount) => safe_slots(limit, *amount, &admitted),
        }
    }

    /// a denial is wrong if the cost fitted all limits, whichever calls had come before.
    fn live(&self, calls: &[&Call]) -> Result<(), Fault> {
        for denied in calls.iter().filter(|call| call.told == Told::Denied) {
            let mut limits = self.rules.iter().enumerate();
            if limits.all(|(limit, rule)| self.surely_fitted(limit, rule, denied, calls)) {
                return fault("A-2", format!("denied though it fitted: {denied:?}"));
            }
        }
        Ok(())
    }

    fn surely_fitted(&self, limit: usize, rule: &Rule, denied: &Call, calls: &[&Call]) -> bool {
        let cost = u128::from(denied.costs[limit]);
        let counts = |call: &&&Call| matches!(call.told, Told::Admitted | Told::Unknown);
        let before = || calls.iter().filter(counts).filter(|call| call.when.invoke <= denied.when.complete);
        let cost_of = |call: &&Call| u128::from(call.costs[limit]);
        match rule {
            _ if cost == 0 => true,
            Rule::Window(amount, calendar) => {
                let (start, end) = calendar.window_at(denied.when.invoke);
                let inside = before().filter(|call| call.when.complete >= start);
                denied.when.complete < end && inside.map(cost_of).sum::<u128>() + cost <= u128::from(*amount)
            }
            Rule::Bucket { amount, period, burst } => before().map(|call| call.when.complete).all(|from| {
                let late = before().filter(|call| call.when.complete >= from);
                let used = late.map(cost_of).sum::<u128>() * micros(*period);
                let drained = micros(denied.when.invoke.since(from)) * u128::from(*amount);
                used + cost * micros(*period) <= u128::from(*burst) * micros(*period) + drained
            }),
            Rule::Slots(amount) => {
                let held =
                    before().filter(|call| call.back.is_none_or(|back| back.complete >= denied.when.invoke));
                held.count() < *amount as usize
            }
        }
    }
}

/// A-1 for windows: what lies wholly in one window, less what may have come back in it, is within the amount.
fn safe_window(limit: usize, amount: u64, calendar: &Calendar, calls: &[&Call]) -> Result<(), Fault> {
    for first in calls {
        let (start, end) = calendar.window_at(first.when.invoke);
        let inside = |when: &Stretch| start <= when.invoke && when.complete < end;
        let taken: u128 =
            calls.iter().filter(|call| inside(&call.when)).map(|call| u128::from(call.costs[limit])).sum();
        let back = calls.iter().filter(|call| call.back.is_some_and(|back| back.invoke < end));
        let back: u128 = back.map(|call| u128::from(call.costs[limit])).sum();
        if taken > u128::from(amount) + back {
            return fault(
                "A-1",
                format!("limit {limit}: {taken} of {amount} granted in the window from {start:?}"),
            );
        }
    }
    Ok(())
}

/// A bucket's rate and by how much clocks may differ.
#[derive(Clone, Copy)]
struct Rate {
    amount: u64,
    period: Span,
    burst: u64,
    error: Span,
}

/// A-1 for buckets: between any start and any end, at most the burst and what refills meanwhile.
fn safe_bucket(limit: usize, rate: Rate, calls: &[&Call]) -> Result<(), Fault> {
    let mut by_end = calls.to_vec();
    by_end.sort_by_key(|call| call.when.complete);
    for start in calls.iter().map(|call| call.when.invoke) {
        let mut granted = 0u128;
        for call in by_end.iter().filter(|call| call.when.invoke >= start) {
            granted += u128::from(call.costs[limit]);
            let end = call.when.complete;
            let back = calls.iter().filter(|call| call.back.is_some_and(|back| back.invoke <= end));
            let back: u128 = back.map(|call| u128::from(call.costs[limit])).sum();
            let refilled = micros(end.since(start).plus(rate.error)) * u128::from(rate.amount);
            if granted * micros(rate.period)
                > (u128::from(rate.burst) + back) * micros(rate.period) + refilled
            {
                return fault("A-1", format!("limit {limit}: {granted} granted from {start:?} to {end:?}"));
            }
        }
    }
    Ok(())
}

/// A-1 for slots: at no moment are more surely held than there are.
fn safe_slots(limit: usize, amount: u64, calls: &[&Call]) -> Result<(), Fault> {
    for moment in calls.iter().map(|call| call.when.complete) {
        let held =
            |call: &&&Call| call.when.complete <= moment && call.back.is_none_or(|back| moment < back.invoke);
        let held = calls.iter().filter(held).count();
        if held > amount as usize {
            return fault("A-1", format!("limit {limit}: {held} of {amount} slots held at {moment:?}"));
        }
    }
    Ok(())
}

/// of all calls with one id, one was counted.
fn once(calls: &[&Call]) -> Result<(), Fault> {
    for call in calls.iter().filter(|call| call.id.is_some()) {
        let counted =
            calls.iter().filter(|other| other.id == call.id && other.told == Told::Admitted).count();
        if counted > 1 {
            return fault("A-4", format!("the id {:?} was counted {counted} times", call.id));
        }
    }
    Ok(())
}

fn micros(span: Span) -> u128 {
    u128::from(span.as_micros())
}

fn fault(rule: &'static str, detail: String) -> Result<(), Fault> {
    Err(Fault { rule, detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(invoke: u64, complete: u64) -> Stretch {
        Stretch { invoke: Timestamp::from_secs(invoke), complete: Timestamp::from_secs(complete) }
    }

    fn call(cost: u64, invoke: u64, complete: u64, told: Told) -> Call {
        Call { id: None, key: 1, costs: vec![cost], when: secs(invoke, complete), told, back: None }
    }

    fn judge(rule: Rule, calls: Vec<Call>) -> Option<&'static str> {
        let history = History { rules: vec![rule], clock_error: Span::ZERO, calls };
        history.check().err().map(|fault| fault.rule)
    }

    fn window() -> Rule {
        Rule::Window(2, Calendar::Every(Span::from_secs(60)))
    }

    fn bucket() -> Rule {
        Rule::Bucket { amount: 1, period: Span::from_secs(10), burst: 2 }
    }

    #[test]
    fn a_full_window_is_fine_and_one_more_is_not() {
        let two = vec![call(1, 61, 62, Told::Admitted), call(1, 63, 64, Told::Admitted)];
        assert_eq!(judge(window(), two.clone()), None);
        let mut three = two.clone();
        three.push(call(1, 118, 119, Told::Admitted));
        assert_eq!(judge(window(), three), Some("A-1"));
        let mut over_the_edge = two;
        over_the_edge.push(call(1, 119, 121, Told::Admitted));
        assert_eq!(judge(window(), over_the_edge), None);
    }

    #[test]
    fn a_denial_in_an_empty_window_is_wrong_and_in_a_full_one_right() {
        assert_eq!(judge(window(), vec![call(1, 61, 62, Told::Denied)]), Some("A-2"));
        let full = vec![call(2, 61, 62, Told::Admitted), call(1, 63, 64, Told::Denied)];
        assert_eq!(judge(window(), full), None);
        let maybe_full = vec![call(2, 61, 70, Told::Unknown), call(1, 63, 64, Told::Denied)];
        assert_eq!(judge(window(), maybe_full), None);
        let fits_beside = vec![call(1, 61, 62, Told::Admitted), call(1, 63, 64, Told::Denied)];
        assert_eq!(judge(window(), fits_beside), Some("A-2"));
    }

    #[test]
    fn a_bucket_may_give_its_burst_and_what_refills() {
        let admitted = |ends: &[u64]| ends.iter().map(|end| call(1, end - 1, *end, Told::Admitted)).collect();
        assert_eq!(judge(bucket(), admitted(&[100, 100, 109, 119])), None);
        assert_eq!(judge(bucket(), admitted(&[100, 100, 100])), Some("A-1"));
        assert_eq!(judge(bucket(), admitted(&[100, 100, 104])), Some("A-1"));
        let mut denied: Vec<Call> = admitted(&[100, 100]);
        denied.push(call(1, 105, 106, Told::Denied));
        assert_eq!(judge(bucket(), denied.clone()), None);
        denied.push(call(1, 112, 113, Told::Denied));
        assert_eq!(judge(bucket(), denied), Some("A-2"));
    }

    #[test]
    fn slots_count_from_the_answer_until_the_release_is_asked() {
        let held = |from, until: Option<u64>| Call {
            back: until.map(|until| secs(until, until + 1)),
            ..call(1, from, from + 1, Told::Admitted)
        };
        assert_eq!(judge(Rule::Slots(1), vec![held(10, Some(20)), held(20, None)]), None);
        assert_eq!(judge(Rule::Slots(1), vec![held(10, Some(20)), held(15, None)]), Some("A-1"));
        assert_eq!(
            judge(Rule::Slots(1), vec![held(10, Some(20)), call(1, 30, 31, Told::Denied)]),
            Some("A-2")
        );
        assert_eq!(judge(Rule::Slots(1), vec![held(10, None), call(1, 30, 31, Told::Denied)]), None);
    }

    #[test]
    fn one_id_counts_once() {
        let with_id = |told| Call { id: Some(7), ..call(1, 61, 62, told) };
        assert_eq!(judge(window(), vec![with_id(Told::Admitted), with_id(Told::Repeated)]), None);
        assert_eq!(judge(window(), vec![with_id(Told::Admitted), with_id(Told::Admitted)]), Some("A-4"));
    }

    #[test]
    fn what_came_back_may_be_granted_again_and_degraded_is_not_judged() {
        let returned = Call { back: Some(secs(70, 71)), ..call(2, 61, 62, Told::Admitted) };
        assert_eq!(judge(window(), vec![returned, call(2, 71, 72, Told::Admitted)]), None);
        let degraded = vec![call(2, 61, 62, Told::Admitted), call(2, 61, 62, Told::Degraded)];
        assert_eq!(judge(window(), degraded), None);
    }

    #[test]
    fn lines_do_not_mix() {
        let other = Call { key: 2, ..call(2, 61, 62, Told::Admitted) };
        assert_eq!(judge(window(), vec![call(2, 61, 62, Told::Admitted), other]), None);
    }
}
