//! The over-admission checker: checks the recorded calls of threads afterwards.
//!
//! A call has a start and an end in the harness's time; the store acted somewhere between. A call counts in a window only if
//! it lies wholly inside, so there are no false alarms. A denial is wrong only if the cost fitted even after every call that
//! may have come before.

mod safe;

use tollway_core::{Calendar, Span, Timestamp};

use crate::calendar::{multiple_of, window_at};
use safe::Safety;

/// A process may repeat a denial for so long, although another one gave back meanwhile.
const SEEN_WITHIN: Span = Span::from_secs(1);

/// One limit, as the checker needs it.
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
    /// At most this much in a period; the previous window counts by the part that the period still covers.
    Sliding(u64, Span),
    /// At most this much in a period that begins with its first call.
    FromFirstCall(u64, Span),
    /// At most this many held at once.
    Slots(u64),
}

/// The time of a call, from request to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Asked.
    pub invoke: Timestamp,
    /// Answered.
    pub complete: Timestamp,
}

/// The answer to a call.
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
    /// Granted without the store, and so not exact.
    Degraded,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryCall {
    /// The caller's id, if it gave one.
    pub id: Option<u64>,
    /// The account.
    pub key: u64,
    /// What it takes of each limit, in order.
    pub costs: Vec<u64>,
    /// When.
    pub when: Stretch,
    /// Its answer.
    pub told: Told,
    /// When the permit was given back or done, if it was: all of its cost comes back then.
    pub back: Option<Stretch>,
}

/// All calls under one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The limits.
    pub rules: Vec<Rule>,
    /// How far the store's clock may differ from the harness's.
    pub clock_error: Span,
    /// The calls, in any order.
    pub calls: Vec<HistoryCall>,
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
    /// Checks all calls: safe, live, once.
    pub fn check(&self) -> Result<(), Fault> {
        let mut keys: Vec<u64> = self.calls.iter().map(|call| call.key).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let calls: Vec<&HistoryCall> = self.calls.iter().filter(|call| call.key == key).collect();
            for (index, rule) in self.rules.iter().enumerate() {
                self.safe(index, rule, &calls)?;
            }
            self.live(&calls)?;
            once(&calls)?;
        }
        Ok(())
    }

    fn safe(&self, limit: usize, rule: &Rule, calls: &[&HistoryCall]) -> Result<(), Fault> {
        let told = |told: Told| calls.iter().copied().filter(move |call| call.told == told).collect();
        Safety {
            limit,
            error: self.clock_error,
            admitted: told(Told::Admitted),
            unknown: told(Told::Unknown),
        }
        .check(rule)
    }

    /// a denial is wrong if the cost fitted all limits, whichever calls had come before.
    fn live(&self, calls: &[&HistoryCall]) -> Result<(), Fault> {
        for denied in calls.iter().filter(|call| call.told == Told::Denied) {
            let mut limits = self.rules.iter().enumerate();
            if limits.all(|(limit, rule)| self.surely_fitted(limit, rule, denied, calls)) {
                return fault("A-2", format!("denied though it fitted: {denied:?}"));
            }
        }
        Ok(())
    }

    fn surely_fitted(&self, limit: usize, rule: &Rule, denied: &HistoryCall, calls: &[&HistoryCall]) -> bool {
        let cost = u128::from(denied.costs[limit]);
        let counts = |call: &&&HistoryCall| matches!(call.told, Told::Admitted | Told::Unknown);
        let before = || calls.iter().filter(counts).filter(|call| call.when.invoke <= denied.when.complete);
        let cost_of = |call: &&HistoryCall| u128::from(call.costs[limit]);
        let error = self.clock_error;
        // The denial lies in this window only, whatever the store's clock showed.
        let surely_in = |(start, end): (Timestamp, Timestamp)| {
            denied.when.invoke.minus(error) >= start && denied.when.complete.plus(error) < end
        };
        // Calls that may count since then.
        let since = |start: Timestamp| before().filter(move |call| call.when.complete.plus(error) >= start);
        let taken = |start: Timestamp| since(start).map(cost_of).sum::<u128>();
        match rule {
            _ if cost == 0 => true,
            Rule::Window(amount, calendar) => {
                let window = window_at(calendar, denied.when.invoke);
                surely_in(window) && taken(window.0) + cost <= u128::from(*amount)
            }
            Rule::Sliding(amount, period) => {
                let (start, end) = multiple_of(*period, denied.when.invoke);
                let both = taken(start.minus(*period));
                let covered = micros(end.since(denied.when.invoke.minus(error)));
                let used = taken(start) * micros(*period) + (both - taken(start)) * covered;
                surely_in((start, end))
                    && used + cost * micros(*period) <= u128::from(*amount) * micros(*period)
            }
            Rule::FromFirstCall(amount, period) => {
                taken(denied.when.invoke.minus(period.plus(error))) + cost <= u128::from(*amount)
            }
            Rule::Bucket { amount, period, burst } => before().map(|call| call.when.complete).all(|from| {
                let late = before().filter(|call| call.when.complete >= from);
                let used = late.map(cost_of).sum::<u128>() * micros(*period);
                let elapsed = denied.when.invoke.minus(error.times(2)).since(from);
                let drained = micros(elapsed) * u128::from(*amount);
                used + cost * micros(*period) <= u128::from(*burst) * micros(*period) + drained
            }),
            Rule::Slots(amount) => {
                let seen = |back: Stretch| back.complete.plus(SEEN_WITHIN) < denied.when.invoke;
                let held = before().filter(|call| !call.back.is_some_and(seen));
                held.count() < *amount as usize
            }
        }
    }
}

/// of all calls with one id, one was counted.
fn once(calls: &[&HistoryCall]) -> Result<(), Fault> {
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

    fn call(cost: u64, invoke: u64, complete: u64, told: Told) -> HistoryCall {
        HistoryCall { id: None, key: 1, costs: vec![cost], when: secs(invoke, complete), told, back: None }
    }

    fn judge(rule: Rule, calls: Vec<HistoryCall>) -> Option<&'static str> {
        judge_with_error(rule, calls, 0)
    }

    fn judge_with_error(rule: Rule, calls: Vec<HistoryCall>, error_secs: u64) -> Option<&'static str> {
        let history = History { rules: vec![rule], clock_error: Span::from_secs(error_secs), calls };
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
        let mut denied: Vec<HistoryCall> = admitted(&[100, 100]);
        denied.push(call(1, 105, 106, Told::Denied));
        assert_eq!(judge(bucket(), denied.clone()), None);
        denied.push(call(1, 112, 113, Told::Denied));
        assert_eq!(judge(bucket(), denied), Some("A-2"));
    }

    /// Ten of the previous minute, of which 54 seconds still count, are nine.
    #[test]
    fn a_sliding_window_counts_the_one_before_by_its_part() {
        let sliding = || Rule::Sliding(10, Span::from_mins(1));
        let then =
            |cost, invoke, told| vec![call(10, 61, 62, Told::Admitted), call(cost, invoke, invoke + 1, told)];
        assert_eq!(judge(sliding(), then(1, 63, Told::Admitted)), Some("A-1"));
        assert_eq!(judge(sliding(), then(1, 125, Told::Admitted)), None);
        assert_eq!(judge(sliding(), then(2, 125, Told::Admitted)), Some("A-1"));
        assert_eq!(judge(sliding(), then(2, 125, Told::Denied)), None);
        assert_eq!(judge(sliding(), then(1, 126, Told::Denied)), Some("A-2"));
        assert_eq!(
            judge(sliding(), then(2, 119, Told::Admitted)),
            None,
            "it may have acted in either window"
        );
        assert_eq!(judge(sliding(), then(10, 183, Told::Admitted)), None);
    }

    #[test]
    fn a_window_from_first_call_is_followed_from_one_to_the_next() {
        let from_first = || Rule::FromFirstCall(2, Span::from_mins(1));
        let admitted = |invokes: &[u64]| {
            invokes.iter().map(|invoke| call(1, *invoke, invoke + 1, Told::Admitted)).collect::<Vec<_>>()
        };
        assert_eq!(judge(from_first(), admitted(&[61, 100, 125, 126])), None);
        assert_eq!(judge(from_first(), admitted(&[61, 100, 110])), Some("A-1"));
        assert_eq!(judge(from_first(), admitted(&[61, 100, 125, 126, 180])), Some("A-1"));
        assert_eq!(
            judge(from_first(), admitted(&[61, 100, 120, 125, 126])),
            None,
            "one acted in either window"
        );
        let then_denied = |invoke| {
            let mut calls = admitted(&[61, 62]);
            calls.push(call(1, invoke, invoke + 1, Told::Denied));
            judge(from_first(), calls)
        };
        assert_eq!([then_denied(63), then_denied(121), then_denied(125)], [None, None, Some("A-2")]);
    }

    /// A returned call may have started the window: then the start of the next window is unknown.
    #[test]
    fn returned_first_call_leaves_the_window_start_unknown() {
        let from_first = Rule::FromFirstCall(2, Span::from_mins(1));
        let mut calls = vec![HistoryCall { back: Some(secs(63, 64)), ..call(1, 61, 62, Told::Admitted) }];
        calls.extend([80, 81, 130, 139, 141].map(|invoke| call(1, invoke, invoke + 1, Told::Admitted)));
        assert_eq!(judge(from_first.clone(), calls.clone()), None);
        calls.extend([90, 91].map(|invoke| call(1, invoke, invoke + 1, Told::Admitted)));
        assert_eq!(judge(from_first, calls), Some("A-1"));
    }

    /// A clock within its declared error causes no fault; beyond it, it does.
    #[test]
    fn a_clock_error_is_allowed_for() {
        let late = vec![call(2, 61, 62, Told::Admitted), call(1, 118, 119, Told::Admitted)];
        let quick = vec![call(2, 99, 100, Told::Admitted), call(1, 104, 105, Told::Admitted)];
        let denied = vec![call(2, 58, 58, Told::Admitted), call(1, 61, 62, Told::Denied)];
        let refilled = vec![call(2, 99, 100, Told::Admitted), call(1, 112, 113, Told::Denied)];
        for (rule, calls, wrong) in [
            (window(), late, "A-1"),
            (bucket(), quick, "A-1"),
            (window(), denied, "A-2"),
            (bucket(), refilled, "A-2"),
        ] {
            assert_eq!(judge_with_error(rule.clone(), calls.clone(), 0), Some(wrong));
            assert_eq!(judge_with_error(rule, calls, 2), None);
        }
        let early = vec![call(2, 64, 65, Told::Admitted), call(1, 100, 101, Told::Admitted)];
        assert_eq!(judge_with_error(window(), early, 2), Some("A-1"));
    }

    #[test]
    fn slots_count_from_the_answer_until_the_release_is_asked() {
        let held = |from, until: Option<u64>| HistoryCall {
            back: until.map(|until| secs(until, until + 1)),
            ..call(1, from, from + 1, Told::Admitted)
        };
        assert_eq!(judge(Rule::Slots(1), vec![held(10, Some(20)), held(20, None)]), None);
        assert_eq!(judge(Rule::Slots(1), vec![held(10, Some(20)), held(15, None)]), Some("A-1"));
        assert_eq!(
            judge(Rule::Slots(1), vec![held(10, Some(20)), call(1, 30, 31, Told::Denied)]),
            Some("A-2")
        );
        let late = judge(Rule::Slots(1), vec![held(10, Some(20)), call(1, 22, 23, Told::Denied)]);
        assert_eq!(late, None, "seen a second late");
        assert_eq!(judge(Rule::Slots(1), vec![held(10, None), call(1, 30, 31, Told::Denied)]), None);
    }

    #[test]
    fn one_id_counts_once() {
        let with_id = |told| HistoryCall { id: Some(7), ..call(1, 61, 62, told) };
        assert_eq!(judge(window(), vec![with_id(Told::Admitted), with_id(Told::Repeated)]), None);
        assert_eq!(judge(window(), vec![with_id(Told::Admitted), with_id(Told::Admitted)]), Some("A-4"));
    }

    #[test]
    fn returned_units_may_be_granted_again_and_degraded_calls_are_ignored() {
        let returned = HistoryCall { back: Some(secs(70, 71)), ..call(2, 61, 62, Told::Admitted) };
        assert_eq!(judge(window(), vec![returned, call(2, 71, 72, Told::Admitted)]), None);
        let degraded = vec![call(2, 61, 62, Told::Admitted), call(2, 61, 62, Told::Degraded)];
        assert_eq!(judge(window(), degraded), None);
    }

    #[test]
    fn accounts_are_checked_separately() {
        let other = HistoryCall { key: 2, ..call(2, 61, 62, Told::Admitted) };
        assert_eq!(judge(window(), vec![call(2, 61, 62, Told::Admitted), other]), None);
    }
}
