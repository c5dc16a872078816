//! Comma-separated values under a line of names; semicolons and tabs separate as well.

use std::borrow::Cow;

use super::{Reason, Value};

const SEPARATORS: [char; 3] = [',', ';', '\t'];

/// The separator of a line of names: the most frequent one.
pub(super) fn separator(header: &str) -> Option<char> {
    let frequent = SEPARATORS.into_iter().max_by_key(|separator| header.matches(*separator).count())?;
    header.contains(frequent).then_some(frequent)
}

/// The fields of a line.
pub(super) fn split(line: &str, separator: char) -> Fields<'_> {
    Fields { rest: Some(line), separator }
}

/// Puts the fields at these places into `values`. Every line has as many fields as the line of names.
pub(super) fn read<'l>(
    line: &'l str,
    separator: char,
    columns: usize,
    places: &[usize],
    values: &mut [Value<'l>],
) -> Result<(), Reason> {
    let mut count = 0;
    for field in split(line, separator) {
        let field = field.ok_or("a quote is not closed")?;
        for (_, value) in places.iter().zip(&mut *values).filter(|(place, _)| **place == count) {
            *value = if field.is_empty() { Value::Missing } else { Value::Text(field.clone()) };
        }
        count += 1;
    }
    if count != columns {
        return Err(format!("{count} fields, where the first line has {columns}").into());
    }
    Ok(())
}

/// What is left of a line. A field is nothing if its quote is not closed.
pub(super) struct Fields<'l> {
    rest: Option<&'l str>,
    separator: char,
}

impl<'l> Iterator for Fields<'l> {
    type Item = Option<Cow<'l, str>>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.rest?;
        if let Some(quoted) = line.strip_prefix('"') {
            return Some(self.quoted(quoted));
        }
        let (field, rest) = match line.split_once(self.separator) {
            Some((field, rest)) => (field, Some(rest)),
            None => (line, None),
        };
        self.rest = rest;
        Some(Some(Cow::Borrowed(field.trim())))
    }
}

impl<'l> Fields<'l> {
    /// A field behind its opening quote, in which two quotes mean one.
    fn quoted(&mut self, text: &'l str) -> Option<Cow<'l, str>> {
        let mut from = 0;
        loop {
            let quote = from
                + text[from..].find('"').or_else(|| {
                    self.rest = None;
                    None
                })?;
            let behind = &text[quote + 1..];
            if behind.starts_with('"') {
                from = quote + 2;
                continue;
            }
            self.rest = behind.find(self.separator).map(|at| &behind[at + self.separator.len_utf8()..]);
            let field = &text[..quote];
            let doubled = field.contains('"');
            return Some(if doubled {
                Cow::Owned(field.replace("\"\"", "\""))
            } else {
                Cow::Borrowed(field)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Vec<Option<String>> {
        split(line, ',').map(|field| field.map(Cow::into_owned)).collect()
    }

    #[test]
    fn fields_are_split_where_they_should_be() {
        let some = |texts: &[&str]| texts.iter().map(|text| Some((*text).to_owned())).collect::<Vec<_>>();
        assert_eq!(fields("a, b ,,c"), some(&["a", "b", "", "c"]));
        assert_eq!(
            fields(r#""a,b","say ""yes""","x"#),
            [some(&["a,b", r#"say "yes""#]), vec![None]].concat()
        );
        assert_eq!(fields(r#"x,"é""#), some(&["x", "é"]));
    }

    #[test]
    fn a_line_has_as_many_fields_as_the_first() {
        let mut values = [Value::Missing];
        assert_eq!(read("1,2", ',', 2, &[1], &mut values), Ok(()));
        assert_eq!(values, [Value::Text("2".into())]);
        let reason = read("1,2,3", ',', 2, &[1], &mut values).unwrap_err();
        assert_eq!(reason, "3 fields, where the first line has 2");
        assert_eq!(read("1,\"2", ',', 2, &[1], &mut values).unwrap_err(), "a quote is not closed");
    }
}
