//! An api out of its section, over its profile.

use tollway_config::{DeValue, Section, Spanned, suggest};
use tollway_core::bounds::{SLOTS_MAX, WAIT_MAX};
use tollway_core::controller::{Keep, KeepError};
use tollway_core::{Name, NameError, Span};
use tollway_dialects::Dialect;

use super::rate::RateField;
use super::{Api, Fields, base_url, cost, endpoint, gateway, header, profiles, rate};
use crate::config::limits;

/// The most statuses of `backoff_codes`.
const CODES_MAX: usize = 16;
/// The highest `max_retries`: more is a loop.
const RETRIES_MAX: u64 = 100;

/// Other names of keys, as the documented registry has them.
const ALIASES: [(&str, &str); 3] = [
    ("backoff_codes", "backoff_status_codes"),
    ("max_retries", "max_retries_on_backoff"),
    ("documented", "documented_limit_desc"),
];

/// The profiles of a file: apis without profiles and policies.
pub(in crate::config) fn read_all(root: &mut Section<'_>) -> Vec<Api> {
    let apis = root.named_sections("apis").into_iter();
    let profile = |(name, mut section): (Spanned<&str>, Section<'_>)| {
        let fields = read_fields(&mut section, None, &[]);
        section.finish();
        let name = Name::new(name.get_ref()).ok()?;
        let has_limits = fields.limits.as_ref().is_some_and(|limits| !limits.is_empty());
        let has_rate = matches!(fields.rate, Some(RateField::On(_)));
        let policy = (has_limits || has_rate).then(|| name.clone());
        Some(Api { profile: Some(name.clone()), name, policy, fields, given: Vec::new() })
    };
    apis.filter_map(profile).collect()
}

/// The api, unless something is wrong with it; that is in the report then. `policies` are the names of those in the file, sorted.
pub(in crate::config) fn read(
    name: &Spanned<&str>,
    mut section: Section<'_>,
    policies: &[&str],
) -> Option<Api> {
    let wrong_before = section.report().count();
    let named = read_name(name, &mut section);
    let before_profile = section.report().count();
    let profile = read_profile(name, &mut section);
    let needs_url = profile.is_none() && section.report().count() == before_profile;
    let given = read_fields(&mut section, profile, policies);
    let given_keys = Api::KEYS.into_iter().filter(|key| given.has(key)).collect();
    let fields = match profile {
        Some(profile) => given.over(&profile.fields),
        None => given,
    };
    let api = named.map(|name| with_policy(name, profile, fields, given_keys, policies));
    if section.report().count() == wrong_before
        && !section.has_unknown()
        && let Some(api) = &api
    {
        check(name, api, &section, policies);
    }
    let report = section.report();
    if needs_url {
        section.required("base_url", "\"https://api.notion.com/v1\"");
    }
    section.finish();
    if report.count() > wrong_before { None } else { api }
}

fn with_policy(
    name: Name,
    profile: Option<&'static Api>,
    fields: Fields,
    given: Vec<&'static str>,
    policies: &[&str],
) -> Api {
    let profile = profile.map(|profile| profile.name.clone());
    let mut api = Api { name, profile, policy: None, fields, given };
    let same_name = policies.binary_search(&api.name.as_str()).is_ok();
    if (api.fields.policy.is_some() || same_name) && !api.given.contains(&"limits") {
        // The profile's limits are for apis without a policy.
        api.fields.limits = None;
    }
    let own = same_name || !api.limits().is_empty() || api.rate().is_some();
    api.policy = api.fields.policy.clone().or_else(|| own.then(|| api.name.clone()));
    api
}

/// What can be wrong although every key is right.
fn check(name: &Spanned<&str>, api: &Api, section: &Section<'_>, policies: &[&str]) {
    let report = section.report();
    if base_url::has_placeholder(api.base_url()) {
        let whose = if section.has("base_url") { "" } else { " of its profile" };
        let message = format!("`base_url`{whose} has a part in braces to fill in: {}", api.base_url());
        section.problem("base_url", message, "write your own address");
    }
    if api.policy().is_none() {
        let message =
            format!("[{}] has neither `rate` nor `policy`, so nothing would limit its calls", section.path());
        report.problem(name.span(), message, "name a policy, or write `rate = \"auto\"`");
    }
    if let (Some(timeout), Some(max_time)) = (api.fields.timeout, api.fields.max_time)
        && timeout > max_time
    {
        let key = if section.has("timeout") { "timeout" } else { "max_time" };
        let message = format!("`timeout`, for one attempt, is {timeout}, longer than `max_time`, {max_time}");
        section.problem(key, message, "make `max_time` long enough for an attempt and its retries");
    }
    if section.has("policy") && section.has("limits") {
        let message = "`limits` make a policy, and `policy` names another one";
        section.problem("limits", message, "move them to that policy, or leave `policy` out");
    } else if section.has("limits") && policies.binary_search(&api.name().as_str()).is_ok() {
        let message = format!("`limits` make a policy {}, and the file has one of that name", api.name());
        section.problem("limits", message, "move them to that policy");
    }
}

fn read_name(name: &Spanned<&str>, section: &mut Section<'_>) -> Option<Name> {
    let advice = "an api's name is made of letters, digits, `_`, `-` and `.`";
    let wrong = |error: NameError| section.report().problem(name.span(), error.to_string(), advice);
    let named = Name::new(name.get_ref()).map_err(wrong).ok();
    if let Some(again) = section.string("name", "notion")
        && again.get_ref() != name.get_ref()
    {
        let message = format!("`name` is {:?} in [{}]", again.get_ref(), section.path());
        section.problem("name", message, "leave it out: the section's name is the api's");
    }
    named
}

/// The profile that the section names, else the one with the api's name.
fn read_profile(name: &Spanned<&str>, section: &mut Section<'_>) -> Option<&'static Api> {
    if !section.has("profile") {
        section.value("profile");
        return profiles::find(name.get_ref());
    }
    let named = section.string("profile", "openai")?;
    if *named.get_ref() == "none" {
        return None;
    }
    let found = profiles::find(named.get_ref());
    if found.is_none() {
        let known: Vec<&str> =
            profiles::all().iter().map(|profile| profile.name().as_str()).chain(["none"]).collect();
        let message = format!("there is no profile {:?}", named.get_ref());
        section.problem("profile", message, &suggest::advice(named.get_ref(), &known));
    }
    found
}

fn read_fields(section: &mut Section<'_>, profile: Option<&Api>, policies: &[&str]) -> Fields {
    let base_url = base_url::read(section);
    let policy = endpoint::read_policy(section, policies);
    let limits = read_limits(section);
    let settings = profile.and_then(Api::rate).and_then(|rate| rate.settings());
    let rate: Option<RateField> = rate::read(section, settings);
    let concurrency = read_whole(section, "concurrency", 1..=SLOTS_MAX, "8");
    let keep = read_keep(section);
    let dialect = read_dialect(section);
    let backoff_codes = read_codes(section);
    let retries_key = alias(section, "max_retries");
    let max_retries = read_whole(section, retries_key, 0..=RETRIES_MAX, "5");
    let max_time = read_time(section, "max_time", "10m");
    let timeout = read_time(section, "timeout", "30s");
    let headers = header::read(section);
    let cost = cost::read(section);
    let endpoints = endpoint::read(section, policies);
    let gateway = section.section("gateway").map(|section| gateway::read(section, policies));
    let documented_key = alias(section, "documented");
    Fields {
        documented: read_line(section, documented_key, "about 3 requests a second"),
        documented_at: read_line(
            section,
            "documented_at",
            "https://developers.notion.com/reference/request-limits",
        ),
        base_url,
        policy,
        limits,
        rate,
        concurrency,
        keep,
        dialect,
        backoff_codes,
        max_retries,
        max_time,
        timeout,
        headers,
        cost,
        endpoints,
        gateway,
    }
}

/// The name under which the section has a key that has two.
fn alias(section: &mut Section<'_>, key: &'static str) -> &'static str {
    let Some((_, other)) = ALIASES.iter().find(|(known, _)| *known == key) else { return key };
    if !section.has(other) {
        return key;
    }
    section.value(other);
    if section.has(key) {
        section.problem(other, format!("`{other}` and `{key}` are the same"), "leave one of them out");
        return key;
    }
    // Known all the same, so that it can be suggested.
    section.value(key);
    other
}

/// `limits = [...]`, as in a policy; an empty list is "none", although the profile has some.
fn read_limits(section: &mut Section<'_>) -> Option<Vec<tollway_core::Limit>> {
    let value = section.value("limits")?;
    if value.get_ref().as_array().is_some_and(|items| items.is_empty()) {
        return Some(Vec::new());
    }
    limits::read(section)
}

fn read_keep(section: &mut Section<'_>) -> Option<Keep> {
    let text = section.string("keep", "10 %")?;
    let wrong = |error: KeepError| {
        section.problem(
            "keep",
            format!("`keep` is {:?}, {error}", text.get_ref()),
            "write it like `keep = \"10 %\"`",
        );
    };
    text.get_ref().parse().map_err(wrong).ok()
}

fn read_dialect(section: &mut Section<'_>) -> Option<&'static str> {
    let name = section.string("dialect", "openai")?;
    let known: Vec<&'static str> = Dialect::names().collect();
    let found = known.iter().find(|known| **known == *name.get_ref()).copied();
    if found.is_none() {
        let message = format!("there is no dialect {:?}", name.get_ref());
        section.problem("dialect", message, &suggest::advice(name.get_ref(), &known));
    }
    found
}

fn read_codes(section: &mut Section<'_>) -> Option<Vec<u16>> {
    let key = alias(section, "backoff_codes");
    let items = section.list(key, "[429, 503]")?;
    if items.is_empty() || items.len() > CODES_MAX {
        let message = format!("`{key}` has {} statuses, not 1 to {CODES_MAX}", items.len());
        section.problem(key, message, "write it like [429, 503]");
        return None;
    }
    let code = |item: &Spanned<DeValue<'_>>| {
        let code = whole(item.get_ref()).and_then(|code| u16::try_from(code).ok());
        let code = code.filter(|code| (400..=599).contains(code));
        if code.is_none() {
            let message = "this is not a status from 400 to 599";
            section.report().problem(item.span(), message, "write it like [429, 503]");
        }
        code
    };
    let read: Vec<Option<u16>> = items.iter().map(code).collect();
    let mut codes: Vec<u16> = read.into_iter().collect::<Option<_>>()?;
    codes.sort_unstable();
    codes.dedup();
    Some(codes)
}

fn read_whole(
    section: &mut Section<'_>,
    key: &'static str,
    range: std::ops::RangeInclusive<u64>,
    example: &str,
) -> Option<u32> {
    let value = section.value(key)?;
    let number = whole(value.get_ref()).filter(|number| range.contains(number));
    if number.is_none() {
        let message = format!("`{key}` must be a whole number from {} to {}", range.start(), range.end());
        section.problem(key, message, &format!("write it like `{key} = {example}`"));
    }
    number.and_then(|number| u32::try_from(number).ok())
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}

/// A length of time above zero.
pub(super) fn read_time(section: &mut Section<'_>, key: &'static str, example: &str) -> Option<Span> {
    let time = section.span(key, example)?;
    if time == Span::ZERO || time > WAIT_MAX {
        let message = format!("`{key}` must be from 1ms to {WAIT_MAX}, not {time}");
        section.problem(key, message, &format!("write it like `{key} = {example:?}`"));
        return None;
    }
    Some(time)
}

/// One line of text.
fn read_line(section: &mut Section<'_>, key: &'static str, example: &str) -> Option<String> {
    let text = section.string(key, example)?;
    if text.get_ref().chars().any(char::is_control) {
        let message = format!("`{key}` is one line of text");
        section.problem(key, message, "leave out line breaks and control characters");
        return None;
    }
    Some((*text.get_ref()).to_owned())
}
