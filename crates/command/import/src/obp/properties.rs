//! Java's `.properties`: lines of a key and a value, with the escapes and continuations that Java reads.

use std::iter::Peekable;
use std::str::Chars;

/// One property.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Property {
    /// Where it begins, counted from 1.
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: String,
}

/// Reads all properties, in their order. An error names its line.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Property>, String> {
    let text = decoded(bytes);
    let mut lines = text.lines().enumerate();
    let mut properties = Vec::new();
    while let Some((index, line)) = lines.next() {
        let line = trim_start(line);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut whole = line.to_owned();
        while goes_on(&whole) {
            whole.pop();
            whole.push_str(lines.next().map_or("", |(_, next)| trim_start(next)));
        }
        let (line, mut signs) = (index.saturating_add(1), whole.chars().peekable());
        let at = |problem: String| format!("line {line}: {problem}");
        let key = read_key(&mut signs).map_err(at)?;
        skip_separator(&mut signs);
        let value = read_value(&mut signs).map_err(at)?;
        properties.push(Property { line, key, value });
    }
    Ok(properties)
}

/// Files are in UTF-8 today; Java itself reads Latin-1, in which every byte is a character.
fn decoded(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

fn is_space(sign: char) -> bool {
    matches!(sign, ' ' | '\t' | '\u{c}')
}

fn trim_start(line: &str) -> &str {
    line.trim_start_matches(is_space)
}

/// Whether the line ends with a backslash that is not itself escaped.
fn goes_on(line: &str) -> bool {
    line.len().saturating_sub(line.trim_end_matches('\\').len()) % 2 == 1
}

/// Up to the first separator that is not escaped.
fn read_key(signs: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    let mut units = Vec::new();
    while let Some(sign) = signs.next_if(|sign| !is_space(*sign) && !matches!(sign, '=' | ':')) {
        push(&mut units, sign, signs)?;
    }
    text_of(&units)
}

/// Spaces, and among them at most one `=` or `:`.
fn skip_separator(signs: &mut Peekable<Chars<'_>>) {
    while signs.next_if(|sign| is_space(*sign)).is_some() {}
    if signs.next_if(|sign| matches!(sign, '=' | ':')).is_some() {
        while signs.next_if(|sign| is_space(*sign)).is_some() {}
    }
}

fn read_value(signs: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    let mut units = Vec::new();
    while let Some(sign) = signs.next() {
        push(&mut units, sign, signs)?;
    }
    text_of(&units)
}

/// Adds a character or an escape. In UTF-16 units, because `\u` escapes are.
fn push(units: &mut Vec<u16>, sign: char, rest: &mut impl Iterator<Item = char>) -> Result<(), String> {
    let plain = match sign {
        '\\' => match rest.next() {
            Some('u') => {
                units.push(read_unit(rest)?);
                return Ok(());
            }
            Some('t') => '\t',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('f') => '\u{c}',
            Some(other) => other,
            None => return Ok(()),
        },
        sign => sign,
    };
    units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    Ok(())
}

fn read_unit(signs: &mut impl Iterator<Item = char>) -> Result<u16, String> {
    let digits: String = signs.take(4).collect();
    let unit = u16::from_str_radix(&digits, 16).ok();
    unit.filter(|_| digits.len() == 4 && !digits.starts_with('+')).ok_or_else(|| {
        format!("{:?} is not a character: write \\u and four hexadecimal digits", format!("\\u{digits}"))
    })
}

fn text_of(units: &[u16]) -> Result<String, String> {
    String::from_utf16(units).map_err(|_| "a \\u escape is half a character: write both halves".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        read(text.as_bytes()).unwrap().into_iter().map(|property| (property.key, property.value)).collect()
    }

    /// C6: the ways in which Java lets the same property be written.
    #[test]
    fn every_property_notation_is_parsed() {
        for text in [
            "key=a value",
            "key = a value",
            "  key:a value",
            "\tkey  a value",
            "key\\\n  = a value",
            "key = a \\\n    value",
            "key=a\\u0020value",
            "k\\u0065y=a value",
            "key=a\\ value",
            "key=a value\r\n",
        ] {
            assert_eq!(pairs(text), [("key".to_owned(), "a value".to_owned())], "{text:?}");
        }
    }

    #[test]
    fn comments_and_blank_lines_are_skipped() {
        assert_eq!(pairs("# a comment \\\n! another\n\n   \n#k=v\n"), []);
        assert_eq!(pairs("key"), [("key".to_owned(), String::new())]);
    }

    #[test]
    fn escapes_are_decoded() {
        let text = "a\\=b\\:c=tab\\there \\\\ \\q \\u00fc \\ud83d\\ude00 path=C\\:\\\\x#y";
        assert_eq!(pairs(text), [("a=b:c".to_owned(), "tab\there \\ q ü 😀 path=C:\\x#y".to_owned())]);
        assert_eq!(read(b"k=\xfc").unwrap()[0].value, "ü", "Latin-1");
    }

    #[test]
    fn properties_and_invalid_escapes_have_line_numbers() {
        let lines: Vec<usize> =
            read(b"#\na=1\\\n2\n\nb=3").unwrap().iter().map(|property| property.line).collect();
        assert_eq!(lines, [2, 5]);
        for text in ["\nk=\\u12", "\nk=\\u12g4", "\nk=\\u+123", "\nk=\\ud83d", "\nk\\uzzzz=1"] {
            assert!(read(text.as_bytes()).unwrap_err().starts_with("line 2: "), "{text}");
        }
    }
}
