//! Figures of a limiter as CloudWatch gets them: as lines, and as calls of its API.

mod catalogue;
mod config;
mod emf;
mod put;

use tollway::Limiter;
use tollway::metrics::Sample;

/// Two takes under three limits, of which the second is denied by the first limit.
async fn samples() -> Vec<Sample> {
    let limits = ["RPM: 1 request / minute", "TPM: 250k tokens / minute", "RPD: 25 requests / day"];
    let limiter = Limiter::builder().policy("gemini", limits).unwrap().metrics().build();
    assert!(limiter.try_take("gemini").cost("tokens", 3_750).await.unwrap().is_granted());
    assert!(!limiter.try_take("gemini").cost("tokens", 10).await.unwrap().is_granted());
    limiter.samples().await
}
