//! Keeps secrets out of logs and evidence.

/// Shorter values are no secrets, and would blot out ordinary words.
const SECRET_BYTES_MIN: usize = 6;

/// Shorter ends of a text are not taken for a part of a secret.
const OVERLAP_BYTES_MIN: usize = 3;

/// The values of environment variables that a handler gets.
#[derive(Clone, Default)]
pub(crate) struct Redactor(Vec<(String, String)>);

impl Redactor {
    pub(crate) fn new(names: &[String]) -> Self {
        let value = |name: &String| {
            let value = std::env::var(name).ok().filter(|value| value.len() >= SECRET_BYTES_MIN)?;
            Some((format!("[{name}]"), value))
        };
        let mut values: Vec<_> = names.iter().filter_map(value).collect();
        // A value may be part of another one.
        values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Self(values)
    }

    /// The text with each value replaced by the name of its variable.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(value, name))
    }

    /// The same for text that was cut on both sides: a part of a value at an end of the text is replaced, too.
    pub(crate) fn redact_cut(&self, text: &str) -> String {
        let text = self.redact(text);
        let begins_with = |value: &&(String, String)| longest_overlap(&value.1, &text);
        let (mut start, mut end) = (None, None);
        for known in &self.0 {
            start = start.max(Some((begins_with(&known), known.0.as_str())));
            end = end.max(Some((longest_overlap(&text, &known.1), known.0.as_str())));
        }
        let (start, start_name) = start.unwrap_or_default();
        let (end, end_name) = end.unwrap_or_default();
        let kept = text.get(start..text.len().saturating_sub(end)).unwrap_or_default();
        let name = |length: usize, name: &str| if length > 0 { name.to_owned() } else { String::new() };
        format!("{}{kept}{}", name(start, start_name), name(end, end_name))
    }
}

/// The length of the longest end of `left` that `right` begins with. Single characters are no secrets, and ends of words.
fn longest_overlap(left: &str, right: &str) -> usize {
    let most = left.len().min(right.len());
    let overlaps = |length: &usize| {
        let at = left.len().saturating_sub(*length);
        left.get(at..).zip(right.get(..*length)).is_some_and(|(end, start)| end == start)
    };
    (OVERLAP_BYTES_MIN..=most).rev().find(overlaps).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_replaced_by_the_name_of_its_variable() {
        let values = [("[A]", "hunter2hunter2"), ("[B]", "hunter2")];
        let redactor = Redactor(values.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
        assert_eq!(redactor.redact("x hunter2hunter2 hunter2 y"), "x [A] [B] y");
    }

    #[test]
    fn part_of_a_secret_at_a_cut_is_replaced() {
        let redactor = Redactor(vec![("[A]".to_owned(), "hunter2-of-old".to_owned())]);
        for (text, shown) in [
            ("2-of-old and more", "[A] and more"),
            ("it said hunter2-o", "it said [A]"),
            ("unter2-of-old, then hunt", "[A], then [A]"),
            ("it was hunter2-of-old", "it was [A]"),
            ("ter2-of", "ter2-of"),
            ("an old hut", "an old hut"),
            ("", ""),
        ] {
            assert_eq!(redactor.redact_cut(text), shown, "{text}");
        }
    }
}
