//! Parts of a valid config that may not be intended. The guide's page `tuning.md` explains each by its code.

mod apis;
mod documented;
mod policies;
mod redundant;

use std::collections::HashSet;
use std::fmt::Display;

use serde::Serialize;
use tollway::{Config, Name, StoreUrl};

use crate::layout::{COLUMNS, sentence};
use crate::output::{FAINT, Output};

/// A warning or a note.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    #[serde(skip)]
    pub(crate) level: Level,
    /// The code that the guide explains.
    code: &'static str,
    /// The part of the config, e.g. `policies.adobe`.
    place: String,
    message: String,
    advice: String,
}

/// The severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// A remark; may be intended.
    Note,
    /// Probably not intended.
    Warning,
}

/// All findings, in the order of the config.
pub(crate) fn all(config: &Config) -> Vec<Finding> {
    let called: HashSet<&Name> = config.apis().iter().flat_map(|api| api.policies()).collect();
    let is_redis = matches!(config.store(), Some(StoreUrl::Redis(_)));
    let policies = config.policies().iter().flat_map(|policy| {
        let idle = policies::idle_bound(policy).into_iter().chain(policies::idle_slot(policy));
        let idle = idle.filter(move |_| !is_redis);
        policies::look_at(policy, called.contains(policy.name())).into_iter().chain(idle)
    });
    let apis = config.apis().iter().flat_map(|api| {
        let policy = api.policy().and_then(|name| config.policy(name.as_str()));
        apis::look_at(api, policy.map(AsRef::as_ref))
    });
    policies.chain(apis).collect()
}

impl Finding {
    fn new(
        level: Level,
        code: &'static str,
        place: &str,
        message: impl Display,
        advice: impl Display,
    ) -> Self {
        Self {
            level,
            code,
            place: place.to_owned(),
            message: message.to_string(),
            advice: advice.to_string(),
        }
    }

    /// Writes it to standard error.
    pub(crate) fn say(&self, output: &Output) {
        let Self { code, place, message, advice, .. } = self;
        // The widths of "warning: " and of "  try: ".
        let message = sentence(&format!("[{place}] {message}"), COLUMNS - 9).join("\n  ");
        let advice = sentence(&format!("{advice} [{code}]"), COLUMNS - 7).join("\n  ");
        let text = format_args!("{message}\n  {FAINT}try:{FAINT:#} {advice}");
        match self.level {
            Level::Warning => output.warning(text),
            Level::Note => output.note(format_args!("note: {text}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes of a config's findings, warnings in capitals.
    pub(super) fn codes(text: &str) -> Vec<String> {
        let shown = |finding: Finding| match finding.level {
            Level::Warning => finding.code.to_uppercase(),
            Level::Note => finding.code.to_owned(),
        };
        all(&Config::parse(text).unwrap()).into_iter().map(shown).collect()
    }

    #[test]
    fn tuned_config_has_no_findings() {
        let good = r#"
            [policies.adobe]
            limits = ["200 requests / minute"]
            edge = "250ms"

            [policies.gemini]
            limits = ["5 requests / minute bucket", "250k tokens / minute bucket burst 500k",
                      "rpd: 25 requests / day in America/Los_Angeles"]

            [policies.notion]
            limits = ["3 requests / second paced"]

            [apis.notion]
            base_url = "https://api.notion.com/v1"
            policy = "notion"
            rate = { initial = 2.0, min = 0.3, max = 3.5, increase_step = 0.1, decrease_factor = 0.5 }
            documented = "about 3 requests a second per integration"
        "#;
        assert_eq!(codes(good), Vec::<String>::new());
    }
}
