//! `[apis.NAME]`: a vendor that is called. Checked and kept; the client that calls it comes in a later version.

use std::ops::Range;

use tollway_config::{DeValue, Millionths, Section, Spanned, suggest, type_words};
use tollway_core::{Name, NameError};

/// The highest rate a vendor may have, calls a second: no single vendor is called more often.
const RATE_MAX: Millionths = Millionths::whole(1_000_000);
/// A factor that decreases is at most this.
const FACTOR_MAX: Millionths = Millionths::whole(1);

const RATE_EXAMPLE: &str =
    "{ initial = 2.0, min = 0.3, max = 3.5, increase_step = 0.1, decrease_factor = 0.5 }, or \"auto\"";

/// A vendor in the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    name: Name,
    base_url: String,
    policy: Option<Name>,
    rate: Option<ApiRate>,
    documented: Option<String>,
}

/// How the rate of calls to a vendor is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiRate {
    /// `"auto"`: found without settings.
    Auto,
    /// By these settings.
    By(RateSettings),
}

/// Five settings for a limit that is not known exactly: rates in calls a second, and a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSettings {
    initial: Millionths,
    min: Millionths,
    max: Millionths,
    increase_step: Millionths,
    decrease_factor: Millionths,
}

impl Api {
    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// What its addresses begin with.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The policy of the same file that its calls are counted under.
    pub fn policy(&self) -> Option<&Name> {
        self.policy.as_ref()
    }

    /// How its rate is found, if it has one beside the policy's limits.
    pub fn rate(&self) -> Option<ApiRate> {
        self.rate
    }

    /// What the vendor says about its limit.
    pub fn documented(&self) -> Option<&str> {
        self.documented.as_deref()
    }
}

impl ApiRate {
    /// The settings; none of `"auto"`.
    pub fn settings(self) -> Option<RateSettings> {
        match self {
            Self::Auto => None,
            Self::By(settings) => Some(settings),
        }
    }
}

impl RateSettings {
    /// Where it starts.
    pub fn initial(&self) -> Millionths {
        self.initial
    }

    /// What it never falls below.
    pub fn min(&self) -> Millionths {
        self.min
    }

    /// What it never rises above.
    pub fn max(&self) -> Millionths {
        self.max
    }

    /// What each success adds.
    pub fn increase_step(&self) -> Millionths {
        self.increase_step
    }

    /// What a refusal multiplies it with.
    pub fn decrease_factor(&self) -> Millionths {
        self.decrease_factor
    }
}

/// The api, unless something is wrong with it; that is in the report then. `policies` are the names of those in the file.
pub(super) fn read(name: &Spanned<&str>, mut section: Section<'_>, policies: &[&str]) -> Option<Api> {
    let wrong_before = section.report().count();
    let named = read_name(name, &section);
    let base_url = read_base_url(&mut section);
    let policy = read_policy(&mut section, policies);
    let rate = read_rate(&mut section);
    let documented = read_documented(&mut section);
    if !section.has("policy") && !section.has("rate") && !section.has_unknown() {
        let message =
            format!("[{}] has neither `rate` nor `policy`, so nothing would limit its calls", section.path());
        section.report().problem(name.span(), message, "name a policy, or write `rate = \"auto\"`");
    }
    let report = section.report();
    section.finish();
    if report.count() > wrong_before {
        return None;
    }
    Some(Api { name: named?, base_url: base_url?, policy, rate, documented })
}

fn read_name(name: &Spanned<&str>, section: &Section<'_>) -> Option<Name> {
    let advice = "an api's name is made of letters, digits, `_`, `-` and `.`";
    let wrong = |error: NameError| section.report().problem(name.span(), error.to_string(), advice);
    Name::new(name.get_ref()).map_err(wrong).ok()
}

fn read_base_url(section: &mut Section<'_>) -> Option<String> {
    const EXAMPLE: &str = "https://api.notion.com/v1";
    section.required("base_url", "\"https://api.notion.com/v1\"")?;
    let url = section.string("base_url", EXAMPLE)?;
    let Some((part, message)) = what_is_wrong_with_url(url.get_ref()) else {
        return Some((*url.get_ref()).to_owned());
    };
    section.report().problem_in(&url, part, message, format!("write it like {EXAMPLE:?}"));
    None
}

/// The wrong part of a URL, and why. The crate `url` reports no position and accepts what must be refused (`https:///v1`
/// becomes the host `v1`). The part never contains a password, because it is shown and logged.
fn what_is_wrong_with_url(url: &str) -> Option<(Range<usize>, &'static str)> {
    let whole = 0..url.len();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Some((0..scheme.len(), "`base_url` must begin with https:// or http://"));
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some(at) = host.rfind('@') {
        let at = url.len().saturating_sub(rest.len()).saturating_add(at);
        let message =
            "`base_url` has a user or a password before its host, and config files are copied around";
        return Some((at..at.saturating_add(1), message));
    }
    if url.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return Some((whole, "`base_url` has a space or a control character in it"));
    }
    if url.contains(['?', '#']) {
        return Some((whole, "`base_url` ends where paths begin, so it has no `?` and no `#`"));
    }
    (host.is_empty() || host.starts_with(':')).then_some((whole, "`base_url` names no host"))
}

fn read_policy(section: &mut Section<'_>, policies: &[&str]) -> Option<Name> {
    let policy = section.string("policy", "notion")?;
    if !policies.contains(policy.get_ref()) {
        let message = format!("there is no policy {:?} in this file", policy.get_ref());
        let advice = match policies {
            [] => format!("write one: [policies.{}]", policy.get_ref()),
            known => suggest::advice(policy.get_ref(), known),
        };
        section.problem("policy", message, &advice);
        return None;
    }
    // An invalid policy name was reported in its own section.
    Name::new(policy.get_ref()).ok()
}

fn read_documented(section: &mut Section<'_>) -> Option<String> {
    let text = section.string("documented", "about 3 requests a second")?;
    if text.get_ref().chars().any(char::is_control) {
        section.problem(
            "documented",
            "`documented` is one line of text",
            "leave out line breaks and control characters",
        );
        return None;
    }
    Some((*text.get_ref()).to_owned())
}

fn read_rate(section: &mut Section<'_>) -> Option<ApiRate> {
    let value = section.value("rate")?;
    let advice = format!("write it like {RATE_EXAMPLE}");
    match value.get_ref() {
        DeValue::String(word) if AsRef::<str>::as_ref(word) == "auto" => Some(ApiRate::Auto),
        DeValue::String(word) => {
            section.problem("rate", format!("{word:?} is not a rate"), &advice);
            None
        }
        DeValue::Table(table) => {
            let path = format!("{}.rate", section.path());
            read_settings(Section::new(section.report(), path, value.span(), table)).map(ApiRate::By)
        }
        other => {
            let message =
                format!("`rate` must be a table of five numbers or \"auto\", not {}", type_words(other));
            section.problem("rate", message, &advice);
            None
        }
    }
}

fn read_settings(mut table: Section<'_>) -> Option<RateSettings> {
    let initial = table.millionths("initial", RATE_MAX, "2.0");
    let min = table.millionths("min", RATE_MAX, "0.1");
    let max = table.millionths("max", RATE_MAX, "3.5");
    let increase_step = table.millionths("increase_step", RATE_MAX, "0.1");
    let decrease_factor = table.millionths("decrease_factor", FACTOR_MAX, "0.5");
    if let Some((min, max)) = min.zip(max) {
        check_order(&table, initial, min, max);
    }
    table.finish();
    Some(RateSettings {
        initial: initial?,
        min: min?,
        max: max?,
        increase_step: increase_step?,
        decrease_factor: decrease_factor?,
    })
}

fn check_order(table: &Section<'_>, initial: Option<Millionths>, min: Millionths, max: Millionths) {
    if min > max {
        table.problem("min", format!("`min` is {min}, above `max`, which is {max}"), "exchange them");
    } else if let Some(initial) = initial
        && !(min..=max).contains(&initial)
    {
        let message = format!("`initial` is {initial}, outside `min` to `max`, {min} to {max}");
        table.problem("initial", message, "start between them");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_http_and_names_a_host() {
        for good in ["https://api.notion.com/v1", "http://127.0.0.1:8080", "HTTPS://[::1]/", "http://a/@b"] {
            assert_eq!(what_is_wrong_with_url(good), None, "{good}");
        }
        for (wrong, part, message) in [
            ("", "", "begin with"),
            ("api.notion.com/v1", "", "begin with"),
            ("ftp://a", "ftp", "begin with"),
            ("://a", "", "begin with"),
            ("https://", "https://", "no host"),
            ("https:///v1", "https:///v1", "no host"),
            ("https://:80", "https://:80", "no host"),
            ("https://a b", "https://a b", "space"),
            ("https://me:secret@a", "@", "password"),
            ("https://a/?key=1", "https://a/?key=1", "`?`"),
        ] {
            let found = what_is_wrong_with_url(wrong).unwrap();
            assert_eq!(wrong.get(found.0), Some(part), "{wrong}");
            assert!(found.1.contains(message), "{wrong}: {}", found.1);
        }
    }
}
