//! What the vendor and the processes counted.

use std::collections::BTreeMap;

use tollway_vendor::Outcome;
use tollway_vendor::server::{LoggedCall, VendorServer};

use crate::coordinator::{Translation, WORKERS};
use crate::{Arguments, BoxError, REQUESTS_A_DAY, REQUESTS_A_MINUTE, TOKENS_A_MINUTE, say};

pub(crate) fn print(
    translation: &Translation,
    vendor: &VendorServer,
    arguments: &Arguments,
) -> Result<(), BoxError> {
    let counts = vendor.counts();
    let calls = vendor.calls();
    let minutes = used_in(&calls, arguments.minute);
    say("\nminute  requests  tokens")?;
    for (number, (requests, tokens)) in minutes.values().enumerate() {
        say(format_args!(
            "{:>6}  {requests} of {REQUESTS_A_MINUTE}    {:>7} of {}",
            number + 1,
            thousands(*tokens),
            thousands(TOKENS_A_MINUTE)
        ))?;
    }
    let texts = &translation.texts;
    let sum = |of: fn(&crate::worker::Translated) -> u64| texts.iter().map(of).sum::<u64>();
    let (estimated, settled) = (sum(|text| text.estimated), sum(|text| text.settled));
    let killed = translation.killed.map(|(worker, text)| format!("; {worker} was killed with text {text}"));
    say(format_args!("\ntexts     {} by {WORKERS} processes{}", texts.len(), killed.unwrap_or_default()))?;
    say(format_args!("calls     {} accepted, {} refused", counts.accepted, counts.refused))?;
    say(format_args!("tokens    {} estimated, {} settled", thousands(estimated), thousands(settled)))?;
    let days = used_in(&calls, arguments.day());
    let days: Vec<String> =
        days.values().map(|(requests, _)| format!("{requests} of {REQUESTS_A_DAY}")).collect();
    say(format_args!("days      {}", days.join(", ")))?;
    let allowed = REQUESTS_A_MINUTE * minutes.len() as u64;
    let share = 100 * counts.accepted / allowed.max(1);
    say(format_args!("quota     {share} % of the requests that these minutes allowed"))?;
    Ok(())
}

/// Accepted calls and their tokens in each window of this many seconds, in order.
fn used_in(calls: &[LoggedCall], seconds: u64) -> BTreeMap<u64, (u64, u64)> {
    let mut windows = BTreeMap::new();
    for call in calls.iter().filter(|call| call.outcome == Outcome::Accepted) {
        let (requests, tokens) = windows.entry(call.at.as_micros() / (seconds * 1_000_000)).or_insert((0, 0));
        *requests += 1;
        *tokens += call.tokens;
    }
    windows
}

/// `1250000` as `1,250,000`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
