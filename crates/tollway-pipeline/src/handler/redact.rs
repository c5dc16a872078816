//! Keeps secrets out of logs and evidence.

/// Shorter values are no secrets, and would blot out ordinary words.
const SECRET_BYTES_MIN: usize = 6;

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
}
