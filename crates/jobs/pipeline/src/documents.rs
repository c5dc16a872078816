//! The queue messages of a PDF pipeline: AutoTag first, then Extract.
//!
//! A handler of the AutoTag stage reads an [`AutotagMessage`] and hands on an [`ExtractMessage`]. Both are written with
//! their fields in the documented order:
//!
//! ```
//! use tollway_core::{Name, Timestamp};
//! use tollway_pipeline::Output;
//! use tollway_pipeline::documents::AutotagMessage;
//!
//! let data = r#"{
//!   "bucket": "your-bucket-name",
//!   "chunk_key": "uploads/job-123/chunks/chunk_001.pdf",
//!   "original_file_key": "uploads/job-123/original.pdf",
//!   "job_id": "job-123",
//!   "timestamp": "2025-02-19T10:30:00Z"
//! }"#;
//! let message: AutotagMessage = serde_json::from_str(data)?;
//! // ... tag the PDF and upload it ...
//! let now = Timestamp::from_secs(1_739_961_005);
//! let next = message.extract("uploads/job-123/output_autotag/COMPLIANT_chunk_001.pdf", now);
//! assert!(serde_json::to_string(&next)?.ends_with(r#""timestamp":"2025-02-19T10:30:05Z"}"#));
//! let output = Output::new(&Name::new("extract")?, &serde_json::to_string(&next)?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use serde::{Deserialize, Serialize};
use tollway_core::Timestamp;

/// A chunk of a PDF to tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutotagMessage {
    /// The bucket of all keys here.
    pub bucket: String,
    /// The chunk.
    pub chunk_key: String,
    /// The file that the chunk is a part of.
    pub original_file_key: String,
    /// The id that all chunks of a file share.
    pub job_id: String,
    /// When the message was made. Written in whole seconds with a `Z`; read with or without it.
    #[serde(with = "utc_seconds")]
    pub timestamp: Timestamp,
}

/// A tagged chunk to extract from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractMessage {
    /// The bucket of all keys here.
    pub bucket: String,
    /// The chunk before it was tagged.
    pub chunk_key: String,
    /// The tagged chunk.
    pub autotagged_key: String,
    /// The file that the chunk is a part of.
    pub original_file_key: String,
    /// The id that all chunks of a file share.
    pub job_id: String,
    /// When the message was made. Written in whole seconds with a `Z`; read with or without it.
    #[serde(with = "utc_seconds")]
    pub timestamp: Timestamp,
}

impl AutotagMessage {
    /// What AutoTag hands on when it has uploaded the tagged chunk.
    pub fn extract(self, autotagged_key: impl Into<String>, now: Timestamp) -> ExtractMessage {
        ExtractMessage {
            bucket: self.bucket,
            chunk_key: self.chunk_key,
            autotagged_key: autotagged_key.into(),
            original_file_key: self.original_file_key,
            job_id: self.job_id,
            timestamp: now,
        }
    }
}

mod utc_seconds {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use tollway_core::Timestamp;

    use crate::source::read_time;

    pub(super) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Timestamp::from_secs(time.as_micros() / 1_000_000))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        read_time(&text).ok_or_else(|| D::Error::custom("`timestamp` is not like 2025-02-19T10:30:00Z"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTOTAG: &str = r#"{
  "bucket": "your-bucket-name",
  "chunk_key": "uploads/job-123/chunks/chunk_001.pdf",
  "original_file_key": "uploads/job-123/original.pdf",
  "job_id": "job-123",
  "timestamp": "2025-02-19T10:30:00Z"
}"#;

    const EXTRACT: &str = r#"{
  "bucket": "your-bucket-name",
  "chunk_key": "uploads/job-123/chunks/chunk_001.pdf",
  "autotagged_key": "uploads/job-123/output_autotag/COMPLIANT_chunk_001.pdf",
  "original_file_key": "uploads/job-123/original.pdf",
  "job_id": "job-123",
  "timestamp": "2025-02-19T10:30:05Z"
}"#;

    fn written(message: &impl Serialize) -> String {
        serde_json::to_string_pretty(message).unwrap()
    }

    /// P1: the documented examples, byte for byte.
    #[test]
    fn messages_are_written_as_documented() {
        let autotag: AutotagMessage = serde_json::from_str(AUTOTAG).unwrap();
        assert_eq!(written(&autotag), AUTOTAG);
        let five_seconds_later = Timestamp::from_millis(autotag.timestamp.as_millis() + 5_999);
        let extract =
            autotag.extract("uploads/job-123/output_autotag/COMPLIANT_chunk_001.pdf", five_seconds_later);
        assert_eq!(written(&extract), EXTRACT);
        assert_eq!(written(&serde_json::from_str::<ExtractMessage>(EXTRACT).unwrap()), EXTRACT);
    }

    /// Python's `datetime.utcnow().isoformat()` writes no `Z`.
    #[test]
    fn timestamps_are_read_without_a_zone() {
        for other in ["2025-02-19T10:30:00", "2025-02-19T10:30:00.123456", "2025-02-19T11:30:00+01:00"] {
            let text = AUTOTAG.replace("2025-02-19T10:30:00Z", other);
            let autotag: AutotagMessage = serde_json::from_str(&text).unwrap();
            assert_eq!(written(&autotag), AUTOTAG, "{other}");
        }
        let wrong = AUTOTAG.replace("2025-02-19T10:30:00Z", "yesterday");
        let error = serde_json::from_str::<AutotagMessage>(&wrong).unwrap_err().to_string();
        assert!(error.starts_with("`timestamp` is not like 2025-02-19T10:30:00Z"), "{error}");
    }
}
