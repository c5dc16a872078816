//! prof
use std::num::NonZeroU32;
fn main() {
    let rounds: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let keys: Vec<String> = (0..100_000).map(|i| format!("user:{i:08}")).collect();
    let limiter = tollway::Limiter::builder().policy("p", ["1000 / hour bucket burst 10M"]).unwrap().build();
    let h = limiter.policy("p").unwrap();
    let gov = governor::RateLimiter::keyed(
        governor::Quota::per_hour(NonZeroU32::new(1000).unwrap())
            .allow_burst(NonZeroU32::new(10_000_000).unwrap()),
    );
    let us = std::env::args().nth(2).unwrap() == "us";
    let mut n = 0u64;
    if us {
        for k in &keys {
            h.try_take().subject(k).now().unwrap();
        }
    } else {
        for k in &keys {
            gov.check_key(k).ok();
        }
    }
    let t = std::time::Instant::now();
    let mut x = 1u32;
    for _ in 0..rounds {
        x = x.wrapping_mul(1664525).wrapping_add(1013904223);
        let k = &keys[(x >> 8) as usize % 100_000];
        if us {
            if h.try_take().subject(k).now().unwrap().is_granted() {
                n += 1;
            }
        } else if gov.check_key(k).is_ok() {
            n += 1;
        }
    }
    eprintln!("{n} {:.1} ns", t.elapsed().as_nanos() as f64 / rounds.max(1) as f64);
}
