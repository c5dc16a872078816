//! A vendor's way to tell its limits: tables, and the one function that reads a response by them.

use std::collections::HashSet;
use std::fmt;
use std::sync::LazyLock;

use http::HeaderMap;

use crate::body::ResponseBody;
use crate::body_need::may_be_refusal;
use crate::body_quotas::{self, BodyQuotas};
use crate::headers::{self, QuotaRows};
use crate::observation::{Observation, RefusalKind, VendorQuota, clean};
use crate::ratelimit_fields;
use crate::refusal::{self, RefusalRow};
use crate::response::{ParsedResponse, ResponseField, ResponseSign, VendorResponse};
use crate::tables::{self, DIALECTS, HTTP};
use crate::usage::TokenUsage;
use crate::wait::{self, WaitRow};

/// A vendor's way to tell its limits: which headers, in which notation, and which errors mean what.
///
/// All dialects are in a table; get one [`by_name`](Self::by_name), or [`detect`](Self::detect) it.
pub struct Dialect {
    /// Its name, and those of vendors that do the same.
    pub(crate) names: &'static [&'static str],
    /// Headers by which it is detected: all of one group, each with a part of its value.
    pub(crate) detected_by: &'static [&'static [(&'static str, &'static str)]],
    /// Signs of its refusals that no other vendor sends, for responses without headers of its own.
    pub(crate) told_by: &'static [ResponseSign],
    /// Whether it is a convention of many vendors: then a refusal's body may tell which one it is.
    pub(crate) is_general: bool,
    pub(crate) quotas: &'static [QuotaRows],
    /// Whether it has the IETF's `RateLimit` and `RateLimit-Policy`.
    pub(crate) ratelimit_fields: bool,
    pub(crate) refusals: &'static [RefusalRow],
    pub(crate) waits: &'static [WaitRow],
    /// Where the vendor names the limit that refused.
    pub(crate) reasons: &'static [ResponseField],
    pub(crate) body_quotas: Option<BodyQuotas>,
    /// Whether the bodies of all successes are read: they tell of quotas.
    pub(crate) reads_successes: bool,
    pub(crate) token_rule: TokenRule,
}

/// Which tokens of a call count against a limit of `tokens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenRule {
    All,
    /// Gemini.
    InputOnly,
    /// Anthropic: tokens that are read from its cache are free.
    WithoutCache,
}

/// The headers of which a response has one if it shows any dialect: the first of every group.
static SHOWING: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let groups = DIALECTS.iter().flat_map(|dialect| dialect.detected_by);
    groups.filter_map(|group| group.first()).map(|(header, _)| *header).collect()
});

impl Dialect {
    /// The dialect of a vendor: `"openai"`, `"github"`. See [`names`](Self::names).
    pub fn by_name(name: &str) -> Option<&'static Self> {
        DIALECTS.iter().copied().find(|dialect| dialect.names.contains(&name))
    }

    /// All names, also those of vendors that share a dialect.
    pub fn names() -> impl Iterator<Item = &'static str> {
        DIALECTS.iter().flat_map(|dialect| dialect.names.iter().copied())
    }

    /// The dialect that a response's headers show; `http`, which knows `Retry-After` and little else, if none
    /// does.
    ///
    /// Vendors that send no headers of their own, such as Gemini, are known by the bodies of their refusals: then
    /// [`observe`](Self::observe) of a general dialect reads what theirs reads.
    pub fn detect(headers: &HeaderMap) -> &'static Self {
        let is_there = |(header, part): &(&str, &str)| {
            headers.get(*header).is_some_and(|value| value.to_str().is_ok_and(|value| value.contains(part)))
        };
        let is_shown = |dialect: &&Self| dialect.detected_by.iter().any(|group| group.iter().all(is_there));
        // Most answers have no such header, and then there is nothing to look for.
        let may_show = headers.keys().any(|header| SHOWING.contains(header.as_str()));
        DIALECTS.iter().copied().filter(|_| may_show).find(is_shown).unwrap_or(&HTTP)
    }

    /// The dialect that a response shows, by its headers, else by the body of a refusal.
    pub fn detect_in(response: &VendorResponse<'_>) -> &'static Self {
        let dialect = Self::detect(response.headers);
        let parsed = ParsedResponse::of(response, dialect.parse_body(response));
        dialect.vendor_in(&parsed).unwrap_or(dialect)
    }

    /// The vendor that the body tells, where the headers do not.
    fn vendor_in(&self, parsed: &ParsedResponse<'_>) -> Option<&'static Self> {
        if self.is_general { tables::told_by(parsed) } else { None }
    }

    /// Its name: the first, if it has several.
    pub fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }

    /// How much of a unit of limits a call has used, as this vendor counts: `tokens`, `input_tokens` or `output_tokens`.
    /// None for other units.
    ///
    /// ```
    /// use tollway_dialects::{Dialect, TokenUsage};
    ///
    /// let usage = TokenUsage { input: 1_000, cached_input: 800, output: 50 };
    /// let counted = |dialect| Dialect::by_name(dialect)?.tokens_counted(usage, "tokens");
    /// assert_eq!(counted("openai"), Some(1_050));
    /// assert_eq!(counted("anthropic"), Some(250)); // what is read from the cache is free
    /// assert_eq!(counted("gemini"), Some(1_000)); // its limit is one of input tokens
    /// ```
    pub fn tokens_counted(&self, usage: TokenUsage, unit: &str) -> Option<u64> {
        let input = match self.token_rule {
            TokenRule::All | TokenRule::InputOnly => usage.input,
            TokenRule::WithoutCache => usage.input.saturating_sub(usage.cached_input),
        };
        match (unit, self.token_rule) {
            ("tokens", TokenRule::InputOnly) | ("input_tokens", _) => Some(input),
            ("tokens", TokenRule::All | TokenRule::WithoutCache) => Some(input.saturating_add(usage.output)),
            ("output_tokens", _) => Some(usage.output),
            _ => None,
        }
    }

    /// Reads a response.
    pub fn observe(&self, response: &VendorResponse<'_>) -> Observation {
        self.observe_with(response, |_| None)
    }

    /// Reads a response of a vendor that refuses in its own way, such as inside a 200.
    ///
    /// `refused_as` is asked first. If it returns `None`, the dialect decides.
    pub fn observe_with(
        &self,
        response: &VendorResponse<'_>,
        refused_as: impl Fn(&VendorResponse<'_>) -> Option<RefusalKind>,
    ) -> Observation {
        let known = refused_as(response);
        let is_success = response.status.is_success();
        let may_refuse = || self.refuses_in_success() && may_be_refusal(response.body);
        let reads_body = known.is_some() || !is_success || self.reads_successes || may_refuse();
        let body = if reads_body { self.parse_body(response) } else { ResponseBody::default() };
        let parsed = ParsedResponse::of(response, body);
        let vendor = self.vendor_in(&parsed).unwrap_or(self);

        let mut quotas = self.header_quotas(&parsed);
        let implied = vendor.body_quotas.and_then(|read| read(&parsed, &mut quotas));
        refusal::mark_violated_policies(&parsed, &mut quotas);

        let is_error = parsed.status.is_client_error() || parsed.status.is_server_error();
        let mut told = if is_error { wait::retry_after(&parsed) } else { None };
        let refusal = known.or_else(|| refusal::classify(vendor.refusals, &parsed, &quotas, told.is_some()));
        if refusal.is_some() && !is_error {
            told = wait::retry_after(&parsed);
        }
        let mut wait = None;
        if is_error || refusal.is_some() {
            wait = told.or_else(|| wait::by_rows(vendor.waits, &parsed, refusal));
        }
        if let Some(refusal) = refusal {
            wait = wait.or(implied).or_else(|| wait::until_reset(&quotas, refusal));
        }
        Observation {
            refusal,
            wait: wait.map(|wait| wait::capped(wait, refusal)),
            reason: refusal.and_then(|refusal| vendor.reason(refusal, &parsed, &quotas)),
            quotas,
        }
    }

    fn header_quotas(&self, parsed: &ParsedResponse<'_>) -> Vec<VendorQuota> {
        let mut quotas = Vec::new();
        if self.ratelimit_fields {
            ratelimit_fields::read(parsed.headers, &mut quotas);
        }
        // The older three fields say the same as the newer two, with less detail.
        if quotas.is_empty() {
            for rows in self.quotas {
                headers::read(rows, parsed.headers, parsed.sent, &mut quotas);
            }
        }
        quotas
    }

    /// Whether one of its refusals may be a success by its status.
    pub(crate) fn refuses_in_success(&self) -> bool {
        self.is_general || self.refusals.iter().any(|row| row.sign.fits_success())
    }

    /// A general dialect reads what every vendor's does: the body tells which one it is.
    fn parse_body(&self, response: &VendorResponse<'_>) -> ResponseBody {
        let body = ResponseBody::parse(response.body, |key| {
            let shared = refusal::MEMBERS.contains(&key) || body_quotas::MEMBERS.contains(&key);
            shared
                || self.reads(key)
                || (self.is_general && DIALECTS.iter().any(|dialect| dialect.reads(key)))
        });
        // The elements of a list are data, whatever they look like.
        if response.status.is_success() && body.is_in_array { ResponseBody::default() } else { body }
    }

    fn reads(&self, key: &str) -> bool {
        let signs = self.told_by.iter().chain(self.refusals.iter().map(|row| &row.sign));
        let fields = self.waits.iter().map(|row| row.field).chain(self.reasons.iter().copied());
        let members = signs.flat_map(ResponseSign::members).chain(fields.filter_map(ResponseField::member));
        members.into_iter().any(|member| member == key)
    }

    /// The vendor's word. Of a daily quota it is its name: the word may be about a shorter one that is used up too.
    fn reason(
        &self,
        refusal: RefusalKind,
        parsed: &ParsedResponse<'_>,
        quotas: &[VendorQuota],
    ) -> Option<String> {
        let is_meant = |quota: &&VendorQuota| {
            refusal == RefusalKind::DailyQuota && quota.is_exhausted() && quota.is_daily()
        };
        let name = quotas.iter().filter(is_meant).find_map(|quota| quota.name.clone());
        name.or_else(|| {
            self.reasons.iter().flat_map(|field| parsed.texts(*field)).find_map(|text| clean(&text))
        })
    }
}

/// Two dialects are the same if they have the same name.
impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Dialect {}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dialect").field(&self.name()).finish()
    }
}
