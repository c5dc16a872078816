//! The fixed operations: every kind of meter, and everything that an account stores besides its meters.

use std::sync::Arc;

use tollway_core::{
    Action, Booking, CallId, Charge, Operation, PermitId, Policy, Span, Subject, Terms, Timestamp,
};

/// When the first step happens: 2026-01-15T12:00:00Z.
pub const START: Timestamp = Timestamp::from_secs(1_768_478_400);

/// When the steps of [`late_steps`] happen: everything of [`steps`] still counts.
pub const LATER: Timestamp = Timestamp::from_secs(1_768_478_400 + 50);

/// One operation at one time.
pub struct Step {
    /// Its name in the outcomes.
    pub name: &'static str,
    /// The store's time.
    pub time: Timestamp,
    pub(super) operation: Operation,
}

/// The steps that a store plays before its bytes are compared.
pub fn steps() -> Vec<Step> {
    let mut steps = meters();
    steps.extend(queue());
    steps.extend(memory());
    steps.extend(together());
    steps
}

/// Operations on the accounts of [`steps`]: they show that old bytes can still be read.
pub fn late_steps() -> Vec<Step> {
    let of = |policy: Policy, subject: &str| [charge(&policy, subject, &[])];
    let late = |name, charges: [Charge; 1], action| step(name, 50_000, charges, action);
    let mut steps: Vec<Step> = [windows(), sliding(), bucket(), slots(), six()]
        .into_iter()
        .map(|policy| late("look at every kind of meter", of(policy, "team-a"), Action::Peek))
        .collect();
    steps.extend([
        late("take from a used window", of(windows(), "team-a"), take(901)),
        late("take the second slot", of(slots(), "team-a"), take(902)),
        late("repeat an id", of(windows(), "ids"), take_with_id(903, "call-1")),
        late("return a permit once more", of(windows(), "refunds"), give_back(302, 20_000, true)),
        late("take behind the queue", of(bucket(), "queue"), take(904)),
        late("take under the first limits again", of(windows(), "orphans"), take(905)),
        late(
            "settle a permit from before a reset",
            of(windows(), "reset"),
            settle(331, 23_000, &windows(), 0),
        ),
    ]);
    steps
}

fn windows() -> Policy {
    policy(
        "windows",
        &[
            "rpm: 3 requests / minute",
            "day: 9 requests / day in Europe/Vienna",
            "first: 7 / hour from first call",
        ],
    )
}

fn sliding() -> Policy {
    policy("sliding", &["300 tokens / minute sliding"])
}

fn bucket() -> Policy {
    policy("bucket", &["7 / 100 seconds bucket burst 2"]).with_max_wait(Span::from_hours(1)).unwrap()
}

fn slots() -> Policy {
    policy("slots", &["2 concurrent expires 5m"])
}

fn six() -> Policy {
    policy(
        "six.limits",
        &[
            "5 / minute",
            "100 / hour from first call",
            "1k tokens / day sliding",
            "2k tokens / hour bucket burst 3k",
            "4 concurrent expires 10m",
            "1M pages / month",
        ],
    )
}

/// Every kind of meter, taken from, denied, settled and returned.
fn meters() -> Vec<Step> {
    let tokens = |amount: u64| [charge(&sliding(), "team-a", &[("tokens", amount)])];
    let of = |policy: &Policy| [charge(policy, "team-a", &[])];
    let (windows, bucket, slots) = (windows(), bucket(), slots());
    vec![
        step("take from windows", 0, of(&windows), take(101)),
        step("take from windows again", 1, of(&windows), take(102)),
        step("take the last of a window", 2, of(&windows), take(103)),
        step("take from a spent window", 3, of(&windows), take(104)),
        step("take for all", 4, [charge(&windows, "", &[])], take(105)),
        step("take for any text", 5, [charge(&windows, "a}:{ß\n%", &[])], take(106)),
        step("slide", 1_000, tokens(100), take(111)),
        step("slide on", 2_500, tokens(150), take(112)),
        step("slide over", 2_600, tokens(51), take(113)),
        step("settle for less", 2_700, tokens(150), settle(112, 2_500, &sliding(), 120)),
        step("take from a bucket", 3_000, of(&bucket), take(121)),
        step("take a fraction later", 3_333, of(&bucket), take(122)),
        step("hold a slot", 4_000, of(&slots), take(131)),
        step("hold another", 4_001, of(&slots), take(132)),
        step("hold one too many", 4_002, of(&slots), take(133)),
        step("renew a slot", 9_000, of(&slots), Action::Renew(PermitId(131))),
        step("free a slot", 9_500, of(&slots), Action::Done(PermitId(132))),
        step(
            "take from six",
            10_000,
            [charge(&six(), "team-a", &[("tokens", 250), ("pages", 12)])],
            take(141),
        ),
        step("take from six again", 10_500, [charge(&six(), "team-a", &[("tokens", 1)])], take(142)),
    ]
}

/// Bookings ahead of time: frontier and undo.
fn queue() -> Vec<Step> {
    let bucket = bucket();
    let of = |subject: &str| [charge(&bucket, subject, &[])];
    let paced = policy("paced", &["100 / minute bucket", "1 / 10 seconds paced"]);
    let paced_for = |subject: &str| [charge(&paced, subject, &[])];
    vec![
        step("empty a bucket", 11_000, [charge(&bucket, "queue", &[("requests", 2)])], take(201)),
        step("book a place", 11_000, of("queue"), book(202)),
        step("book behind it", 11_500, of("queue"), book(203)),
        step("begin too early", 12_000, of("queue"), begin(202, 11_000, 25_286, 40_000, 204)),
        step("empty another bucket", 13_000, [charge(&bucket, "left", &[("requests", 2)])], take(211)),
        step("book and leave", 13_000, of("left"), book(212)),
        step("leave", 13_100, of("left"), return_place(212, 13_000, 27_286)),
        step("take the first place", 13_500, paced_for("team-a"), book(231)),
        step("wait for the second limit", 13_600, paced_for("team-a"), book(232)),
        step("begin too late", 14_000, of("late"), begin(221, 1_000, 1_000, 2_000, 222)),
    ]
}

/// Ids, refunds, orphans and resets.
fn memory() -> Vec<Step> {
    let windows = windows();
    let of = |subject: &str| [charge(&windows, subject, &[])];
    let changed = policy("windows", &["rpm: 3 requests / minute", "8 / week"]);
    vec![
        step("take with an id", 15_000, of("ids"), take_with_id(301, "call-1")),
        step("repeat it", 15_500, of("ids"), take_with_id(309, "call-1")),
        step("take with another id", 16_000, of("ids"), take_with_id(308, "Ω/2")),
        step(
            "reuse an id",
            16_500,
            [charge(&windows, "ids", &[("requests", 2)])],
            take_with_id(307, "call-1"),
        ),
        step("take to return", 20_000, of("refunds"), take(302)),
        step("return", 20_500, of("refunds"), give_back(302, 20_000, true)),
        step("return again", 20_600, of("refunds"), give_back(302, 20_000, true)),
        step("take to settle", 21_000, of("refunds"), take(303)),
        step("settle", 21_500, of("refunds"), settle_remembered(303, 21_000, &windows, 2)),
        step("take before a change", 22_000, of("orphans"), take(321)),
        step("take after a change", 22_500, [charge(&changed, "orphans", &[])], take(322)),
        step("take before a reset", 23_000, of("reset"), take(331)),
        step("reset", 23_500, of("reset"), Action::Reset),
        step("take after a reset", 24_000, of("reset"), take(332)),
        step("preview", 24_500, of("reset"), Action::Preview(terms(333, Span::ZERO, None))),
    ]
}

/// Several policies at once, with a shadow.
fn together() -> Vec<Step> {
    let shadow = policy("shadow", &["1 / day"]).with_shadow(true);
    let both = || {
        vec![charge(&windows(), "both", &[]), charge(&bucket(), "both", &[]), charge(&shadow, "both", &[])]
    };
    vec![
        step("take under three policies", 30_000, both(), take(401)),
        step("take against a shadow with an id", 30_500, both(), take_with_id(402, "both")),
        step(
            "repeat it in another order",
            31_000,
            both().into_iter().rev().collect::<Vec<_>>(),
            take_with_id(403, "both"),
        ),
        step(
            "deny all of them",
            31_500,
            [charge(&windows(), "both", &[("requests", 3)]), charge(&slots(), "both", &[])],
            take(404),
        ),
    ]
}

fn step(name: &'static str, millis: u64, charges: impl IntoIterator<Item = Charge>, action: Action) -> Step {
    Step {
        name,
        time: after(millis),
        operation: Operation { charges: charges.into_iter().collect(), action },
    }
}

fn after(millis: u64) -> Timestamp {
    START.plus(Span::from_millis(millis))
}

fn policy(name: &str, limits: &[&str]) -> Policy {
    Policy::new(name, limits.iter().copied()).unwrap()
}

fn charge(policy: &Policy, subject: &str, cost: &[(&str, u64)]) -> Charge {
    let cost = (!cost.is_empty()).then(|| policy.cost(cost.iter().copied()).unwrap());
    Charge { policy: Arc::new(policy.clone()), subject: Subject::new(subject).unwrap(), cost }
}

fn terms(permit: u128, max_wait: Span, call: Option<&str>) -> Terms {
    let call = call.map(|id| CallId::new(id).unwrap());
    Terms {
        permit: PermitId(permit),
        max_wait,
        call,
        readings: false,
        new_accounts: tollway_core::NewAccounts::Make,
    }
}

fn take(permit: u128) -> Action {
    Action::Take(terms(permit, Span::ZERO, None))
}

fn take_with_id(permit: u128, id: &str) -> Action {
    Action::Take(terms(permit, Span::ZERO, Some(id)))
}

fn book(permit: u128) -> Action {
    Action::Take(terms(permit, Span::from_hours(1), None))
}

fn booking(permit: u128, granted: u64, at: u64, good_until: Timestamp) -> Booking {
    Booking { permit: PermitId(permit), granted_at: after(granted), at: after(at), good_until }
}

fn begin(permit: u128, granted: u64, at: u64, until: u64, again: u128) -> Action {
    Action::Begin(booking(permit, granted, at, after(until)), terms(again, Span::ZERO, None))
}

fn give_back(permit: u128, granted: u64, remember: bool) -> Action {
    Action::Return { booking: booking(permit, granted, granted, after(60_000)), remember }
}

fn return_place(permit: u128, granted: u64, at: u64) -> Action {
    Action::Return { booking: booking(permit, granted, at, Timestamp::MAX), remember: false }
}

fn settle(permit: u128, granted: u64, policy: &Policy, actual: u64) -> Action {
    settled(permit, granted, policy, actual, false)
}

fn settle_remembered(permit: u128, granted: u64, policy: &Policy, actual: u64) -> Action {
    settled(permit, granted, policy, actual, true)
}

fn settled(permit: u128, granted: u64, policy: &Policy, actual: u64, remember: bool) -> Action {
    let unit = policy.units()[0].as_str();
    let actual = [policy.cost([(unit, actual)]).unwrap()].into();
    Action::Settle { booking: booking(permit, granted, granted, after(60_000)), actual, remember }
}
