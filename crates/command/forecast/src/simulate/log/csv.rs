//! Comma-separated values under a line of names; semicolons and tabs separate as well.
//!
//! `csv-core` splits a record, the parser inside the crate `csv`. The reader of that crate would read on to the end of the
//! log after a quote that is never closed; here a record is bounded, and lines keep their numbers.

use std::cell::RefCell;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use super::{Reason, Value};

/// Why a line may be the beginning of a record that goes on in the next line.
pub(super) const UNCLOSED: &str = "a quote is not closed";

const SEPARATORS: [char; 3] = [',', ';', '\t'];

thread_local! {
    /// One for each separator. A parser costs more to make than a record to read, and a clone of one is not a parser: that of
    /// csv-core 0.1.13 lacks half of its tables.
    static PARSERS: RefCell<[Reader; 3]> = RefCell::new([b',', b';', b'\t'].map(|separator| {
        // Lines come without their ends, so a carriage return stands inside a field.
        ReaderBuilder::new().delimiter(separator).terminator(Terminator::Any(b'\n')).build()
    }));
}

/// The separator of a line of names: the most frequent one.
pub(super) fn separator(header: &str) -> Option<char> {
    let frequent = SEPARATORS.into_iter().max_by_key(|separator| header.matches(*separator).count())?;
    header.contains(frequent).then_some(frequent)
}

/// The fields of a record, without the quotes and the spaces around them.
pub(super) struct Fields {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Fields {
    /// Nothing if a quote is not closed.
    pub(super) fn of(record: &str, separator: char) -> Option<Self> {
        let parser = SEPARATORS.iter().position(|known| *known == separator)?;
        PARSERS.with_borrow_mut(|parsers| Self::parse(record, separator, parsers.get_mut(parser)?))
    }

    fn parse(record: &str, separator: char, parser: &mut Reader) -> Option<Self> {
        parser.reset();
        let fields_max = record.matches(separator).count() + 1;
        let (mut bytes, mut ends) = (vec![0; record.len() + 1], vec![0; fields_max]);
        let (_, _, written, ended) = parser.read_record(record.as_bytes(), &mut bytes, &mut ends);
        // The end of the line ends the record, unless it is within quotes.
        let (result, _, _, last) = parser.read_record(b"\n", &mut bytes[written..], &mut ends[ended..]);
        ends.truncate(ended + last);
        (result == ReadRecordResult::Record).then_some(Self { bytes, ends })
    }

    /// From the first to the last.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        // Quotes and separators are ASCII: what is between them is text as before.
        let field = |(begin, end)| str::from_utf8(&self.bytes[begin..end]).unwrap_or_default().trim();
        begins.zip(self.ends.iter().copied()).map(field)
    }
}

/// Puts the fields at these places into `values`. Every record has as many fields as the line of names.
pub(super) fn read(
    record: &str,
    separator: char,
    columns: usize,
    places: &[usize],
    values: &mut [Value<'_>],
) -> Result<(), Reason> {
    let fields = Fields::of(record, separator).ok_or(UNCLOSED)?;
    if fields.ends.len() != columns {
        return Err(format!("{} fields, where the first line has {columns}", fields.ends.len()).into());
    }
    for (place, field) in fields.iter().enumerate() {
        for (_, value) in places.iter().zip(&mut *values).filter(|(wanted, _)| **wanted == place) {
            *value = if field.is_empty() { Value::Missing } else { Value::Text(field.to_owned().into()) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(record: &str) -> Option<Vec<String>> {
        Fields::of(record, ',').map(|fields| fields.iter().map(str::to_owned).collect())
    }

    #[test]
    fn fields_are_split_where_they_should_be() {
        let some = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(fields("a, b ,,c"), some(&["a", "b", "", "c"]));
        assert_eq!(fields(r#""a,b","say ""yes""","x""#), some(&["a,b", r#"say "yes""#, "x"]));
        assert_eq!(fields(r#"x,"é""#), some(&["x", "é"]));
        assert_eq!(fields("\"a\nb\",c"), some(&["a\nb", "c"]));
        assert_eq!(fields("a\rb,"), some(&["a\rb", ""]));
        assert_eq!(fields(r#"a,5" disk"#), some(&["a", r#"5" disk"#]));
        assert_eq!(fields(r#"a,"x"#), None);
        assert_eq!(fields("a,b"), some(&["a", "b"]), "what was not closed has no part in it");
        let many = "é,".repeat(10_000);
        assert_eq!(fields(&many).map(|fields| fields.len()), Some(10_001));
    }

    #[test]
    fn separator_is_the_most_frequent_one() {
        for (header, found) in [("a;b,c;d", Some(';')), ("a\tb", Some('\t')), ("a", None), ("", None)] {
            assert_eq!(separator(header), found, "{header:?}");
        }
    }

    #[test]
    fn a_line_has_as_many_fields_as_the_first() {
        let mut values = [Value::Missing];
        assert_eq!(read("1,2", ',', 2, &[1], &mut values), Ok(()));
        assert_eq!(values, [Value::Text("2".into())]);
        let reason = read("1,2,3", ',', 2, &[1], &mut values).unwrap_err();
        assert_eq!(reason, "3 fields, where the first line has 2");
        assert_eq!(read("1,\"2", ',', 2, &[1], &mut values).unwrap_err(), UNCLOSED);
    }
}
