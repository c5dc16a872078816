//! Random vendors of the kinds that are documented, for runs of a few minutes.

use tollway_core::Span;

use crate::{HeaderReset, HeaderStyle, Misleading, Quota, Random, Shape, Terms, Voice};

/// A random vendor.
#[derive(Clone, Debug)]
pub struct RandomVendor {
    /// What it is, for people.
    pub name: String,
    /// Its terms.
    pub terms: Terms,
}

impl RandomVendor {
    /// The vendor of a seed: 0.5 to 100 calls a second, counted in windows (HubSpot, Pipedrive, Zendesk), by an exact log of
    /// the calls of the last seconds (Upstash, many gateways), in a bucket of a few calls (Amazon's SP-API, nginx) or in a
    /// larger one (Shopify, Stripe). It tells nothing, a wait, or both a wait and `X-RateLimit-*`.
    pub fn of_seed(seed: u64) -> Self {
        let random = &mut Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let (shape, mut name) = shape(random);
        let mut terms = Terms::new(vec![Quota::calls(shape)]);
        let slowest = random.log_between(0.04, 0.6);
        // The way to a vendor's limiter varies little; its work behind that does not matter.
        let quickest = slowest * (0.7 + 0.25 * random.fraction());
        let span = |seconds: f64| Span::from_micros((seconds * 1e6) as u64);
        terms.latency = (span(quickest), span(slowest));
        name += &format!(", {quickest:.2} to {slowest:.2} s");
        match random.between(0, 99) {
            0..=19 => {
                terms.voice = Voice::Bare;
                name += ", bare";
            }
            20..=49 => name += ", waits",
            told => {
                terms.voice = Voice::Headers;
                terms.headers = headers(random, shape, told >= 85);
                name += &format!(", headers {:?}", terms.headers.reset);
                if let Some(misleads) = terms.headers.misleads {
                    name += &format!(" misleading: {misleads:?}");
                }
            }
        }
        if random.per_thousand(150) {
            terms.errors = 10;
            name += ", 1 % errors";
        }
        Self { name, terms }
    }

    /// False if its headers show something else than its limits.
    pub fn tells_the_truth(&self) -> bool {
        self.terms.headers.misleads.is_none()
    }
}

fn shape(random: &mut Random) -> (Shape, String) {
    let rate = random.log_between(0.5, 100.0);
    let kind = random.between(0, 99);
    // A quota of one call is a bucket without burst.
    let seconds: Vec<u64> =
        [1, 1, 2, 5, 10, 10, 30, 60].into_iter().filter(|s| *s as f64 * rate >= 2.0).collect();
    let seconds = *random.pick(&seconds);
    let length = Span::from_secs(seconds);
    let amount = (rate * seconds as f64).round() as u64;
    let bucket = |burst: u64| {
        let shape = Shape::Bucket { rate: (rate * 1e6) as u64, burst };
        (shape, format!("bucket {rate:.2}/s burst {burst}"))
    };
    match kind {
        0..=34 => {
            // Most windows begin with the clock's second or minute, some with the first call.
            let phase = if random.per_thousand(500) {
                Span::ZERO
            } else {
                Span::from_micros(random.below(length.as_micros()))
            };
            (Shape::Window { amount, length, phase }, format!("window {amount} in {seconds} s"))
        }
        35..=59 => (Shape::Sliding { amount, length }, format!("log {amount} in {seconds} s")),
        // None at all is documented for slow limits only; fast ones allow for a network.
        60..=79 => bucket(random.between(1, 5).max((rate / 20.0) as u64)),
        _ => bucket(random.log_between(5.0, 60.0) as u64),
    }
}

fn headers(random: &mut Random, shape: Shape, mislead: bool) -> HeaderStyle {
    let reset = match shape {
        Shape::Window { .. } => HeaderReset::WindowEnd,
        Shape::Bucket { .. } | Shape::Sliding { .. } => *random.pick(&[
            HeaderReset::NextCall,
            HeaderReset::Full,
            HeaderReset::NextCall,
            HeaderReset::WindowEnd,
        ]),
    };
    let wrong = [Misleading::Untouched, Misleading::Servers, Misleading::Milliseconds, Misleading::Half];
    HeaderStyle { reset, misleads: mislead.then(|| *random.pick(&wrong)) }
}
