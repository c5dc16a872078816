//! The variables that point SDKs at the gateway.

use tollway::config::Api;

/// Variables that SDKs read, where they are not named after the api.
const OTHER_NAMES: [(&str, &[&str]); 1] = [("gemini", &["GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"])];

/// A variable and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name: `OPENAI_BASE_URL`.
    pub variable: String,
    /// The address of the api at the gateway.
    pub url: String,
}

impl std::fmt::Display for Export {
    /// As a line for a shell. Names of apis have no character that a shell reads in another way.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "export {}={}", self.variable, self.url)
    }
}

/// The variables of an api, at a gateway with this address: `http://127.0.0.1:4000`.
///
/// ```
/// let openai = tollway::config::Api::profile("openai").ok_or("no such profile")?;
/// let exports = tollway_gateway::exports(&openai, "http://127.0.0.1:4000");
/// assert_eq!(exports[0].to_string(), "export OPENAI_BASE_URL=http://127.0.0.1:4000/openai");
/// # Ok::<(), &str>(())
/// ```
pub fn exports(api: &Api, address: &str) -> Vec<Export> {
    let name = api.name().as_str();
    let url = format!("{address}/{name}");
    let other = OTHER_NAMES.iter().find(|(known, _)| *known == name);
    let variables = match other {
        Some((_, variables)) => variables.iter().map(|variable| (*variable).to_owned()).collect(),
        None => vec![format!("{}_BASE_URL", name.to_ascii_uppercase().replace(['-', '.'], "_"))],
    };
    variables.into_iter().map(|variable| Export { variable, url: url.clone() }).collect()
}
