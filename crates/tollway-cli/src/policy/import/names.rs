//! What the policies of an import are called: what their limits are called there, or where they stand.

use std::collections::HashSet;

use tollway::core::Name;
use tollway::core::bounds::NAME_BYTES_MAX;

/// Room for a number behind a name that is taken.
const NUMBER_BYTES: usize = 8;

/// Names that are taken.
#[derive(Default)]
pub(super) struct Names(HashSet<String>);

impl Names {
    /// A name of its own, as near to this text as names can be.
    pub(super) fn give(&mut self, text: &str) -> String {
        let allowed = |sign: char| sign.is_alphanumeric() || "_-.".contains(sign);
        let mut name: String = text.chars().map(|sign| if allowed(sign) { sign } else { '_' }).collect();
        while name.len() > NAME_BYTES_MAX - NUMBER_BYTES {
            name.pop();
        }
        if Name::new(&name).is_err() {
            "limit".clone_into(&mut name);
        }
        let numbered = (2u64..).map(|number| format!("{name}_{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !self.0.contains(name));
        let free = free.unwrap_or(name);
        self.0.insert(free.clone());
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_has_a_name_of_its_own() {
        let mut names = Names::default();
        let long = "x".repeat(500);
        let given = ["a.b_c", "a/b c", "a/b c", "", "", &long, &long].map(|text| names.give(text));
        let long = "x".repeat(120);
        assert_eq!(given[..5], ["a.b_c", "a_b_c", "a_b_c_2", "limit", "limit_2"]);
        assert_eq!(given[5..], [long.clone(), format!("{long}_2")]);
        assert!(given.iter().all(|name| Name::new(name).is_ok()));
    }
}
