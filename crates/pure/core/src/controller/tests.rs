//! One test for each rule of the controllers.

use super::*;
use crate::bounds::AMOUNT_MAX;

/// The settings of the documented Notion entry.
const NOTION: AimdSettings = AimdSettings {
    initial_rate: 2_000_000,
    min_rate: 300_000,
    max_rate: 3_500_000,
    increase_step: 100_000,
    decrease_factor: 500,
};

/// How long a call may take.
pub(super) const TIMEOUT: Span = Span::from_secs(60);

/// A controller and the store's side of it: the time, the count of grants and the newest pace.
pub(super) struct Rig {
    pub(super) controller: Controller,
    pub(super) now: Timestamp,
    pub(super) grants: u64,
    pub(super) pace: Pace,
    pub(super) keep: Keep,
}

impl Rig {
    fn new(controller: Controller) -> Self {
        let now = Timestamp::from_secs(1_000);
        Self { pace: controller.pace(now), controller, now, grants: 0, keep: Keep::default() }
    }

    pub(super) fn auto() -> Self {
        Self::new(Controller::Auto(Box::default()))
    }

    fn aimd() -> Self {
        Self::new(Controller::Aimd(Aimd::new(NOTION).unwrap()))
    }

    pub(super) fn report(
        &mut self,
        accepted: u64,
        refusal: Option<RateRefusal>,
        quotas: &[VendorQuota],
    ) -> Pace {
        let (now, grants, accepted_cut) = (self.now, self.grants, self.pace.cut);
        let answered = accepted + u64::from(refusal.is_some());
        self.pace = self.controller.report(&Report {
            now,
            grants,
            accepted,
            answered,
            failed: 0,
            timeout: TIMEOUT,
            accepted_cut,
            refusal,
            quotas,
            keep: self.keep,
        });
        self.pace
    }

    pub(super) fn accept(&mut self, calls: u64) -> Pace {
        self.grants += calls;
        self.report(calls, None, &[])
    }

    pub(super) fn refuse(&mut self, cut: u64, wait: Option<u64>) -> Pace {
        self.grants += 1;
        let wait = wait.map(Span::from_secs);
        self.report(0, Some(RateRefusal { cut, wait, named: None }), &[])
    }

    pub(super) fn pass(&mut self, seconds: u64) {
        self.now = self.now.plus(Span::from_secs(seconds));
    }

    /// Accepts what the pace grants in each of these seconds.
    pub(super) fn run(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.pass(1);
            let calls = self.pace.rate / ONE_CALL;
            self.accept(calls);
        }
    }

    /// A vendor with a bucket of 10 a second was found and its ceiling learned.
    pub(super) fn with_ceiling() -> Self {
        let mut rig = Self::auto();
        rig.run(12);
        rig.refuse(rig.pace.cut, Some(1));
        rig.pass(1);
        rig.accept(1);
        rig
    }
}

#[test]
fn aimd_adds_a_step_for_each_accepted_call() {
    let mut rig = Rig::aimd();
    assert_eq!(rig.accept(7).rate, 2_700_000);
    assert_eq!(rig.accept(100).rate, 3_500_000, "never above the maximum");
}

#[test]
fn aimd_can_always_save_up_one_call() {
    // The documented design saves up 0.6 calls after three refusals and never grants one again.
    let mut rig = Rig::aimd();
    for _ in 0..3 {
        rig.refuse(rig.pace.cut, Some(1));
        rig.pass(1);
    }
    assert_eq!((rig.pace.rate, rig.pace.burst), (300_000, ONE_CALL));
}

#[test]
fn aimd_cuts_once_for_calls_of_one_cut() {
    let mut rig = Rig::aimd();
    assert_eq!(rig.refuse(0, Some(3)).rate, 1_000_000);
    let pace = rig.refuse(0, Some(5));
    assert_eq!((pace.rate, pace.cut, pace.hold), (1_000_000, 1, Span::from_secs(5)));
}

#[test]
fn aimd_without_a_told_wait_holds_for_one_call() {
    let mut rig = Rig::aimd();
    assert_eq!(rig.refuse(0, None).hold, Span::from_secs(1));
    assert_eq!(rig.refuse(1, None).hold, Span::from_secs(2), "0.5 a second");
}

#[test]
fn aimd_refuses_factors_outside_zero_and_one() {
    assert_eq!(Aimd::new(AimdSettings { decrease_factor: 0, ..NOTION }), Err(AimdError::DecreaseFactor));
    assert_eq!(Aimd::new(AimdSettings { decrease_factor: 1_001, ..NOTION }), Err(AimdError::DecreaseFactor));
    assert_eq!(Aimd::new(AimdSettings { min_rate: 0, ..NOTION }), Err(AimdError::Rates));
}

#[test]
fn refusal_of_an_older_cut_only_holds() {
    let mut rig = Rig::with_ceiling();
    let before = rig.pace;
    let first = rig.refuse(before.cut, Some(2));
    let late = rig.refuse(before.cut, Some(9));
    assert_eq!((late.rate, late.cut), (first.rate, first.cut));
    assert_eq!(first.cut, before.cut + 1);
    assert_eq!(late.hold, Span::from_secs(9), "the later end wins");
}

#[test]
fn ceiling_is_what_was_accepted_between_two_resumes() {
    let mut rig = Rig::with_ceiling();
    // From here on the vendor accepts 100 calls in each 20 s, the wait included.
    for _ in 0..6 {
        rig.pass(19);
        rig.accept(99);
        rig.refuse(rig.pace.cut, Some(1));
        rig.pass(1);
        rig.accept(1);
    }
    assert!((4_700_000..=5_400_000).contains(&rig.pace.rate), "{:?}", rig.pace);
}

#[test]
fn rate_is_never_below_one_call_in_an_hour() {
    let mut rig = Rig::auto();
    for _ in 0..200 {
        rig.refuse(rig.pace.cut, Some(3_600));
        rig.pass(3_600);
        rig.accept(1);
    }
    assert!(rig.pace.rate >= 1_000_000 / 3_600, "{:?}", rig.pace);
}

#[test]
fn refused_after_full_waits_lengthens_the_wait_and_keeps_the_rate() {
    let mut rig = Rig::with_ceiling();
    let rate = rig.refuse(rig.pace.cut, Some(5)).rate;
    let mut holds = Vec::new();
    for _ in 0..5 {
        rig.pass(rig.pace.hold.as_micros() / 1_000_000);
        let pace = rig.refuse(rig.pace.cut, Some(5));
        assert_eq!(pace.rate, rate);
        assert_eq!(pace.cap.map(|cap| cap.grants), Some(1), "one trial at a time");
        holds.push(pace.hold.as_micros() / 1_000_000);
    }
    assert_eq!(holds, [5, 5, 10, 20, 40]);
}

#[test]
fn told_wait_is_capped_at_an_hour() {
    let mut rig = Rig::auto();
    assert_eq!(rig.refuse(0, Some(86_400)).hold, HOLD_MAX);
}

#[test]
fn bare_refusals_are_followed_by_single_trials_further_and_further_apart() {
    let mut rig = Rig::with_ceiling();
    let mut last = Span::ZERO;
    for _ in 0..8 {
        let pace = rig.refuse(rig.pace.cut, None);
        assert_eq!(pace.cap.map(|cap| cap.grants), Some(1));
        assert!(pace.hold > last, "{:?} after {last:?}", pace.hold);
        last = pace.hold;
        rig.now = rig.now.plus(last);
    }
}

#[test]
fn three_refusals_do_not_hang() {
    // Notion's documented entry never grants again after these. A store grants a call if the bucket can hold one.
    let mut rig = Rig::auto();
    for _ in 0..3 {
        rig.refuse(rig.pace.cut, Some(1));
        rig.pass(1);
    }
    let pace = rig.controller.pace(rig.now);
    assert!(pace.burst >= ONE_CALL && pace.rate > 0 && pace.hold == Span::ZERO, "{pace:?}");
    assert!(pace.cap.is_none_or(|cap| cap.grants > 0), "{pace:?}");
    rig.accept(1);
    rig.run(60);
    assert!(rig.pace.rate > 0 && rig.pace.cap.is_none_or(|cap| cap.grants > 0), "{:?}", rig.pace);
}

#[test]
fn rate_is_not_raised_while_callers_do_not_use_it() {
    let mut rig = Rig::auto();
    let before = rig.pace.rate;
    for _ in 0..60 {
        rig.pass(2);
        rig.accept(2);
    }
    assert_eq!(rig.pace.rate, before);
}

#[test]
fn many_processes_do_not_raise_the_rate_faster() {
    let mut one = Rig::auto();
    one.run(10);
    let mut eight = Rig::auto();
    for _ in 0..10 {
        let calls = eight.pace.rate / ONE_CALL;
        eight.pass(1);
        eight.accept(calls);
        for _ in 0..7 {
            eight.accept(0);
        }
    }
    assert_eq!(one.pace.rate, eight.pace.rate);
}

/// A window of so many calls, as its headers show it.
pub(super) fn window(limit: u64, remaining: u64, reset: u64, grant: u64) -> VendorQuota {
    let reset = Some(Span::from_secs(reset));
    VendorQuota { limit: Some(limit), remaining, reset, age: Span::ZERO, grant }
}

#[test]
fn window_in_headers_is_spent_to_its_last_call() {
    let mut rig = Rig::auto();
    rig.grants = 10;
    let pace = rig.report(10, None, &[window(200, 90, 33, 10)]);
    assert_eq!(pace.cap, Some(Cap { grants: 90, lasts: Span::from_secs(10) }), "seen once");
    assert_eq!(pace.rate, START_RATE, "a header alone raises nothing");
    rig.now = rig.now.plus(Span::from_secs(3));
    rig.grants = 20;
    // 85 left after the 13th grant: the 98th is the last.
    let pace = rig.report(10, None, &[window(200, 85, 30, 13)]);
    assert_eq!(pace.cap, Some(Cap { grants: 78, lasts: Span::from_secs(30) }));
    assert_eq!(pace.rate, 3_900_000, "the end stayed where it was: half as fast again as evenly");
    // An answer that was overtaken promises more than there is.
    assert_eq!(rig.report(0, None, &[window(200, 89, 30, 11)]).cap.map(|cap| cap.grants), Some(78));
}

#[test]
fn fill_level_in_headers_sets_the_rate() {
    let mut rig = Rig::auto();
    // The level stays at 5 of 10 while 4 calls a second are granted: 4 a second flow in, and two calls are above the reserve.
    for second in 1..30 {
        rig.pass(1);
        rig.grants = second * 4;
        let quota =
            VendorQuota { limit: Some(10), remaining: 5, reset: None, age: Span::ZERO, grant: rig.grants };
        rig.report(4, None, &[quota]);
    }
    assert!((3_900_000..=4_800_000).contains(&rig.pace.rate), "{:?}", rig.pace);
}

#[test]
fn named_quota_of_a_day_is_remembered_with_its_amount() {
    let mut rig = Rig::auto();
    let day = Span::from_hours(24);
    let refusal = |cut| RateRefusal { cut, wait: Some(Span::from_secs(36)), named: Some((day, Some(25))) };
    rig.grants += 1;
    let pace = rig.report(0, Some(refusal(0)), &[]);
    assert_eq!(pace.hold, Span::from_hours(2), "a told wait of seconds is not believed for a day");
    rig.now = rig.now.plus(pace.hold);
    let pace = rig.accept(1);
    let cap = pace.cap.unwrap();
    assert_eq!((cap.grants, cap.lasts), (24, day));
}

#[test]
fn state_survives_a_round_trip() {
    let mut rig = Rig::with_ceiling();
    rig.run(100);
    let stored = serde_json::to_string(&rig.controller).unwrap();
    let mut read: Controller = serde_json::from_str(&stored).unwrap();
    assert_eq!(read, rig.controller);
    let report = Report {
        now: rig.now,
        grants: rig.grants,
        accepted: 0,
        answered: 0,
        failed: 0,
        timeout: TIMEOUT,
        accepted_cut: 0,
        refusal: None,
        quotas: &[],
        keep: Keep::default(),
    };
    assert_eq!(read.report(&report), rig.controller.report(&report));
}

#[test]
fn state_of_another_version_is_read() {
    let rig = Rig::with_ceiling();
    let stored = serde_json::to_string(&rig.controller).unwrap();
    let older = stored.replace("\"ceiling\"", "\"margin\":50,\"ceiling\"");
    assert_ne!(older, stored);
    assert_eq!(
        serde_json::from_str::<Controller>(&older).unwrap(),
        rig.controller,
        "a field that was dropped"
    );
    let newer = stored.replace("\"slow\":0,", "");
    assert_ne!(newer, stored);
    assert_eq!(
        serde_json::from_str::<Controller>(&newer).unwrap(),
        rig.controller,
        "a field that is missing"
    );
}

/// Every number at its longest. Counts and times stay below 2^53, rates at a million a second, waits at 25 hours.
fn longest(key: &str, value: serde_json::Value) -> serde_json::Value {
    use serde_json::{Value, json};
    match (key, value) {
        (_, Value::Object(members)) => {
            members.into_iter().map(|(key, value)| (key.clone(), longest(&key, value))).collect()
        }
        ("h", Value::Array(shown)) => {
            let count = 1_u64 << 53;
            vec![json!([2, AMOUNT_MAX, AMOUNT_MAX, count, count, count, 1_000_000_000_000_u64]); shown.len()]
                .into()
        }
        ("rate" | "ceiling" | "crash" | "f" | "gain", Value::Number(_)) => json!(1_000_000_000_000_u64),
        ("wait" | "longest" | "d" | "m" | "period", Value::Number(_)) => json!(HOLD_DAILY_MAX.as_micros()),
        // Calls at the highest rate in five minutes.
        ("target", Value::Number(_)) => json!(300_000_000),
        ("row", Value::Number(_)) => json!(999),
        ("e", Value::Array(counts)) => {
            let mut counts = vec![json!(1_u64 << 53); counts.len()];
            counts[4] = json!(64);
            counts.into()
        }
        (_, Value::Array(list)) => list.into_iter().map(|value| longest(key, value)).collect(),
        (_, Value::Number(_)) => json!(1_u64 << 53),
        (_, value) => value,
    }
}

#[test]
fn state_fits_into_one_kibibyte() {
    for controller in [Rig::auto().controller, Rig::aimd().controller] {
        let stored = serde_json::to_string(&controller).unwrap();
        let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
        let longest = longest("", stored).to_string();
        assert!(longest.len() <= 1_024, "{} bytes: {longest}", longest.len());
    }
}

/// A controller of another kind takes over: refusals of one burst still cut once.
#[test]
fn cuts_go_on_with_another_controller() {
    let settings = AimdSettings {
        initial_rate: 100 * ONE_CALL,
        min_rate: ONE_CALL,
        max_rate: 200 * ONE_CALL,
        increase_step: ONE_CALL,
        decrease_factor: 500,
    };
    let aimd = Controller::Aimd(Aimd::new(settings).unwrap());
    let mut controller = aimd.resumed(Some(Controller::Auto(Box::default())), 17);
    let refusal = |cut| Report {
        now: Timestamp::from_secs(1_000),
        grants: 40,
        accepted: 0,
        answered: 1,
        failed: 0,
        timeout: TIMEOUT,
        accepted_cut: 0,
        refusal: Some(RateRefusal { cut, wait: None, named: None }),
        quotas: &[],
        keep: Keep::default(),
    };
    let pace = controller.report(&refusal(17));
    assert_eq!((pace.cut, pace.rate), (18, 50 * ONE_CALL));
    assert_eq!(controller.report(&refusal(17)).rate, 50 * ONE_CALL);
}

/// Calls that failed, or whose process ended, do not stop the start for ever.
#[test]
fn auto_forgets_calls_without_an_answer() {
    let mut auto = Controller::Auto(Box::default());
    let mut report = Report {
        now: Timestamp::from_secs(1_000),
        grants: 10_000,
        accepted: 1,
        answered: 1,
        failed: 0,
        timeout: TIMEOUT,
        accepted_cut: 0,
        refusal: None,
        quotas: &[],
        keep: Keep::default(),
    };
    // Another controller had the account before.
    assert!(auto.report(&report).cap.unwrap().grants > 1_000);
    // Half of the calls fail; all of them are over.
    (report.now, report.grants, report.accepted, report.answered) =
        (Timestamp::from_secs(1_001), 30_000, 10_000, 20_000);
    assert!(auto.report(&report).cap.unwrap().grants > 1_000);
    // A process ended with its calls. After a minute they are forgotten.
    (report.now, report.grants, report.accepted, report.answered) =
        (Timestamp::from_secs(1_002), 90_000, 1, 1);
    assert_eq!(auto.report(&report).cap.unwrap().grants, 0);
    (report.now, report.grants) = (Timestamp::from_secs(1_070), 90_001);
    assert!(auto.report(&report).cap.unwrap().grants > 1_000);
}
