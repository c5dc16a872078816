//! `endpoints`: calls with limits or costs of their own, found by method and path.

use std::fmt;
use std::str::FromStr;

use tollway_config::{Section, Spanned, suggest, type_words};
use tollway_core::Name;

use super::cost::{self, UnitCost};

/// The most endpoints of one api: each call compares them in order.
pub(super) const ENDPOINTS_MAX: usize = 64;
/// The longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1_024;

const EXAMPLE: &str = "POST /v1/search";

/// Calls of an api that have a policy or a cost of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiEndpoint {
    pattern: EndpointPattern,
    policy: Option<Name>,
    cost: Vec<UnitCost>,
}

/// A method and a pattern of paths: `POST /v1/pages/*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPattern {
    /// Any, if there is none.
    method: Option<String>,
    segments: Vec<Segment>,
    /// Whether it ends with `**`.
    rest: bool,
}

/// One part of a path between slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Exact(String),
    /// What stands before and after the `*`.
    Around(String, String),
}

impl ApiEndpoint {
    /// Which calls it is for.
    pub fn pattern(&self) -> &EndpointPattern {
        &self.pattern
    }

    /// The policy that its calls are charged to before that of the api.
    pub fn policy(&self) -> Option<&Name> {
        self.policy.as_ref()
    }

    /// What its calls cost, instead of what the api says; empty if it says nothing else.
    pub fn cost(&self) -> &[UnitCost] {
        &self.cost
    }
}

impl EndpointPattern {
    /// Whether a call is meant. The path is that of the whole URL, without its query.
    ///
    /// ```
    /// # use tollway::config::EndpointPattern;
    /// let pattern: EndpointPattern = "GET /v1/pages/*".parse()?;
    /// assert!(pattern.matches("GET", "/v1/pages/7"));
    /// assert!(!pattern.matches("GET", "/v1/pages/7/properties"));
    /// assert!(!pattern.matches("PATCH", "/v1/pages/7"));
    /// # Ok::<(), String>(())
    /// ```
    pub fn matches(&self, method: &str, path: &str) -> bool {
        if self.method.as_deref().is_some_and(|known| !known.eq_ignore_ascii_case(method)) {
            return false;
        }
        let mut parts = parts(path);
        self.segments.iter().all(|segment| parts.next().is_some_and(|part| segment.matches(part)))
            && (self.rest || parts.next().is_none())
    }
}

impl Segment {
    fn matches(&self, part: &str) -> bool {
        match self {
            Self::Exact(text) => text == part,
            Self::Around(before, after) => {
                let inner =
                    part.strip_prefix(before.as_str()).and_then(|rest| rest.strip_suffix(after.as_str()));
                inner.is_some_and(|inner| !inner.is_empty())
            }
        }
    }
}

impl fmt::Display for EndpointPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(method) = &self.method {
            write!(f, "{method} ")?;
        }
        for segment in &self.segments {
            match segment {
                Segment::Exact(text) => write!(f, "/{text}")?,
                Segment::Around(before, after) => write!(f, "/{before}*{after}")?,
            }
        }
        match (self.rest, self.segments.is_empty()) {
            (true, _) => f.write_str("/**"),
            (false, true) => f.write_str("/"),
            (false, false) => Ok(()),
        }
    }
}

impl FromStr for EndpointPattern {
    type Err = String;

    /// `POST /v1/search`, or a path for every method. `*` is one segment or part of one, a last `**` is the rest.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("the pattern has more than {PATTERN_BYTES_MAX} bytes"));
        }
        let text = text.trim();
        let (method, path) = match text.split_once(char::is_whitespace) {
            Some((method, path)) => (Some(method), path.trim_start()),
            None => (None, text),
        };
        if method.is_some_and(|method| !method.bytes().all(|byte| byte.is_ascii_alphabetic())) {
            return Err(format!("{:?} is not a method", method.unwrap_or_default()));
        }
        if !path.starts_with('/') || path.contains(['?', '#']) || path.contains(char::is_whitespace) {
            return Err(format!("{path:?} is not a path: it begins with `/` and has no `?`, `#` or space"));
        }
        let (path, rest) = match path.strip_suffix("/**") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let segments = parts(path).map(segment).collect::<Result<_, String>>()?;
        Ok(Self { method: method.map(str::to_ascii_uppercase), segments, rest })
    }
}

fn segment(part: &str) -> Result<Segment, String> {
    if part.contains("**") {
        return Err("`**` is the rest of a path, so it stands alone at its end".to_owned());
    }
    match part.split_once('*') {
        None => Ok(Segment::Exact(part.to_owned())),
        Some((_, after)) if after.contains('*') => Err(format!("{part:?} has two `*`, and one is allowed")),
        Some((before, after)) => Ok(Segment::Around(before.to_owned(), after.to_owned())),
    }
}

/// The parts of a path; a slash at its end makes no part.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/').take(if path.is_empty() { 0 } else { usize::MAX })
}

/// The endpoints of the section in their order; what is wrong with them is in the report.
pub(super) fn read(section: &mut Section<'_>, policies: &[&str]) -> Option<Vec<ApiEndpoint>> {
    let items = section.list("endpoints", "[{ match = \"POST /v1/search\", policy = \"search\" }]")?;
    if let Some(over) = items.get(ENDPOINTS_MAX) {
        let message = format!(
            "[{}] has {} endpoints, more than the {ENDPOINTS_MAX} allowed",
            section.path(),
            items.len()
        );
        section.report().problem(over.span(), message, "join them with `*` and `**`");
        return None;
    }
    let path = format!("{}.endpoints", section.path());
    let read: Vec<_> = items
        .iter()
        .map(|item| match item.get_ref().as_table() {
            Some(table) => {
                let mut table = Section::new(section.report(), path.clone(), item.span(), table);
                let endpoint = read_one(&mut table, policies);
                table.finish();
                endpoint
            }
            None => {
                let message = format!("an endpoint is a table, not {}", type_words(item.get_ref()));
                let advice = format!("write it like {{ match = {EXAMPLE:?}, policy = \"search\" }}");
                section.report().problem(item.span(), message, advice);
                None
            }
        })
        .collect();
    read.into_iter().collect()
}

fn read_one(table: &mut Section<'_>, policies: &[&str]) -> Option<ApiEndpoint> {
    let wrong_before = table.report().count();
    table.required("match", "\"POST /v1/search\"");
    let pattern = table.string("match", EXAMPLE);
    let pattern = pattern.and_then(|text| {
        let wrong = |message: String| {
            table.report().problem_with(&text, message, format!("write it like {EXAMPLE:?}"));
        };
        text.get_ref().parse().map_err(wrong).ok()
    });
    let policy = read_policy(table, policies);
    let cost = cost::read(table);
    if !table.has("policy") && !table.has("cost") && !table.has_unknown() {
        let message = "this endpoint has neither `policy` nor `cost`, so it changes nothing";
        table.problem("", message, "name a policy, or say what its calls cost");
    }
    if table.report().count() > wrong_before {
        return None;
    }
    Some(ApiEndpoint { pattern: pattern?, policy, cost: cost.unwrap_or_default() })
}

/// `policy` of an api or an endpoint: one of the file, whose names are sorted.
pub(super) fn read_policy(section: &mut Section<'_>, policies: &[&str]) -> Option<Name> {
    let policy: Spanned<&str> = section.string("policy", "notion")?;
    if policies.binary_search(policy.get_ref()).is_err() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, method: &str, path: &str) -> bool {
        pattern.parse::<EndpointPattern>().unwrap().matches(method, path)
    }

    #[test]
    fn star_is_one_segment_and_two_stars_are_the_rest() {
        assert!(matches("POST /v1/search", "post", "/v1/search/"));
        assert!(!matches("POST /v1/search", "GET", "/v1/search"));
        assert!(matches("/v1/pages/*", "PATCH", "/v1/pages/7"));
        assert!(!matches("/v1/pages/*", "GET", "/v1/pages"));
        assert!(!matches("/v1/pages/*", "GET", "/v1/pages/7/blocks"));
        assert!(matches("GET /v1/**", "GET", "/v1/a/b") && matches("GET /v1/**", "GET", "/v1"));
        assert!(!matches("GET /v1/**", "GET", "/v2/a"));
        assert!(matches("/**", "GET", "/") && matches("/", "GET", "") && !matches("/", "GET", "/a"));
        let gemini = "POST /v1beta/models/*:generateContent";
        assert!(matches(gemini, "POST", "/v1beta/models/pro:generateContent"));
        assert!(!matches(gemini, "POST", "/v1beta/models/:generateContent"));
        assert!(!matches(gemini, "POST", "/v1beta/models/pro:countTokens"));
    }

    #[test]
    fn patterns_are_written_as_they_are_read() {
        for text in ["POST /v1/search", "/v1/pages/*", "GET /**", "/", "GET /a/b*c/**"] {
            assert_eq!(text.parse::<EndpointPattern>().unwrap().to_string(), text);
        }
        for wrong in ["", "v1", "P0ST /v1", "GET v1", "/a?b", "/a b/c", "/**/a", "/a**", "/a*b*c", "GET"] {
            assert!(wrong.parse::<EndpointPattern>().is_err(), "{wrong}");
        }
    }
}
