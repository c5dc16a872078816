//! The script's numbers are doubles: exact up to 2^53, and compared here with the engine's integers.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::sync::Arc;

use tollway_core::bounds::AMOUNT_MAX;
use tollway_core::{
    Action, Charge, Operation, Outcome, PermitId, Policy, Span, Store, Subject, Terms, Timestamp,
};
use tollway_redis::RedisStore;
use tollway_testkit::servers::RedisServer;
use tollway_testkit::{ManualClock, PlainStore, Random, wait_for};

const MAX: u64 = (1 << 53) - 1;

/// Limits whose products with a time are far beyond 2^53.
const LIMITS: [&str; 8] = [
    "A / day bucket",
    "A / 366 days bucket burst B",
    "7 / 31621997 seconds bucket burst B",
    "A / 999983 milliseconds bucket burst B",
    "A / day sliding",
    "A / 360 days sliding",
    "A / 5000 hours",
    "A / 200 days from first call",
];

/// `multiply_divide` of the script is exact, at random and where it is hardest: next to whole quotients.
#[test]
fn products_are_exact() {
    let server = RedisServer::shared();
    let script = concat!(
        include_str!("../../src/script/parts.lua"),
        include_str!("../../src/script/numbers.lua"),
        include_str!("../../src/script/exact.lua"),
        "local answers = {}
        for i = 1, #ARGV, 3 do
          local whole, rest = multiply_divide(tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))
          answers[#answers + 1] = string.format('%.0f %.0f', whole, rest)
        end
        return answers"
    );
    let mut random = Random::new(11);
    for _ in 0..20 {
        let triples: Vec<[u64; 3]> = (0..500).map(|_| triple(&mut random)).collect();
        let mut words = vec!["EVAL".to_owned(), script.to_owned(), "0".to_owned()];
        words.extend(triples.iter().flatten().map(u64::to_string));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answers = server.command(&words);
        for ([a, b, c], answer) in triples.iter().zip(answers.lines()) {
            let (product, c) = (u128::from(*a) * u128::from(*b), u128::from(*c));
            let (whole, rest) = (product / c, product % c);
            let expected =
                if whole >= u128::from(MAX) { (u128::from(MAX), None) } else { (whole, Some(rest)) };
            let (whole, rest) = answer.split_once(' ').unwrap();
            assert_eq!(whole, expected.0.to_string(), "{a} * {b} / {c}");
            assert!(
                expected.1.is_none_or(|expected| expected.to_string() == rest),
                "{a} * {b} / {c}: {answer}"
            );
        }
    }
}

/// A number of up to so many bits, small ones as often as large ones.
fn any_size(random: &mut Random, bits: u64) -> u64 {
    let bits = random.between(1, bits);
    random.below(1 << bits)
}

/// A divisor as periods and amounts are, and factors whose product is next to a multiple of it as often as not.
fn triple(random: &mut Random) -> [u64; 3] {
    let up_to = |random: &mut Random, bits: u64| 1 + any_size(random, bits);
    let c = up_to(random, 49);
    let a = up_to(random, 52);
    if random.percent(50) {
        return [a, up_to(random, 52), c];
    }
    // a * b is just below, at or above a multiple of c.
    let multiple = u128::from(c) * u128::from(up_to(random, 52));
    let b = u64::try_from(multiple / u128::from(a)).unwrap_or(MAX) + random.below(3);
    [a, b.clamp(1, MAX), c]
}

/// Amounts up to the bound, settled far above it, over long times: the script answers as the engine does.
#[test]
fn large_amounts_are_counted_as_the_engine_counts_them() {
    let clock = Arc::new(ManualClock::default());
    let url = format!("{}?deadline=20s", RedisServer::shared().url());
    let redis = RedisStore::with_test_clock(&url, clock.clone()).unwrap();
    let plain = PlainStore::new(clock.clone());
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let text = LIMITS[seed as usize % LIMITS.len()];
        let amount = AMOUNT_MAX - any_size(&mut random, 49);
        let burst = AMOUNT_MAX - any_size(&mut random, 49);
        let text = text.replace('A', &amount.to_string()).replace('B', &burst.to_string());
        let policy = Policy::new(&format!("large-{seed}"), [&*text]).unwrap();
        let mut now = Timestamp::from_secs(1_790_000_000 + random.below(1 << 30));
        for number in 0..40_u64 {
            now = now.plus(Span::from_micros(any_size(&mut random, 44)));
            clock.set(now);
            let deed = deed(&mut random, &policy, u128::from(seed * 1_000 + number), now);
            let answer =
                |store: &dyn Store| wait_for(store.apply(std::slice::from_ref(&deed))).unwrap().remove(0);
            let (expected, answered) = (answer(&plain), answer(&redis));
            assert_eq!(answered, expected, "seed {seed}, operation {number} at {}: {deed}", now.as_micros());
            if let Outcome::Decided(decision) = &answered {
                assert!(!decision.over);
            }
        }
    }
}

fn deed(random: &mut Random, policy: &Policy, permit: u128, now: Timestamp) -> Operation {
    let amount = |random: &mut Random| AMOUNT_MAX - any_size(random, 49).min(AMOUNT_MAX - 1);
    let cost = |random: &mut Random| {
        let amount = if random.percent(50) { amount(random) } else { any_size(random, 49) };
        policy.cost([("requests", amount)]).unwrap()
    };
    let charge = Charge::new(Arc::new(policy.clone()), Subject::SHARED).with_cost(cost(random));
    let terms = Terms {
        permit: PermitId(permit),
        max_wait: Span::from_hours(1),
        call: None,
        readings: true,
        new_accounts: tollway_core::NewAccounts::Make,
    };
    let booking =
        tollway_core::Booking { permit: PermitId(permit), granted_at: now, at: now, good_until: now };
    let action = match random.below(10) {
        0..5 => Action::Take(terms),
        5..7 => Action::Settle { booking, actual: [cost(random)].into(), remember: false },
        7 => Action::Return { booking, remember: false },
        _ => Action::Peek,
    };
    Operation::one(charge, action)
}
