//! Lists of RFC 9651 (structured field values), as far as `RateLimit` and `RateLimit-Policy` need them.
//!
//! Everything that the RFC allows in a list is accepted; a list with one mistake is refused as a whole, as the RFC asks.

use smallvec::SmallVec;

/// The most members of a list, and the most parameters of a member.
const MEMBERS_MAX: usize = 32;

/// A member of a list with its parameters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListItem<'t> {
    pub(crate) value: BareItem,
    parameters: SmallVec<[(&'t str, BareItem); 4]>,
}

/// A value without its parameters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BareItem {
    Integer(i64),
    Text(String),
    /// A token, such as `content-bytes`.
    Token(String),
    /// A byte sequence, still in base64.
    Bytes(String),
    /// Any other type: none of them is used in these fields.
    Other,
}

impl ListItem<'_> {
    /// A parameter. Of several with the same key the last one counts.
    pub(crate) fn parameter(&self, key: &str) -> Option<&BareItem> {
        self.parameters.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// A parameter that is a whole number, zero or more.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        match self.parameter(key)? {
            BareItem::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }
}

/// All members of a list, or `None` if it is malformed or too long.
pub(crate) fn list(text: &str) -> Option<Vec<ListItem<'_>>> {
    let mut rest = Rest(text.trim_matches(' '));
    let mut members = Vec::new();
    while !rest.0.is_empty() {
        if members.len() == MEMBERS_MAX {
            return None;
        }
        let value = if rest.take("(") { rest.inner_list()? } else { rest.bare_item()? };
        members.push(ListItem { value, parameters: rest.parameters()? });
        rest.0 = rest.0.trim_start_matches([' ', '\t']);
        if rest.0.is_empty() {
            return Some(members);
        }
        if !rest.take(",") {
            return None;
        }
        rest.0 = rest.0.trim_start_matches([' ', '\t']);
        if rest.0.is_empty() {
            return None;
        }
    }
    Some(members)
}

/// What is left to parse.
struct Rest<'t>(&'t str);

impl<'t> Rest<'t> {
    fn take(&mut self, prefix: &str) -> bool {
        let rest = self.0.strip_prefix(prefix);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'t str {
        let (taken, rest) = self.0.split_at(self.0.find(|sign| !fits(sign)).unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    /// The members are parsed and dropped: no field of ours has inner lists.
    fn inner_list(&mut self) -> Option<BareItem> {
        for _ in 0..MEMBERS_MAX {
            self.take_while(|sign| sign == ' ');
            if self.take(")") {
                return Some(BareItem::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !self.0.starts_with([' ', ')']) {
                return None;
            }
        }
        None
    }

    fn parameters(&mut self) -> Option<SmallVec<[(&'t str, BareItem); 4]>> {
        let mut parameters = SmallVec::new();
        while self.take(";") {
            self.take_while(|sign| sign == ' ');
            let starts_as_key = self.0.starts_with(|sign: char| sign.is_ascii_lowercase() || sign == '*');
            let key = self.take_while(|sign| {
                sign.is_ascii_lowercase() || sign.is_ascii_digit() || "_-.*".contains(sign)
            });
            if !starts_as_key || parameters.len() == MEMBERS_MAX {
                return None;
            }
            // A key alone is the boolean true.
            let value = if self.take("=") { self.bare_item()? } else { BareItem::Other };
            parameters.push((key, value));
        }
        Some(parameters)
    }

    fn bare_item(&mut self) -> Option<BareItem> {
        match self.0.chars().next()? {
            '"' => self.text(),
            '-' | '0'..='9' => self.number(),
            'a'..='z' | 'A'..='Z' | '*' => {
                let token = self.take_while(is_token_character);
                Some(BareItem::Token(token.to_owned()))
            }
            ':' => {
                self.take(":");
                let base64 = self.take_while(|sign| sign.is_ascii_alphanumeric() || "+/=".contains(sign));
                self.take(":").then(|| BareItem::Bytes(base64.to_owned()))
            }
            '?' => (self.take("?0") || self.take("?1")).then_some(BareItem::Other),
            '@' => {
                self.take("@");
                matches!(self.number()?, BareItem::Integer(_)).then_some(BareItem::Other)
            }
            '%' => {
                self.take("%");
                self.text().map(|_| BareItem::Other)
            }
            _ => None,
        }
    }

    fn text(&mut self) -> Option<BareItem> {
        let inside = self.0.strip_prefix('"')?;
        let mut text = String::new();
        let mut signs = inside.char_indices();
        while let Some((place, sign)) = signs.next() {
            match sign {
                '"' => {
                    self.0 = inside.get(place + 1..)?;
                    return Some(BareItem::Text(text));
                }
                '\\' => {
                    text.push(signs.next().map(|(_, escaped)| escaped).filter(|sign| "\"\\".contains(*sign))?)
                }
                ' '..='~' => text.push(sign),
                _ => return None,
            }
        }
        None
    }

    /// An integer of up to 15 digits, or a decimal of up to 12 and 3.
    fn number(&mut self) -> Option<BareItem> {
        let minus = self.take("-");
        let whole = self.take_while(|sign| sign.is_ascii_digit());
        if self.take(".") {
            let fraction = self.take_while(|sign| sign.is_ascii_digit());
            let fits = (1..=12).contains(&whole.len()) && (1..=3).contains(&fraction.len());
            return fits.then_some(BareItem::Other);
        }
        let number: i64 = whole.parse().ok().filter(|_| whole.len() <= 15)?;
        Some(BareItem::Integer(if minus { -number } else { number }))
    }
}

fn is_token_character(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~:/".contains(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_with_all_types_is_read() {
        let text = r#""a \"b\"";q=100;qu="content-bytes";pk=:cHs=:, tok/en;w=-60;x, (1 "two";y);z=?1 , 1.5, @12, %"f%c3""#;
        let items = list(text).unwrap();
        assert_eq!(items.len(), 6);
        assert_eq!(items[0].value, BareItem::Text("a \"b\"".to_owned()));
        assert_eq!(items[0].number("q"), Some(100));
        assert_eq!(items[0].parameter("pk"), Some(&BareItem::Bytes("cHs=".to_owned())));
        assert_eq!(items[1].value, BareItem::Token("tok/en".to_owned()));
        assert_eq!(items[1].number("w"), None, "negative");
        assert_eq!(items[1].parameter("x"), Some(&BareItem::Other));
        assert_eq!(list(r#""a";r=1;r=2"#).unwrap()[0].number("r"), Some(2));
        assert_eq!(list("  "), Some(Vec::new()));
    }

    #[test]
    fn one_mistake_refuses_the_list() {
        for malformed in [
            "\"a",
            "\"a\";r=1,",
            "\"a\" \"b\"",
            "\"a\";R=1",
            "\"a\";=1",
            "\"a\";r=",
            "\"a\\n\"",
            "\"\u{e9}\"",
            "limit=10, remaining=5",
            "\"a\";r=1234567890123456",
            "\"a\";r=1.2345",
            "(1 2",
            "(1,2)",
            "?2",
            "@1.5",
            ":cHs=",
            ",\"a\"",
        ] {
            assert_eq!(list(malformed), None, "{malformed}");
        }
        assert_eq!(list(&vec!["a"; MEMBERS_MAX + 1].join(",")), None);
    }
}
