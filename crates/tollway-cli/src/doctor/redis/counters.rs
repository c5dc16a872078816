//! Which keys count something, and so must end.

use tollway::core::KEY_VERSION;

/// How the keys of consumers end.
const ENDS: [&str; 6] = ["_PER_SECOND", "_PER_MINUTE", "_PER_HOUR", "_PER_DAY", "_PER_WEEK", "_PER_MONTH"];

/// Counters of one kind, told by their keys.
pub(super) enum Counters {
    /// Those of a store under its prefix: how they begin.
    Lines { beginning: String },
    /// Those of consumers, whoever counts in them. What is under the prefix is none of them.
    Consumers { except: String },
}

impl Counters {
    /// All that a store with this prefix may meet.
    pub(super) fn of(prefix: &str) -> [Self; 2] {
        let beginning = format!("{prefix}{KEY_VERSION}:");
        [Self::Lines { beginning: beginning.clone() }, Self::Consumers { except: beginning }]
    }

    /// What SCAN is asked for.
    pub(super) fn pattern(&self) -> String {
        match self {
            Self::Lines { beginning } => format!("{}*", escaped(beginning)),
            Self::Consumers { .. } => "*_PER_*".to_owned(),
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        match self {
            // Limits that are data are the one key that has no end.
            Self::Lines { beginning } => key.strip_prefix(beginning).is_some_and(|rest| rest != "settings"),
            Self::Consumers { except } => {
                ENDS.iter().any(|end| key.ends_with(end)) && !key.starts_with(except)
            }
        }
    }

    /// The policy in a key, where it has one: `tollway:1:{s:SUBJECT}:POLICY`.
    pub(super) fn policy<'k>(&self, key: &'k str) -> Option<&'k str> {
        let Self::Lines { beginning } = self else { return None };
        let (_, behind) = key.strip_prefix(beginning)?.split_once("}:")?;
        behind.split(':').next()
    }
}

/// With what means more than itself in a pattern taken for itself.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        if matches!(sign, '*' | '?' | '[' | ']' | '\\') {
            escaped.push('\\');
        }
        escaped.push(sign);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_told_by_their_keys() {
        let [lines, consumers] = Counters::of("tollway:");
        for (key, is_line, is_consumers, policy) in [
            ("abc_PER_MINUTE", false, true, None),
            ("abc_PER_FORTNIGHT", false, false, None),
            ("PER_MINUTE_abc", false, false, None),
            ("tollway:1:{s:team-a}:adobe", true, false, Some("adobe")),
            ("tollway:1:{s:team-a}:adobe:0123", true, false, Some("adobe")),
            ("tollway:1:{s:team-a}:x_PER_DAY", true, false, Some("x_PER_DAY")),
            ("tollway:1:settings", false, false, None),
            ("other:1:{s:team-a}:adobe", false, false, None),
        ] {
            assert_eq!((lines.has(key), consumers.has(key)), (is_line, is_consumers), "{key}");
            assert_eq!((lines.policy(key), consumers.policy(key)), (policy, None), "{key}");
        }
        let [tagged, _] = Counters::of("{a}*:");
        assert_eq!(tagged.pattern(), "{a}\\*:1:*");
        assert_eq!(tagged.policy("{a}*:1:{s:x}:api"), Some("api"));
    }
}
