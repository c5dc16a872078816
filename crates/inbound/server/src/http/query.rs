//! The query of a URL.

use tollway_inbound::escapes::percent_decode;

use super::problem::Problem;

/// Percent-decoded names and values.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query; a name that is not `known` is an error.
    pub(crate) fn read(query: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let not_text = || Problem::bad_request("the query is not percent-encoded UTF-8");
            let spaced = |text: &str| text.replace('+', " ");
            let (name, value) =
                percent_decode(&spaced(name)).zip(percent_decode(&spaced(value))).ok_or_else(not_text)?;
            if !known.contains(&name.as_str()) {
                let message =
                    format!("{:?} is not a parameter here; there are {}", shortened(&name), known.join(", "));
                return Err(Problem::bad_request(message));
            }
            if pairs.iter().any(|(given, _)| *given == name) {
                return Err(Problem::bad_request(format!("the parameter {name} occurs twice")));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<&str, Problem> {
        self.get(name).ok_or_else(|| Problem::bad_request(format!("the parameter {name} is missing")))
    }
}

/// The beginning of untrusted text, for a message.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_repeated_query_parameters_are_rejected() {
        let read = |query: &str| Query::read(Some(query), &["policy", "deny"]);
        assert_eq!(read("policy=a+b&deny=403").unwrap().get("policy"), Some("a b"));
        assert!(read("").unwrap().required("policy").is_err());
        for wrong in ["polcy=x", "policy=1&policy=2", "policy=%ff"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
