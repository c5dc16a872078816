//! Comma-separated values under a line of names: each row is a JSON object of strings.
//!
//! `csv-core` splits a row, the parser inside the crate `csv`. The reader of that crate would read on to the end of the
//! input after a quote that is never closed; here a row is bounded, and the lines after its first are read again.

use std::collections::VecDeque;
use std::io::{self, BufRead};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use super::RECORD_BYTES_MAX;
use super::error::{InputError, RecordFault};
use super::line::{Line, Lines};

const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];

/// The most lines of one row. They are kept until a quote is closed.
const ROW_LINES_MAX: usize = 100_000;

/// The most fields of a row. More are a mistake, such as a file that is no CSV; each name is compared with all before it.
const COLUMNS_MAX: usize = 1_000;

/// Reads rows.
pub(super) struct Rows {
    parser: Reader,
    separator: u8,
    /// The names of the fields, as JSON.
    names: Vec<String>,
    /// Lines that were read and belong to no row yet.
    ahead: VecDeque<Line>,
    /// How many of them do not close a quote that is open before them. Without it, an input with many unclosed quotes would be
    /// read again for each.
    left_open: usize,
}

/// A row as JSON, and the number of its first line.
pub(super) type Row = (u64, Result<String, RecordFault>);

impl Rows {
    /// Reads the line of names; none if the input is empty.
    pub(super) fn begin(lines: &mut Lines<impl BufRead>) -> Result<Option<Self>, InputError> {
        let wrong = |reason: String| InputError::Header(reason);
        let header = loop {
            let Some(line) = lines.next()? else { return Ok(None) };
            let text = line.text.map_err(|fault| wrong(format!("this one is {fault}")))?;
            if !text.trim().is_empty() {
                break text;
            }
        };
        let count = |separator: &u8| header.bytes().filter(|byte| byte == separator).count();
        // The first of several maxima is the last of the reversed list.
        let separator = SEPARATORS.into_iter().rev().max_by_key(count).unwrap_or(b',');
        // A line feed ends a row; a carriage return before it is taken off afterwards, because inside of quotes it stays.
        let mut parser = ReaderBuilder::new().delimiter(separator).terminator(Terminator::Any(b'\n')).build();
        let mut fields = Fields::default();
        if !fields.add_line(&mut parser, &header, separator) {
            return Err(wrong("a quote in it is not closed".to_owned()));
        }
        let columns = fields.texts().count();
        if columns > COLUMNS_MAX {
            return Err(wrong(format!(
                "this one has {columns}, more than {COLUMNS_MAX}: remove those that no job needs"
            )));
        }
        let mut names: Vec<String> = Vec::with_capacity(columns);
        for name in fields.texts().map(str::trim) {
            let json = json(name);
            if name.is_empty() {
                return Err(wrong(format!("field {} has no name", names.len() + 1)));
            }
            if names.contains(&json) {
                return Err(wrong(format!("two fields are named {json}")));
            }
            names.push(json);
        }
        Ok(Some(Self { parser, separator, names, ahead: VecDeque::new(), left_open: 0 }))
    }

    /// The next row; none at the end.
    pub(super) fn next(&mut self, lines: &mut Lines<impl BufRead>) -> io::Result<Option<Row>> {
        let number = loop {
            let Some(line) = self.line(lines, 0)? else { return Ok(None) };
            match &line.text {
                Ok(text) if !text.trim().is_empty() => break line.number,
                text => {
                    let (number, fault) = (line.number, text.as_ref().err().cloned());
                    self.drop_lines(1);
                    if let Some(fault) = fault {
                        return Ok(Some((number, Err(fault))));
                    }
                }
            }
        };
        let Some(fields) = self.fields(lines)? else {
            // The lines after it may be rows of their own.
            self.drop_lines(1);
            return Ok(Some((number, Err(RecordFault::UnclosedQuote))));
        };
        let (found, expected) = (fields.texts().count(), self.names.len());
        if found != expected {
            return Ok(Some((number, Err(RecordFault::Columns { found, expected }))));
        }
        let pair = |(name, text): (&String, &str)| format!("{name}:{}", json(text));
        let pairs: Vec<String> = self.names.iter().zip(fields.texts()).map(pair).collect();
        Ok(Some((number, Ok(format!("{{{}}}", pairs.join(","))))))
    }

    /// The fields of the row that begins with the first line ahead; none if it has no end.
    fn fields(&mut self, lines: &mut Lines<impl BufRead>) -> io::Result<Option<Fields>> {
        self.parser.reset();
        let mut fields = Fields::default();
        let (mut index, mut bytes) = (0, 0);
        while index < ROW_LINES_MAX {
            if 0 < index && index < self.left_open {
                return Ok(None);
            }
            self.line(lines, index)?;
            let Some(Line { text: Ok(text), .. }) = self.ahead.get(index) else { break };
            bytes += text.len() + 1;
            if bytes > RECORD_BYTES_MAX + 1 {
                break;
            }
            index += 1;
            if fields.add_line(&mut self.parser, text, self.separator) {
                self.drop_lines(index);
                return Ok(Some(fields));
            }
        }
        self.left_open = index;
        Ok(None)
    }

    fn drop_lines(&mut self, count: usize) {
        self.ahead.drain(..count.min(self.ahead.len()));
        self.left_open = self.left_open.saturating_sub(count);
    }

    /// The line at this place ahead, read if it was not yet.
    fn line(&mut self, lines: &mut Lines<impl BufRead>, index: usize) -> io::Result<Option<&Line>> {
        if index == self.ahead.len() {
            self.ahead.extend(lines.next()?);
        }
        Ok(self.ahead.get(index))
    }
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The fields of a row, without their quotes.
#[derive(Default)]
struct Fields {
    bytes: Vec<u8>,
    written: usize,
    ends: Vec<usize>,
    ended: usize,
}

impl Fields {
    /// Adds a line. Says whether the row ends with it; it does not if the line ends inside of quotes.
    fn add_line(&mut self, parser: &mut Reader, line: &str, separator: u8) -> bool {
        self.bytes.resize(self.written + line.len() + 1, 0);
        let separators = line.bytes().filter(|byte| *byte == separator).count();
        self.ends.resize(self.ended + separators + 1, 0);
        // No bytes would tell the parser that the input ends.
        if !line.is_empty() {
            self.parse(parser, line.as_bytes());
        }
        let is_row = self.parse(parser, b"\n") == ReadRecordResult::Record;
        if is_row && line.ends_with('\r') {
            self.take_carriage_return();
        }
        is_row
    }

    fn parse(&mut self, parser: &mut Reader, bytes: &[u8]) -> ReadRecordResult {
        let (output, ends) = (&mut self.bytes[self.written..], &mut self.ends[self.ended..]);
        let (result, _, written, ended) = parser.read_record(bytes, output, ends);
        self.written += written;
        self.ended += ended;
        result
    }

    fn take_carriage_return(&mut self) {
        if let Some(end) = self.ends[..self.ended].last_mut()
            && self.bytes[..*end].last() == Some(&b'\r')
        {
            *end -= 1;
        }
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        let ends = &self.ends[..self.ended];
        let begins = std::iter::once(0).chain(ends.iter().copied());
        // Quotes and separators are ASCII, so the text between them is UTF-8, too.
        let text =
            |(begin, end): (usize, &usize)| str::from_utf8(&self.bytes[begin..*end]).unwrap_or_default();
        begins.zip(ends).map(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Shown = (u64, Result<String, String>);

    fn rows(input: &str) -> Result<Vec<Shown>, String> {
        let mut lines = Lines::new(input.as_bytes());
        let rows = Rows::begin(&mut lines).map_err(|error| error.to_string())?;
        let Some(mut rows) = rows else { return Ok(Vec::new()) };
        let next = || rows.next(&mut lines).unwrap();
        let shown = |(line, row): Row| (line, row.map_err(|fault| fault.to_string()));
        Ok(std::iter::from_fn(next).map(shown).collect())
    }

    fn good(line: u64, json: &str) -> Shown {
        (line, Ok(json.to_owned()))
    }

    fn bad(line: u64, fault: &str) -> Shown {
        (line, Err(fault.to_owned()))
    }

    #[test]
    fn rows_are_objects_of_strings() {
        let input = "key, name\n1,é\n\n2,\"a, b\"\n3,\"say \"\"yes\"\"\"\n4,\n5,5\" disk";
        let expected = [
            good(2, r#"{"key":"1","name":"é"}"#),
            good(4, r#"{"key":"2","name":"a, b"}"#),
            good(5, r#"{"key":"3","name":"say \"yes\""}"#),
            good(6, r#"{"key":"4","name":""}"#),
            good(7, r#"{"key":"5","name":"5\" disk"}"#),
        ];
        assert_eq!(rows(input).unwrap(), expected);
        assert_eq!(rows(&input.replace('\n', "\r\n")).unwrap(), expected);
        assert_eq!(rows("a;b\n1;2").unwrap(), [good(2, r#"{"a":"1","b":"2"}"#)]);
        assert_eq!(rows("a\tb\n1\t2\n").unwrap(), [good(2, r#"{"a":"1","b":"2"}"#)]);
        assert_eq!(rows("a\n1\n").unwrap(), [good(2, r#"{"a":"1"}"#)]);
        assert_eq!(rows("").unwrap(), []);
    }

    #[test]
    fn quoted_fields_go_on_in_the_next_line() {
        let input = "a,b\r\n\"1\r\n\r\n2\",x\r\n3,\"y\"\r\n";
        assert_eq!(
            rows(input).unwrap(),
            [good(2, r#"{"a":"1\r\n\r\n2","b":"x"}"#), good(5, r#"{"a":"3","b":"y"}"#)]
        );
    }

    #[test]
    fn wrong_rows_lose_no_others() {
        let columns = "3 fields, where the first line has 2";
        let unclosed = "a quote is not closed";
        assert_eq!(
            rows("a,b\n1,2\n1,2,3\n\"x,4\n5,6\n7,8").unwrap(),
            [
                good(2, r#"{"a":"1","b":"2"}"#),
                bad(3, columns),
                bad(4, unclosed),
                good(5, r#"{"a":"5","b":"6"}"#),
                good(6, r#"{"a":"7","b":"8"}"#),
            ]
        );
        let long = format!("a,b\n\"x,\n{}\n1,2", "x".repeat(RECORD_BYTES_MAX + 1));
        let read = rows(&long).unwrap();
        assert_eq!((read[0].clone(), read[2].clone()), (bad(2, unclosed), good(4, r#"{"a":"1","b":"2"}"#)));
        assert!(read[1].1.as_ref().is_err_and(|fault| fault.starts_with("longer than")), "{:?}", read[1]);
    }

    #[test]
    fn unclosed_quotes_are_bounded() {
        let many = format!("a,b\n\"x,1\n{}", "1,2\n".repeat(2 * ROW_LINES_MAX));
        let read = rows(&many).unwrap();
        assert_eq!(read.iter().filter(|(_, row)| row.is_err()).count(), 1);
        assert_eq!(read.len(), 2 * ROW_LINES_MAX + 1);
        // Each line closes a quote and opens another; reading on for each would take hours.
        let read = rows(&format!("a,b\n{}1,2", "\"x\",\"\n".repeat(2 * ROW_LINES_MAX))).unwrap();
        assert_eq!(read.iter().filter(|(_, row)| row.is_err()).count(), 2 * ROW_LINES_MAX);
        assert_eq!(read.last(), Some(&good(2 * ROW_LINES_MAX as u64 + 2, r#"{"a":"1","b":"2"}"#)));
    }

    #[test]
    fn long_rows_are_read() {
        let lines = "line\n".repeat(ROW_LINES_MAX - 1);
        let read = rows(&format!("a\n\"{lines}\"\n")).unwrap();
        assert_eq!(read, [good(2, &format!("{{\"a\":{}}}", json(&lines)))]);
    }

    #[test]
    fn the_columns_of_a_header_are_bounded() {
        let header = |columns: usize| (0..columns).map(|n| format!("c{n}")).collect::<Vec<_>>().join(",");
        assert!(rows(&header(COLUMNS_MAX)).is_ok());
        assert_eq!(
            rows(&header(COLUMNS_MAX + 1)).unwrap_err(),
            "the first line of CSV names the fields, and this one has 1001, more than 1000: remove those that no job \
             needs"
        );
        // Counted, and not compared with each other.
        let error = rows(&"c,".repeat(100_000)).unwrap_err();
        assert!(error.contains("has 100001, more than 1000"), "{error}");
    }

    #[test]
    fn header_must_name_every_field() {
        let error = |input| rows(input).unwrap_err();
        assert_eq!(error("a,,b\n"), "the first line of CSV names the fields, and field 2 has no name");
        assert_eq!(
            error("a,b,a\n"),
            "the first line of CSV names the fields, and two fields are named \"a\""
        );
        assert_eq!(
            error("a,\"b\n1,2"),
            "the first line of CSV names the fields, and a quote in it is not closed"
        );
    }
}
