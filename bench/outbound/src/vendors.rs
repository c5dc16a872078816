//! The vendors of the table, and random ones.

use tollway_core::{Span, Timestamp};
use tollway_vendor::{Client, Quota, Random, Run, Shape, Terms, Unit, Voice};

/// A vendor and how long it is called.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) terms: Terms,
    pub(crate) length: Span,
    pub(crate) tokens: (u64, u64),
}

impl Scenario {
    pub(crate) fn new(name: impl Into<String>, quotas: Vec<Quota>) -> Self {
        let length = Span::from_mins(20);
        Self { name: name.into(), terms: Terms::new(quotas), length, tokens: (0, 0) }
    }

    /// The same vendor with another voice.
    pub(crate) fn saying(&self, voice: Voice) -> Self {
        let mut scenario = self.clone();
        scenario.terms.voice = voice;
        scenario
    }

    pub(crate) fn run(&self, seed: u64, workers: usize, shared: bool) -> Run {
        let client = Client { tokens: self.tokens, ..Client::default() };
        Run { seed, length: self.length, workers, shared, in_flight: 16, client }
    }
}

fn bucket(per_second: u64, burst: u64) -> Shape {
    Shape::Bucket { rate: per_second * 1_000_000, burst }
}

/// a: 200 in each minute, which starts 17 s after ours.
pub(crate) fn a() -> Scenario {
    let phase = Span::from_secs(17);
    let window = Shape::Window { amount: 200, length: Span::from_mins(1), phase };
    Scenario::new("a  200/60 s window", vec![Quota::calls(window)])
}

/// b: 3 a second, 5 saved up.
pub(crate) fn b() -> Scenario {
    Scenario::new("b  3/s burst 5", vec![Quota::calls(bucket(3, 5))])
}

/// d1: falls after ten minutes.
pub(crate) fn d1() -> Scenario {
    let quota = Quota::calls(bucket(10, 10)).then(Timestamp::from_secs(600), bucket(4, 4));
    Scenario::new("d1 10/s, then 4/s", vec![quota])
}

/// d2: rises after ten minutes.
pub(crate) fn d2() -> Scenario {
    let quota = Quota::calls(bucket(4, 4)).then(Timestamp::from_secs(600), bucket(10, 10));
    Scenario::new("d2 4/s, then 10/s", vec![quota])
}

/// c: like Gemini's free tier: calls a minute, tokens a minute and calls a day, for two days.
pub(crate) fn c() -> Scenario {
    let minute = |amount| Shape::Window { amount, length: Span::from_mins(1), phase: Span::from_secs(17) };
    let day = Shape::Window { amount: 25, length: Span::from_hours(24), phase: Span::from_hours(7) };
    let tokens = Quota { unit: Unit::Tokens, ..Quota::calls(minute(250_000)) };
    let mut scenario = Scenario::new(
        "c  5/min, 250k tokens/min, 25/day",
        vec![Quota::calls(minute(5)), tokens, Quota::calls(day)],
    );
    scenario.terms.latency = (Span::from_secs(3), Span::from_secs(8));
    scenario.terms.voice = Voice::Bodies;
    scenario.length = Span::from_hours(48);
    scenario.tokens = (10_000, 90_000);
    scenario
}

/// A random vendor: windows of 1 s to 1 h at any phase, buckets with and without burst, sliding windows, two limits at
/// once, steps, 0.02 to 200 a second, latency up to 5 s, other clients on the key, refusals that count.
pub(crate) fn random(seed: u64) -> Scenario {
    let random = &mut Random::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let rate = random.log_between(0.02, 200.0);
    let (shape, mut name) = random_shape(random, rate);
    let mut quota = Quota::calls(shape);
    let window = match shape {
        Shape::Window { length, .. } | Shape::Sliding { length, .. } => length.as_micros() as f64 / 1e6,
        Shape::Bucket { .. } => 1.0,
    };
    // Long enough for 200 calls and five windows, at least 20 minutes.
    let seconds = (200.0 / rate).max(5.0 * window).max(1_200.0);
    if random.per_thousand(250) {
        let factor = if random.per_thousand(500) {
            random.log_between(0.2, 0.7)
        } else {
            random.log_between(1.5, 5.0)
        };
        let (later, _) = scaled_shape(shape, factor);
        name += &format!(", x{factor:.2} at half time");
        quota = quota.then(Timestamp::from_secs(seconds as u64 / 2), later);
    }
    let mut quotas = vec![quota];
    if random.per_thousand(250) {
        let tight = rate * random.log_between(0.6, 3.0);
        let (second, text) = random_shape(random, tight);
        name += &format!(" and {text}");
        quotas.push(Quota::calls(second));
    }
    let mut scenario = Scenario::new(String::new(), quotas);
    let slowest = random.log_between(0.05, 5.0);
    scenario.terms.latency =
        (Span::from_micros((slowest * 4e5) as u64), Span::from_micros((slowest * 1e6) as u64));
    name += &format!(", {slowest:.2} s");
    if random.per_thousand(200) {
        let share = random.log_between(0.1, 0.5);
        let slowest_rate =
            scenario.terms.quotas.iter().map(|q| q.shape(Timestamp::EPOCH).rate()).min().unwrap_or(0);
        scenario.terms.others = (slowest_rate as f64 * share) as u64;
        name += &format!(", others {:.0} %", share * 100.0);
    }
    if random.per_thousand(200) {
        scenario.terms.refusals_count = true;
        name += ", refusals count";
    }
    if random.per_thousand(200) {
        scenario.terms.errors = 10;
        name += ", 1 % errors";
    }
    scenario.length = Span::from_micros((seconds * 1e6) as u64);
    scenario.name = name;
    scenario
}

fn random_shape(random: &mut Random, rate: f64) -> (Shape, String) {
    // At least two calls a window, or the window would be a bucket without burst.
    let length = random.log_between((2.0 / rate).max(1.0), 3_600.0);
    let length_span = Span::from_secs(length.round() as u64);
    let amount = (rate * length).round().max(1.0) as u64;
    match random.between(0, 9) {
        0..=3 => {
            let phase = Span::from_micros(random.between(0, length_span.as_micros()));
            let shape = Shape::Window { amount, length: length_span, phase };
            (shape, format!("{amount}/{length:.0} s window"))
        }
        4..=6 => {
            let burst = random.log_between(2.0, 60.0) as u64;
            (Shape::Bucket { rate: (rate * 1e6) as u64, burst }, format!("{rate:.3}/s burst {burst}"))
        }
        7 => (Shape::Bucket { rate: (rate * 1e6) as u64, burst: 1 }, format!("{rate:.3}/s no burst")),
        _ => (Shape::Sliding { amount, length: length_span }, format!("{amount}/{length:.0} s sliding")),
    }
}

fn scaled_shape(shape: Shape, factor: f64) -> (Shape, f64) {
    let times = |value: u64| ((value as f64 * factor).round() as u64).max(1);
    let scaled = match shape {
        Shape::Window { amount, length, phase } => Shape::Window { amount: times(amount), length, phase },
        Shape::Sliding { amount, length } => Shape::Sliding { amount: times(amount), length },
        Shape::Bucket { rate, burst } => Shape::Bucket { rate: times(rate), burst },
    };
    (scaled, factor)
}
