//! The outcome of a call: attempts, quotas, the rate afterwards, the beginning of the body.

use std::fmt::Write as _;

use http::Method;
use serde_json::{Value, json};
use tollway::Span;
use tollway::config::Api;
use tollway_client::{ApiSnapshot, Attempt};
use tollway_dialects::{Observation, QuotaReset, VendorQuota};

use crate::failure::Failure;
use crate::humanize;
use crate::output::{BAD, FAINT, GOOD, Output, STRONG};

/// Bytes of the body that are shown.
const SHOWN_BYTES: usize = 1_000;

/// A call that was tried.
pub(super) struct CallResult {
    api: String,
    method: String,
    base_url: String,
    /// Without its query, which may be a secret.
    path: String,
    pub(super) attempts: Vec<Attempt>,
    pub(super) status: Option<u16>,
    /// What the last answer said.
    pub(super) said: Option<ObservedLimits>,
    pub(super) snapshot: Option<ApiSnapshot>,
    pub(super) body: Option<Body>,
}

/// What an answer said about limits.
#[derive(Clone)]
pub(super) struct ObservedLimits {
    pub(super) dialect: &'static str,
    pub(super) observation: Observation,
}

/// The beginning of a body.
pub(super) struct Body {
    content_type: String,
    bytes: usize,
    begins: String,
    is_whole: bool,
}

impl CallResult {
    pub(super) fn new(api: &Api, method: &Method, path: &str) -> Self {
        Self {
            api: api.name().to_string(),
            method: method.to_string(),
            base_url: api.base_url().to_owned(),
            path: path.split(['?', '#']).next().unwrap_or_default().to_owned(),
            attempts: Vec::new(),
            status: None,
            said: None,
            snapshot: None,
            body: None,
        }
    }

    pub(super) fn print(&self, output: &Output) -> Result<(), Failure> {
        if output.is_json() {
            return output.json(&self.json());
        }
        output.line(format_args!("{STRONG}{} {}{STRONG:#}", self.method, self.path))?;
        row(output, "api", format_args!("{} at {}", self.api, self.base_url))?;
        for (number, attempt) in self.attempts.iter().enumerate() {
            let waited = humanize::duration(attempt.waited);
            let style = if attempt.status.is_some_and(|status| status.is_success()) { GOOD } else { BAD };
            row(
                output,
                &format!("attempt {}", number + 1),
                format_args!("waited {waited}, {style}{attempt}{style:#}"),
            )?;
        }
        if let Some(ObservedLimits { dialect, observation }) = &self.said {
            row(output, "dialect", dialect)?;
            observation.quotas.iter().try_for_each(|quota| row(output, "quota", quota_text(quota)))?;
        }
        if let Some(snapshot) = &self.snapshot {
            row(output, "rate", rate_text(snapshot))?;
            row(output, "cooldown", cooldown(snapshot).map_or_else(|| "none".to_owned(), humanize::span))?;
        }
        let Some(body) = &self.body else { return Ok(()) };
        row(
            output,
            "body",
            format_args!("{}, {}", body.content_type, humanize::counted(body.bytes as u64, "bytes")),
        )?;
        let more = if body.is_whole { String::new() } else { format!("{FAINT}...{FAINT:#}") };
        output.line(format_args!("{}{more}", body.begins))
    }

    fn json(&self) -> Value {
        let attempts: Vec<Value> = self.attempts.iter().map(attempt_json).collect();
        let observation = self.said.as_ref().map(|said| &said.observation);
        let quotas: Vec<Value> = observation.iter().flat_map(|said| &said.quotas).map(quota_json).collect();
        json!({
            "api": self.api,
            "method": self.method,
            "base_url": self.base_url,
            "path": self.path,
            "attempts": attempts,
            "status": self.status,
            "refusal": self.attempts.last().and_then(|last| last.refusal).map(|kind| kind.as_str()),
            "dialect": self.said.as_ref().map(|said| said.dialect),
            "quotas": quotas,
            "rate": self.snapshot.as_ref().map(|snapshot| json!({
                "current": snapshot.current_rate,
                "tokens": snapshot.tokens,
                "ceiling": snapshot.ceiling,
                "cooldown_ms": cooldown(snapshot).map_or(0, |left| left.as_micros().div_ceil(1_000)),
            })),
            "body": self.body.as_ref().map(|body| json!({
                "content_type": body.content_type,
                "bytes": body.bytes,
                "begins": body.begins,
            })),
        })
    }
}

impl Body {
    /// Reads it to its end, because the tokens used are there, but not further than `bytes_max`.
    pub(super) async fn read(mut response: reqwest::Response, bytes_max: usize) -> Self {
        let content_type = response.headers().get(http::header::CONTENT_TYPE);
        let content_type =
            content_type.and_then(|kind| kind.to_str().ok()).unwrap_or("no content type").to_owned();
        let (mut kept, mut bytes) = (Vec::new(), 0);
        // A body that breaks off is shown as far as it came.
        while let Ok(Some(chunk)) = response.chunk().await {
            bytes += chunk.len();
            let room = SHOWN_BYTES.saturating_sub(kept.len());
            kept.extend(chunk.iter().take(room));
            if bytes >= bytes_max {
                break;
            }
        }
        let begins: String = String::from_utf8_lossy(&kept).chars().map(printable).collect();
        Self { content_type, bytes, is_whole: bytes == kept.len(), begins: begins.trim_end().to_owned() }
    }
}

/// A terminal must not be told what to do.
fn printable(character: char) -> char {
    if tollway::core::is_invisible(character) && !matches!(character, '\n' | '\t') {
        '\u{fffd}'
    } else {
        character
    }
}

fn row(output: &Output, name: &str, text: impl std::fmt::Display) -> Result<(), Failure> {
    output.line(format_args!("{FAINT}{name:10}{FAINT:#} {text}"))
}

fn quota_text(quota: &VendorQuota) -> String {
    let mut text = quota.unit.to_string();
    if let Some(name) = &quota.name {
        let _ = write!(text, " ({name})");
    }
    let count = |number: u64| humanize::count(number);
    let _ = match (quota.remaining, quota.limit) {
        (Some(left), Some(limit)) => write!(text, ": {} of {} left", count(left), count(limit)),
        (Some(left), None) => write!(text, ": {} left", count(left)),
        (None, Some(limit)) => write!(text, ": {}", count(limit)),
        (None, None) => Ok(()),
    };
    if let Some(window) = quota.window {
        let _ = write!(text, " in {}", humanize::duration(window));
    }
    let _ = match quota.reset {
        Some(QuotaReset::WindowEnds(after)) => write!(text, ", resets in {}", humanize::duration(after)),
        Some(QuotaReset::BucketFull(after)) => write!(text, ", full in {}", humanize::duration(after)),
        None => Ok(()),
    };
    text
}

fn rate_text(snapshot: &ApiSnapshot) -> String {
    let Some(rate) = snapshot.current_rate else { return "none".to_owned() };
    let mut text = format!("{rate:.2} a second");
    if let Some(tokens) = snapshot.tokens {
        let _ = write!(text, ", {} at once", humanize::counted(tokens, "calls"));
    }
    if let Some(ceiling) = snapshot.ceiling {
        let _ = write!(text, ", measured limit {ceiling:.2} a second");
    }
    text
}

fn cooldown(snapshot: &ApiSnapshot) -> Option<Span> {
    snapshot.cooldown_until.map(|until| until.since(snapshot.now)).filter(|left| *left > Span::ZERO)
}

fn attempt_json(attempt: &Attempt) -> Value {
    json!({
        "waited_ms": attempt.waited.as_micros().div_ceil(1_000),
        "status": attempt.status.map(|status| status.as_u16()),
        "refusal": attempt.refusal.map(|kind| kind.as_str()),
        "wait_ms": attempt.wait.map(|wait| wait.as_micros().div_ceil(1_000)),
        "said": attempt.said,
    })
}

fn quota_json(quota: &VendorQuota) -> Value {
    let millis = |time: std::time::Duration| time.as_micros().div_ceil(1_000);
    json!({
        "name": quota.name,
        "unit": quota.unit.as_str(),
        "limit": quota.limit,
        "remaining": quota.remaining,
        "window_ms": quota.window.map(millis),
        "reset_ms": quota.reset.map(|reset| millis(reset.after())),
    })
}
