//! Integers within bounds.

use std::ops::RangeInclusive;

use tollway_config::{DeValue, Section, type_words};

pub(super) fn read(
    section: &mut Section<'_>,
    key: &'static str,
    range: RangeInclusive<u64>,
) -> Option<usize> {
    let value = section.value(key)?;
    let DeValue::Integer(number) = value.get_ref() else {
        let message = format!("`{key}` must be a whole number, not {}", type_words(value.get_ref()));
        section.problem(key, message, &format!("write it like `{key} = {}`", range.start()));
        return None;
    };
    let number =
        u64::from_str_radix(number.as_str(), number.radix()).ok().filter(|number| range.contains(number));
    if number.is_none() {
        let message = format!("`{key}` must be a whole number from {} to {}", range.start(), range.end());
        section.problem(key, message, "");
    }
    number.and_then(|number| usize::try_from(number).ok())
}
