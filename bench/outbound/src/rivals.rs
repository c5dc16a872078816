//! Other controllers, as our own short re-implementations of their published rules.

use tollway_core::controller::{Cap, ONE_CALL, Pace, Report};
use tollway_core::{Span, Timestamp};

/// AIMD as documented: steps and cuts for every answer, and less than one call saved up below 0.5 a second.
pub(crate) struct DocumentedAimd {
    rate: f64,
    hold_until: Timestamp,
}

impl DocumentedAimd {
    pub(crate) fn new() -> Self {
        Self { rate: 2.0, hold_until: Timestamp::EPOCH }
    }

    pub(crate) fn report(&mut self, report: &Report<'_>) -> Pace {
        self.rate = (self.rate + 0.1 * report.accepted as f64).min(50.0);
        if let Some(refusal) = report.refusal {
            self.rate = (self.rate * 0.5).max(0.1);
            let wait = refusal.wait.unwrap_or(seconds((1.0 / self.rate).clamp(1.0, 60.0)));
            self.hold_until = self.hold_until.max(report.now.plus(wait));
        }
        self.pace(report.now)
    }

    pub(crate) fn pace(&self, now: Timestamp) -> Pace {
        let hold = self.hold_until.since(now);
        Pace { rate: millionths(self.rate), burst: millionths(2.0 * self.rate), hold, cut: 0, cap: None }
    }
}

/// The cubic rule of AWS's SDKs (retry mode `adaptive`): off until the first refusal, ignores told waits.
pub(crate) struct Cubic {
    on: bool,
    fill: f64,
    capacity: f64,
    measured: f64,
    count: f64,
    last_half_second: f64,
    w_max: f64,
    failed_at: f64,
}

impl Cubic {
    pub(crate) fn new() -> Self {
        Self {
            on: false,
            fill: 0.0,
            capacity: 1.0,
            measured: 0.0,
            count: 0.0,
            last_half_second: 0.0,
            w_max: 0.0,
            failed_at: 0.0,
        }
    }

    pub(crate) fn report(&mut self, report: &Report<'_>) -> Pace {
        let now = report.now.as_micros() as f64 / 1e6;
        let half_second = (2.0 * now).floor() / 2.0;
        self.count += 1.0;
        if half_second > self.last_half_second {
            let rate = self.count / (half_second - self.last_half_second);
            self.measured = 0.8 * rate + 0.2 * self.measured;
            (self.count, self.last_half_second) = (0.0, half_second);
        }
        let new = if report.refusal.is_some() {
            let before = if self.on { self.measured.min(self.fill) } else { self.measured };
            (self.w_max, self.failed_at, self.on) = (before, now, true);
            0.7 * before
        } else {
            let k = (self.w_max * 0.3 / 0.4).cbrt();
            0.4 * (now - self.failed_at - k).powi(3) + self.w_max
        };
        self.fill = new.min(2.0 * self.measured).max(0.5);
        self.capacity = new.max(1.0);
        self.pace()
    }

    pub(crate) fn pace(&self) -> Pace {
        let rate = if self.on { millionths(self.fill) } else { 1_000 * ONE_CALL };
        Pace { rate, burst: millionths(self.capacity).max(ONE_CALL), hold: Span::ZERO, cut: 0, cap: None }
    }
}

/// The fixed limits of vendor c as a profile would state them, without adaptation: two calls of at most 90,000 tokens fit
/// into a minute of 250,000, and 25 calls into a day that ends at 7 h. Latency shifts a call by up to 2.5 s.
#[derive(Default)]
pub(crate) struct Profile {
    day: u64,
    grants: u64,
}

impl Profile {
    const APART: Span = Span::from_secs(35);
    const DAY: u64 = 86_400_000_000;
    const DAY_STARTS: u64 = (7 * 3_600 + 5) * 1_000_000;

    pub(crate) fn pace(&mut self, now: Timestamp, grants: u64) -> Pace {
        let since = now.as_micros() + Self::DAY - Self::DAY_STARTS;
        if since / Self::DAY != self.day {
            // The call that made this report is the first of its day.
            (self.day, self.grants) = (since / Self::DAY, grants.saturating_sub(1));
        }
        let left = 25_u64.saturating_sub(grants - self.grants);
        let cap = Cap { grants: left, lasts: Span::from_micros(Self::DAY - since % Self::DAY) };
        let rate = 1_000_000_000_000 / Self::APART.as_micros();
        Pace { rate, burst: ONE_CALL, hold: Span::ZERO, cut: 0, cap: Some(cap) }
    }
}

fn millionths(rate: f64) -> u64 {
    (rate * 1e6) as u64
}

fn seconds(seconds: f64) -> Span {
    Span::from_micros((seconds * 1e6) as u64)
}
