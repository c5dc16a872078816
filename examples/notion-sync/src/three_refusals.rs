//! Three refusals in a row, at which the documented design of the Python library waits for ever.
//!
//! Its bucket holds two seconds of the rate: at Notion's lowest rate of 0.3 a second, 0.6 of a call. A call needs a whole
//! one. Here the bucket always holds at least one call.

use std::time::Duration;

use tollway::Span;
use tollway_vendor::server::{VendorServer, VendorSettings};
use tollway_vendor::{Outcome, Quota, Shape};

use crate::{BoxError, notion_at, say};

const REFUSALS: u64 = 3;

/// Calls a vendor that refuses three times, and prints what the vendor saw.
pub(crate) async fn show() -> Result<(), BoxError> {
    let mut settings = VendorSettings::new([])?.dialect("notion")?;
    let second = Span::from_secs(1);
    let closed = Shape::Window { amount: 0, length: second, phase: Span::ZERO };
    settings.terms.quotas = vec![Quota::calls(closed)];
    let vendor = VendorServer::start(settings).await?;
    let notion = notion_at(&vendor.url())?;

    say("\nthree refusals in a row, as the vendor saw them")?;
    let call = tokio::spawn({
        let notion = notion.clone();
        async move { notion.get("/users").send().await }
    });
    while vendor.counts().refused < REFUSALS && !call.is_finished() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let open = Shape::Window { amount: 100, length: second, phase: Span::ZERO };
    vendor.set_quotas(vec![Quota::calls(open)]);
    let answer = call.await??;

    let calls = vendor.calls();
    let first = calls.first().map(|call| call.at).unwrap_or_default();
    for call in &calls {
        let seconds = call.at.since(first).as_micros() as f64 / 1_000_000.0;
        let status = if call.outcome == Outcome::Accepted { 200 } else { 429 };
        say(format_args!("  {seconds:4.1} s  {status}"))?;
    }
    let rate = notion.limiter().snapshot().await?.current_rate.unwrap_or_default();
    say(format_args!("answered   {} at a rate of {rate:.1} a second", answer.status().as_u16()))?;
    say(format_args!(
        "           the documented design saves up {:.1} of a call at 0.3 a second and waits for ever",
        2.0 * 0.3
    ))?;
    Ok(())
}
