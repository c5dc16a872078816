//! S3 objects: the document message that an object becomes.

use percent_encoding::percent_decode_str;
use tollway_core::Timestamp;

use super::error::RecordFault;
use super::pattern::{Pattern, Template};
use crate::documents::AutotagMessage;
use crate::job::check_text;

/// The longest key of an object in S3. It bounds the work of a pattern.
const OBJECT_KEY_BYTES_MAX: usize = 1_024;

/// Which S3 objects become jobs, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objects {
    /// The bucket of objects whose record does not name one, as in a listing.
    pub bucket: Option<String>,
    /// What an object's key must begin with.
    pub prefix: String,
    /// What an object's key must end with.
    pub suffix: String,
    /// What an object's key must look like.
    pub pattern: Pattern,
    /// The job id, made of the key's parts.
    pub job_id: Template,
    /// The key of the original file, made of the key's parts.
    pub original_file_key: Template,
}

/// An object of a record.
pub(super) struct Object {
    pub(super) bucket: Option<String>,
    /// Decoded.
    pub(super) key: String,
    /// When it was created.
    pub(super) time: Timestamp,
}

/// The outcome of an object.
pub(super) enum ObjectOutcome {
    Message(AutotagMessage),
    /// Its key has another prefix or suffix.
    Filtered,
    /// Its key does not match the pattern.
    Unmatched,
}

impl Objects {
    pub(super) fn read(&self, object: Object) -> Result<ObjectOutcome, RecordFault> {
        check_text("the object's key", &object.key, OBJECT_KEY_BYTES_MAX)?;
        if !object.key.starts_with(&self.prefix) || !object.key.ends_with(&self.suffix) {
            return Ok(ObjectOutcome::Filtered);
        }
        let Some(captures) = self.pattern.captures(&object.key) else { return Ok(ObjectOutcome::Unmatched) };
        let (job_id, original_file_key) =
            (self.job_id.fill(&captures), self.original_file_key.fill(&captures));
        let bucket = object.bucket.or_else(|| self.bucket.clone()).ok_or(RecordFault::NoBucket)?;
        Ok(ObjectOutcome::Message(AutotagMessage {
            bucket,
            chunk_key: object.key,
            original_file_key,
            job_id,
            timestamp: object.time,
        }))
    }
}

/// An object's key as it is in S3: notifications percent-encode it, with `+` for a space.
pub(super) fn decode_key(encoded: &str) -> Result<String, RecordFault> {
    let spaced = encoded.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().map_err(|_| RecordFault::KeyNotUtf8)?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_percent_decoded_with_plus_for_space() {
        for (encoded, key) in [
            ("red+flower.jpg", "red flower.jpg"),
            ("a%2Bb+c.pdf", "a+b c.pdf"),
            ("uploads%2Fjob-1%2Fb.pdf", "uploads/job-1/b.pdf"),
            ("caf%C3%A9.pdf", "café.pdf"),
            ("100%25.pdf", "100%.pdf"),
            ("raw/é.pdf", "raw/é.pdf"),
            ("%zz", "%zz"),
        ] {
            assert_eq!(decode_key(encoded).as_deref(), Ok(key));
        }
        assert_eq!(decode_key("%ff"), Err(RecordFault::KeyNotUtf8));
    }
}
