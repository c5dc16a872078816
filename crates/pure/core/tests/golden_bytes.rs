//! The serde forms of everything that a store writes: accounts with every kind of meter and memory, keys, settings.
//!
//! `UPDATE_GOLDEN=1` rewrites the expected files; without it a missing file is a failure.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use tollway_core::{
    Account, AccountKey, Action, Booking, CallId, Charge, Cost, Name, Operation, PermitId, Policy, Setting,
    Span, Subject, Terms, Timestamp, apply,
};

/// 2026-01-15T12:00:00Z.
const START: Timestamp = Timestamp::from_secs(1_768_478_400);

/// Compares with `tests/golden/NAME`, byte for byte.
fn compare(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        return std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|_| panic!("{} is missing; UPDATE_GOLDEN=1 writes it", path.display()));
    assert_eq!(found, expected, "{} differs: stored bytes must not change", path.display());
}

/// What was done to one account, and the account it led to.
struct History {
    policy: Policy,
    account: Account,
    now: Timestamp,
}

impl History {
    fn new(limits: &[&str]) -> Self {
        let policy = Policy::new("p", limits.iter().copied()).unwrap();
        let policy = policy.with_max_wait(Span::from_hours(1)).unwrap();
        Self { account: Account::new(&policy), policy, now: START }
    }

    /// Applies one action of this cost, a second after the last one.
    fn apply(mut self, cost: &[(&str, u64)], action: Action) -> Self {
        let cost = (!cost.is_empty()).then(|| self.cost(cost));
        let subject = Subject::new("team-a").unwrap();
        let charge = Charge { policy: Arc::new(self.policy.clone()), subject, cost };
        let mut accounts = [self.account];
        let applied = apply(&Operation::one(charge, action), &mut accounts, self.now);
        assert!(applied.changed, "{:?}", applied.outcome);
        [self.account] = accounts;
        self.now = self.now.plus(Span::from_secs(1));
        self
    }

    fn cost(&self, cost: &[(&str, u64)]) -> Cost {
        self.policy.cost(cost.iter().copied()).unwrap()
    }

    fn take(self, permit: u128, cost: &[(&str, u64)]) -> Self {
        self.apply(cost, Action::Take(terms(permit, Span::ZERO, None)))
    }

    fn take_with_id(self, permit: u128, id: &str) -> Self {
        self.apply(&[], Action::Take(terms(permit, Span::ZERO, Some(CallId::new(id).unwrap()))))
    }

    fn book(self, permit: u128) -> Self {
        self.apply(&[], Action::Take(terms(permit, Span::from_hours(1), None)))
    }

    fn give_back(self, permit: u128) -> Self {
        let action = Action::Return { booking: booking(permit), remember: true };
        self.apply(&[], action)
    }

    fn settle(self, permit: u128, actual: u64) -> Self {
        let actual = [self.cost(&[("requests", actual)])];
        self.apply(&[], Action::Settle { booking: booking(permit), actual: actual.into(), remember: true })
    }

    fn under(mut self, limits: &[&str]) -> Self {
        self.policy = Policy::new("p", limits.iter().copied()).unwrap();
        self
    }
}

fn terms(permit: u128, max_wait: Span, call: Option<CallId>) -> Terms {
    Terms {
        permit: PermitId(permit),
        max_wait,
        call,
        readings: false,
        new_accounts: tollway_core::NewAccounts::Make,
    }
}

/// A permit that was granted at the start and is good for its minute.
fn booking(permit: u128) -> Booking {
    let good_until = START.plus(Span::from_mins(1));
    Booking { permit: PermitId(permit), granted_at: START, at: START, good_until }
}

fn accounts() -> Vec<(&'static str, History)> {
    let account = History::new;
    vec![
        ("new", account(&["9 / minute"])),
        ("window", account(&["9 / minute"]).take(1, &[])),
        ("window from the first call", account(&["9 / hour from first call"]).take(1, &[])),
        ("window in a zone", account(&["9 / day in Europe/Vienna"]).take(1, &[])),
        (
            "sliding",
            account(&["300 tokens / minute sliding"]).take(1, &[("tokens", 7)]).take(2, &[("tokens", 9)]),
        ),
        ("bucket", account(&["7 / 100 seconds bucket burst 3"]).take(1, &[]).take(2, &[])),
        ("paced", account(&["7 / 100 seconds paced"]).take(1, &[])),
        ("slots", account(&["3 concurrent expires 5m"]).take(1, &[]).take(u128::MAX, &[])),
        (
            "slots, one freed",
            account(&["3 concurrent"]).take(1, &[]).take(2, &[]).apply(&[], Action::Done(PermitId(1))),
        ),
        (
            "slots, one renewed",
            account(&["3 concurrent"]).take(1, &[]).apply(&[], Action::Renew(PermitId(1))),
        ),
        (
            "every kind of meter",
            account(&[
                "rpm: 9 / minute",
                "8 / hour from first call",
                "5k tokens / day sliding",
                "2 / second bucket burst 4",
                "4 concurrent",
            ])
            .take(1, &[("tokens", 10)]),
        ),
        (
            "frontier and undo",
            account(&["9 / minute bucket", "1 / 10 seconds paced"]).book(1).book(2).book(3),
        ),
        ("begun too late", account(&["1 / 10 seconds paced"]).book(1).book(2).take_later(3)),
        ("remembered calls", account(&["9 / minute"]).take_with_id(1, "call-1").take_with_id(2, "Ω \"2\"")),
        ("remembered refunds", account(&["9 / minute"]).take(1, &[]).take(2, &[]).give_back(1).settle(2, 3)),
        (
            "orphans",
            account(&["rpm: 9 / minute", "8 / day sliding"])
                .take(1, &[])
                .under(&["rpm: 9 / minute", "2 / week"])
                .take(2, &[]),
        ),
        ("reset", account(&["9 / minute"]).take(1, &[]).apply(&[], Action::Reset)),
        (
            "reset and taken from",
            account(&["9 / minute"]).take(1, &[]).apply(&[], Action::Reset).take(2, &[]),
        ),
    ]
}

impl History {
    /// Begins too late, and takes again under an id of the engine's own.
    fn take_later(self, permit: u128) -> Self {
        let late = Booking { good_until: START, ..booking(permit) };
        self.apply(&[], Action::Begin(late, terms(permit + 100, Span::from_hours(1), None)))
    }
}

#[test]
fn accounts_keep_their_bytes() {
    let mut text = String::new();
    for (name, account) in accounts() {
        let json = serde_json::to_string(&account.account).unwrap();
        let read: Account = serde_json::from_str(&json).unwrap();
        // Compares JSON, not accounts: some fields of a remembered grant are not stored.
        assert_eq!(serde_json::to_string(&read).unwrap(), json, "{name}: what was written reads back");
        writeln!(text, "{name}\n{json}").unwrap();
    }
    compare("accounts.txt", &text);
}

/// Names, keys and settings beside the accounts.
#[test]
fn keys_and_settings_keep_their_bytes() {
    let name = |text: &str| Name::new(text).unwrap();
    let mut text = String::new();
    for subject in ["", "team-a", "a:b}{ß\n\"%", "東京"] {
        let key = AccountKey { policy: name("six.limits"), subject: Subject::new(subject).unwrap() };
        writeln!(text, "key {:?}", key.to_string()).unwrap();
        assert_eq!(key.to_string().parse::<AccountKey>().unwrap(), key);
    }
    for burst in [None, Some(900)] {
        let (policy, limit) = (name("adobe"), name("rpm"));
        let setting = Setting { policy, limit, amount: 700, burst, set_at: START };
        let json = serde_json::to_string(&setting).unwrap();
        assert_eq!(serde_json::from_str::<Setting>(&json).unwrap(), setting);
        writeln!(text, "setting {json}").unwrap();
    }
    for limit in [
        "9 / minute",
        "9 / hour from first call",
        "9 / day in Europe/Vienna",
        "9 / day sliding",
        "9 / day bucket burst 3",
        "9 concurrent",
    ] {
        let policy = Policy::new("p", [limit]).unwrap();
        writeln!(text, "identity of {limit}: {}", policy.limits()[0].identity()).unwrap();
    }
    writeln!(text, "second take {}", CallId::of_second_take(PermitId(255)).as_str()).unwrap();
    compare("keys_and_settings.txt", &text);
}
