//! The origin of a limit's amount, as text and for JSON.

use tollway::Timestamp;
use tollway::source::Origin;

use crate::humanize;

/// For JSON: `config`, `store`, or the source.
pub(crate) fn word(origin: &Origin) -> String {
    match origin {
        Origin::Config => "config".to_owned(),
        Origin::Source { title, .. } => title.clone(),
        Origin::Store { .. } => "store".to_owned(),
    }
}

/// As text.
pub(crate) fn words(origin: &Origin, now: Timestamp) -> String {
    match origin {
        Origin::Config => "from the config".to_owned(),
        Origin::Source { title, read_at } => {
            format!("from {title}, read at {}", humanize::moment(*read_at, now))
        }
        Origin::Store { set_at } => format!("set at {}", humanize::moment(*set_at, now)),
    }
}

/// When it was set in the store.
pub(crate) fn set_at(origin: &Origin) -> Option<Timestamp> {
    if let Origin::Store { set_at } = origin { Some(*set_at) } else { None }
}

/// When it was read from its source.
pub(crate) fn read_at(origin: &Origin) -> Option<Timestamp> {
    if let Origin::Source { read_at, .. } = origin { Some(*read_at) } else { None }
}
