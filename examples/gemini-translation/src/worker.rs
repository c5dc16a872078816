//! One process: reads numbers of texts from standard input, translates them, writes a line of JSON for each.
//!
//! It knows nothing of the other processes. That all of them together keep to the limits is the store's work.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollway_client::{ApiClient, Attempts};

use crate::{BoxError, say};

const MODEL: &str = "/models/gemini-2.5-pro:generateContent";

/// A translated text.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Translated {
    pub(crate) text: usize,
    /// Calls that it took: one, unless the vendor refused.
    pub(crate) calls: usize,
    /// Tokens that were taken before the call.
    pub(crate) estimated: u64,
    /// Tokens that the answer said it used.
    pub(crate) settled: u64,
}

pub(crate) async fn run(config: &Path) -> Result<(), BoxError> {
    let gemini = ApiClient::builder("gemini").config(config).build()?;
    // This thread has nothing else to do while it reads; other threads tell the store what answers said.
    for number in io::stdin().lines() {
        let translated = translate(&gemini, number?.parse()?).await?;
        say(serde_json::to_string(&translated)?)?;
    }
    Ok(())
}

/// Waits for requests and tokens of the minute and for one request of the day, then calls.
async fn translate(gemini: &ApiClient, text: usize) -> Result<Translated, BoxError> {
    let prompt = format!("Translate into French:\n{}", text_of(text));
    let body = json!({
        "contents": [{ "parts": [{ "text": prompt }] }],
        "generationConfig": { "maxOutputTokens": 64 },
    });
    let body = body.to_string();
    let estimate = gemini.limiter().api().cost().first().map(|cost| cost.estimate());
    let estimated = estimate.map_or(0, |estimate| estimate.of(body.len() as u64));
    let request = gemini.post(MODEL).header("content-type", "application/json").body(body);
    let answer = request.send().await?.error_for_status()?;
    let calls = Attempts::of(answer.extensions()).len();
    let answer: Value = answer.json().await?;
    let settled = answer["usageMetadata"]["promptTokenCount"].as_u64();
    Ok(Translated { text, calls, estimated, settled: settled.ok_or("the answer shows no usage")? })
}

/// A text of 20,000 to 60,000 tokens. Its length follows from its number.
fn text_of(number: usize) -> String {
    let tokens = 20_000 + number * 7_919 % 40 * 1_000;
    "word".repeat(tokens)
}
