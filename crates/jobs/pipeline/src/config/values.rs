//! Values that several keys share: whole numbers, lists of strings, sizes.

use std::ops::RangeInclusive;

use tollway_config::{DeValue, Section, type_words};
use toml::Spanned;

/// A whole number in this range.
pub(super) fn whole(
    section: &mut Section<'_>,
    key: &'static str,
    range: RangeInclusive<u32>,
    example: &str,
) -> Option<u32> {
    let value = section.value(key)?;
    let number = match value.get_ref() {
        DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix()).ok(),
        other => {
            let message = format!("`{key}` must be a whole number, not {}", type_words(other));
            section.problem(key, message, &format!("write it like `{key} = {example}`"));
            return None;
        }
    };
    let number = number.filter(|number| range.contains(number));
    if number.is_none() {
        let message = format!("`{key}` must be a whole number from {} to {}", range.start(), range.end());
        section.problem(key, message, "");
    }
    number
}

/// A list of strings.
pub(super) fn strings<'a>(
    section: &mut Section<'a>,
    key: &'static str,
    example: &str,
) -> Option<Vec<Spanned<&'a str>>> {
    let list = section.list(key, example)?;
    let mut strings = Vec::with_capacity(list.len());
    for value in list {
        match value.get_ref().as_str() {
            Some(text) => strings.push(Spanned::new(value.span(), text)),
            None => {
                let message = format!("`{key}` is a list of strings, not of {}", type_words(value.get_ref()));
                section.report().problem(value.span(), message, format!("write it like `{key} = {example}`"));
                return None;
            }
        }
    }
    Some(strings)
}

/// A size in bytes: `512 MiB`.
pub(super) fn bytes(section: &mut Section<'_>, key: &'static str, example: &str) -> Option<u64> {
    let text = section.string(key, example)?;
    let read = parse_bytes(text.get_ref());
    if read.is_none() {
        let message = format!("{:?} is not a size", text.get_ref());
        section.problem(key, message, "write it like 512MiB or 2GiB");
    }
    read
}

fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "kib" | "k" | "kb" => 1 << 10,
        "mib" | "m" | "mb" => 1 << 20,
        "gib" | "g" | "gb" => 1 << 30,
        _ => return None,
    };
    count.parse::<u64>().ok()?.checked_mul(unit).filter(|bytes| *bytes > 0)
}
