//! Finds the usage in a stream of JSON or of server-sent events, byte by byte, without keeping the rest.

use memchr::memchr3;

/// The longest usage: with all its details it has about 500 bytes.
const USAGE_BYTES_MAX: usize = 4_096;

/// What most usages fit in.
const USAGE_BYTES_USUAL: usize = 128;

/// The longest key that is compared with those below.
const KEY_BYTES_MAX: usize = 16;

/// The keys of a usage.
const USAGE_KEYS: [&[u8]; 2] = [b"usage", b"usageMetadata"];

/// Objects of the top level that contain a usage: events of OpenAI and Anthropic, chunks of Groq. Deeper ones are not
/// looked at: arguments of a tool call may have any key.
const PARENT_KEYS: [&[u8]; 3] = [b"response", b"message", b"x_groq"];

/// How each line of a server-sent event begins that carries data. JSON has no such line.
const DATA: &[u8] = b"data:";

#[derive(Debug, Default)]
pub(crate) struct UsageScanner {
    /// Objects and arrays that are open, without an array around the whole answer.
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The last string at this depth; a key, if a colon follows.
    key: ShortKey,
    /// Whether the object at depth 2 is one of `PARENT_KEYS`.
    in_parent: bool,
    /// Whether the next value is a usage.
    expects_usage: bool,
    /// The usage so far, while it is read: its bytes, and the depth outside it.
    usage: Option<(Vec<u8>, u32)>,
    /// How much of `DATA` the current line has begun with; `None` once it differs.
    line: LineStart,
}

/// A string, if it is short.
#[derive(Debug, Default)]
struct ShortKey {
    bytes: [u8; KEY_BYTES_MAX],
    /// Its length, also beyond the bound.
    length: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineStart {
    Matched(usize),
    Other,
}

impl Default for LineStart {
    fn default() -> Self {
        Self::Matched(0)
    }
}

impl UsageScanner {
    /// Reads a chunk, and passes on every usage that ends in it.
    pub(crate) fn feed(&mut self, mut chunk: &[u8], mut found: impl FnMut(&[u8])) {
        while let Some((byte, rest)) = chunk.split_first() {
            if let Some((text, rest)) = self.text_of_string(chunk) {
                self.key.extend(text);
                chunk = rest;
                continue;
            }
            chunk = rest;
            self.read(*byte);
            if let Some((usage, outside)) = &mut self.usage {
                let is_full = usage.len() == USAGE_BYTES_MAX;
                usage.push(*byte);
                if *outside == self.depth && !self.in_string {
                    found(usage);
                }
                if is_full || *outside == self.depth {
                    self.usage = None;
                }
            }
        }
    }

    /// Splits off the bytes of a string before the next one that means something: most of an answer is text. `None` where
    /// every byte counts.
    fn text_of_string<'c>(&self, chunk: &'c [u8]) -> Option<(&'c [u8], &'c [u8])> {
        if !self.in_string || self.escaped || self.usage.is_some() || self.line != LineStart::Other {
            return None;
        }
        let end = memchr3(b'"', b'\\', b'\n', chunk).unwrap_or(chunk.len());
        (end > 0).then(|| chunk.split_at(end))
    }

    fn read(&mut self, byte: u8) {
        if self.begins_an_event(byte) {
            *self = Self { line: LineStart::Other, ..Self::default() };
            return;
        }
        if self.in_string {
            return self.read_in_string(byte);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.key.length = 0;
            }
            b':' => {
                self.expects_usage = self.is_usage_key();
                if self.depth == 1 {
                    self.in_parent = PARENT_KEYS.contains(&self.key.get());
                }
            }
            b'{' => self.open(true),
            b'[' => self.open(false),
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.expects_usage = false;
            }
            b',' => self.expects_usage = false,
            _ => {}
        }
    }

    fn read_in_string(&mut self, byte: u8) {
        match byte {
            // JSON has no line end in a string: this was text of another kind.
            b'\n' => (self.in_string, self.escaped) = (false, false),
            _ if self.escaped => {
                self.escaped = false;
                self.key.push(byte);
            }
            b'\\' => {
                self.escaped = true;
                self.key.push(byte);
            }
            b'"' => self.in_string = false,
            _ => self.key.push(byte),
        }
    }

    fn open(&mut self, is_object: bool) {
        // Gemini streams an array of answers.
        if self.depth == 0 && !is_object {
            return;
        }
        if is_object && self.expects_usage && self.usage.is_none() {
            self.usage = Some((Vec::with_capacity(USAGE_BYTES_USUAL), self.depth));
        }
        self.expects_usage = false;
        self.depth = self.depth.saturating_add(1);
    }

    fn is_usage_key(&self) -> bool {
        let is_place = self.depth == 1 || (self.depth == 2 && self.in_parent);
        is_place && USAGE_KEYS.contains(&self.key.get())
    }

    /// Whether this byte completes the beginning of a line of data: a new object begins behind it.
    fn begins_an_event(&mut self, byte: u8) -> bool {
        self.line = match self.line {
            _ if byte == b'\n' => LineStart::Matched(0),
            LineStart::Matched(length) if DATA.get(length) == Some(&byte) => LineStart::Matched(length + 1),
            _ => LineStart::Other,
        };
        self.line == LineStart::Matched(DATA.len())
    }
}

impl ShortKey {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
        }
        self.length = self.length.saturating_add(1);
    }

    fn extend(&mut self, bytes: &[u8]) {
        let free = self.bytes.get_mut(self.length..).unwrap_or_default();
        free.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        self.length = self.length.saturating_add(bytes.len());
    }

    /// Empty, if it is too long.
    fn get(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}
