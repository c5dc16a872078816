//! The events of `GET /v1/live`, as bytes come in.

use std::fmt;

use tollway_dashboard::snapshot::{Changes, Snapshot};

/// The largest event; a server sends 64 KiB at most.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// What a server sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The whole state.
    Snapshot(Box<Snapshot>),
    /// What is different from the state before.
    Changes(Box<Changes>),
}

/// A stream that is none of Tollway's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// An event was too long.
    TooLong,
    /// An event could not be read.
    Unreadable(String),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "an event of more than {EVENT_BYTES_MAX} bytes came"),
            Self::Unreadable(why) => write!(f, "an event could not be read: {why}"),
        }
    }
}

impl std::error::Error for StreamError {}

/// Reads server-sent events, in whatever pieces they come.
#[derive(Default)]
pub struct EventReader {
    /// What came of an event that has not ended.
    rest: Vec<u8>,
}

impl EventReader {
    /// The events that end in these bytes.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Vec<Event>, StreamError> {
        self.rest.extend(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = self.rest.drain(..end + 2).collect();
            events.extend(parse(&String::from_utf8_lossy(&event))?);
        }
        if self.rest.len() > EVENT_BYTES_MAX { Err(StreamError::TooLong) } else { Ok(events) }
    }
}

/// None: a comment, or an event of another kind.
fn parse(text: &str) -> Result<Option<Event>, StreamError> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
    let (Some(kind), Some(data)) = (field("event:"), field("data:")) else { return Ok(None) };
    let unreadable = |error: serde_json::Error| StreamError::Unreadable(error.to_string());
    match kind {
        "snapshot" => serde_json::from_str(data).map(|snapshot| Some(Event::Snapshot(snapshot))),
        "changes" => serde_json::from_str(data).map(|changes| Some(Event::Changes(changes))),
        _ => Ok(None),
    }
    .map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_any_pieces() {
        let state = Snapshot { at: 5, ..Snapshot::default() };
        let json = serde_json::to_string(&state).unwrap();
        let sent = format!(
            ": hello\n\nevent: snapshot\ndata: {json}\n\nevent: changes\ndata: {{\"at\":6}}\n\nevent: other\ndata: 1\n\n"
        );
        let changes = Changes { at: 6, ..Changes::default() };
        let expected = [Event::Snapshot(Box::new(state)), Event::Changes(Box::new(changes))];
        for size in [1, 2, 7, sent.len()] {
            let mut reader = EventReader::default();
            let read: Vec<Event> =
                sent.as_bytes().chunks(size).flat_map(|bytes| reader.read(bytes).unwrap()).collect();
            assert_eq!(read, expected, "{size}");
        }
    }

    #[test]
    fn what_is_no_event_of_ours_is_an_error() {
        let mut reader = EventReader::default();
        assert!(matches!(reader.read(b"event: snapshot\ndata: []\n\n"), Err(StreamError::Unreadable(_))));
        let endless = vec![b'x'; EVENT_BYTES_MAX + 1];
        assert_eq!(EventReader::default().read(&endless), Err(StreamError::TooLong));
    }
}
