//! quick
use std::num::NonZeroU32;
use std::time::Instant;
fn main() {
    let keys: Vec<String> = (0..100_000).map(|i| format!("user:{i:08}")).collect();
    let mut order: Vec<usize> = (0..1_000_000usize).map(|i| (i.wrapping_mul(2654435761)) % 100_000).collect();
    order.rotate_left(17);
    for one in [false, true] {
        let gov =
            governor::RateLimiter::keyed(governor::Quota::per_second(NonZeroU32::new(900_000_000).unwrap()));
        let limiter = tollway::Limiter::builder()
            .policy("p", ["900M / second bucket"])
            .unwrap()
            .policy(
                "six",
                [
                    "1000000 / second bucket",
                    "60000000 / minute bucket",
                    "600000000 / hour bucket",
                    "6000000000 / day bucket",
                    "60000000000 / week bucket",
                    "600000000000 / month bucket",
                ],
            )
            .unwrap()
            .policy("win", ["100000000 / minute"])
            .unwrap()
            .build();
        let h = limiter.policy("p").unwrap();
        let six = limiter.policy("six").unwrap();
        let win = limiter.policy("win").unwrap();
        for _ in 0..3 {
            let t = Instant::now();
            let mut n = 0u64;
            for &i in &order {
                if gov.check_key(&keys[if one { 0 } else { i }]).is_ok() {
                    n += 1;
                }
            }
            println!("governor {:.1} ns {n}", t.elapsed().as_nanos() as f64 / order.len() as f64);
            for (name, h) in if std::env::var("ALL").is_ok() {
                vec![("one", &h), ("six", &six), ("win", &win)]
            } else {
                vec![("one", &h)]
            } {
                let t = Instant::now();
                let mut n = 0u64;
                for &i in &order {
                    if h.try_take().subject(&keys[if one { 0 } else { i }]).now().unwrap().is_granted() {
                        n += 1;
                    }
                }
                println!("tollway {name} {:.1} ns {n}", t.elapsed().as_nanos() as f64 / order.len() as f64);
            }
        }
        let c = tollway_memory::SystemClock::new();
        let t = Instant::now();
        let mut s = 0;
        for _ in 0..1_000_000 {
            s ^= tollway_core::Clock::now(&c).as_micros();
        }
        println!("clock {:.1} {s}", t.elapsed().as_nanos() as f64 / 1e6);
    }
}
