//! The fields of a record, and the job that they describe.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tollway_core::Timestamp;

use super::error::RecordFault;
use super::{Source, read_time};
use crate::NewJob;

/// The fields that identify a job if the source names none, the first one first.
const KEY_FIELDS: [&str; 2] = ["key", "chunk_key"];

/// The field that is the group if the source names none.
const GROUP_FIELD: &str = "job_id";

/// The fields of a JSON object. Of a field that occurs twice, the last one counts, as in most parsers.
pub(super) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    pub(super) fn parse(object: &'a str) -> Result<Self, RecordFault> {
        serde_json::from_str(object).map(Self).map_err(|error| not_json(&error))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The JSON of a field.
    pub(super) fn json(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|value| value.get())
    }

    /// The value of a field that is a string.
    pub(super) fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.json(name)?).ok()
    }

    /// The string at the end of a path through nested objects.
    pub(super) fn string_at(&self, path: &[&str]) -> Option<String> {
        match path {
            [] => None,
            [name] => self.string(name),
            [name, rest @ ..] => Self::parse(self.json(name)?).ok()?.string_at(rest),
        }
    }

    /// A string or a number as text. Without a field, or if it is null or empty, there is none.
    fn text(&self, name: &str) -> Result<Option<String>, RecordFault> {
        let Some(json) = self.json(name) else { return Ok(None) };
        match json.as_bytes().first() {
            Some(b'"') => Ok(self.string(name).filter(|text| !text.is_empty())),
            Some(b'-' | b'0'..=b'9') => Ok(Some(json.to_owned())),
            Some(b'n') => Ok(None),
            _ => Err(field(name, "a string or a number")),
        }
    }

    /// A time, or a number of seconds since 1970.
    pub(super) fn time(&self, name: &str) -> Result<Option<Timestamp>, RecordFault> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let seconds = text.parse().ok().filter(|_| self.string(name).is_none()).map(Timestamp::from_secs);
        match seconds.or_else(|| read_time(&text)) {
            Some(time) => Ok(Some(time)),
            None => Err(field(name, "a time like 2025-02-19T10:30:00Z")),
        }
    }
}

impl Source {
    /// The job of a record with these fields. Its data stays as it is.
    pub(super) fn job(&self, fields: &Fields<'_>, data: &str) -> Result<NewJob, RecordFault> {
        let mut job = NewJob::new(&self.stage, &self.key_of(fields)?, data)?;
        if let Some(group) = self.group_of(fields)? {
            job = job.group(&group)?;
        }
        if let Some(name) = &self.priority
            && let Some(text) = fields.text(name)?
        {
            let wrong = |_| field(name, "a whole number from -32768 to 32767");
            job = job.priority(text.parse().map_err(wrong)?);
        }
        if let Some(name) = &self.not_before
            && let Some(time) = fields.time(name)?
        {
            job = job.not_before(time);
        }
        Ok(job)
    }

    /// Whether a record has every field of its job's key.
    pub(super) fn identifies(&self, fields: &Fields<'_>) -> bool {
        match &self.key[..] {
            [] => KEY_FIELDS.iter().any(|name| fields.has(name)),
            names => names.iter().all(|name| fields.has(name)),
        }
    }

    fn key_of(&self, fields: &Fields<'_>) -> Result<String, RecordFault> {
        let required = |name: &str| {
            let missing = || RecordFault::Missing { field: name.to_owned(), meaning: "key" };
            fields.text(name)?.ok_or_else(missing)
        };
        let Some((last, others)) = self.key.split_last() else {
            let name = KEY_FIELDS.iter().find(|name| fields.has(name)).ok_or(RecordFault::NoKey)?;
            return required(name);
        };
        let mut key = String::new();
        for name in others {
            // Escaped, so that no two records with different fields have the same key.
            key.push_str(&required(name)?.replace('%', "%25").replace('/', "%2F"));
            key.push('/');
        }
        Ok(key + &required(last)?)
    }

    fn group_of(&self, fields: &Fields<'_>) -> Result<Option<String>, RecordFault> {
        let Some(name) = &self.group else { return Ok(fields.text(GROUP_FIELD).ok().flatten()) };
        match fields.text(name)? {
            Some(group) => Ok(Some(group)),
            None => Err(RecordFault::Missing { field: name.clone(), meaning: "group" }),
        }
    }
}

fn field(name: &str, wanted: &'static str) -> RecordFault {
    RecordFault::Field { field: name.to_owned(), wanted }
}

/// Why a text is no JSON object.
pub(super) fn not_an_object(text: &str) -> RecordFault {
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        return not_json(&error);
    }
    let found = match text.as_bytes().first() {
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    };
    RecordFault::NotObject { found }
}

pub(super) fn not_json(error: &serde_json::Error) -> RecordFault {
    if error.is_eof() {
        return RecordFault::Unfinished;
    }
    RecordFault::NotJson { reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use tollway_core::Name;

    use super::*;

    fn source() -> Source {
        Source::new(Name::new("autotag").unwrap())
    }

    fn job(source: &Source, data: &str) -> Result<NewJob, String> {
        let fields = Fields::parse(data).map_err(|fault| fault.to_string())?;
        source.job(&fields, data).map_err(|fault| fault.to_string())
    }

    #[test]
    fn default_key_is_key_and_then_chunk_key() {
        let key = |data| job(&source(), data).map(|job| job.key);
        assert_eq!(key(r#"{"chunk_key": "a/b", "key": "k"}"#).as_deref(), Ok("k"));
        assert_eq!(key(r#"{"chunk_key": "a/b"}"#).as_deref(), Ok("a/b"));
        assert_eq!(key(r#"{"key": 42}"#).as_deref(), Ok("42"));
        assert_eq!(key(r#"{"key": "first", "key": "last"}"#).as_deref(), Ok("last"));
        assert_eq!(
            key(r#"{"id": 1}"#).unwrap_err(),
            "no field `key` or `chunk_key` identifies the job; name one with `--key`, or with `key` in the \
             pipeline's `source`"
        );
        assert_eq!(key(r#"{"key": ""}"#).unwrap_err(), "the field `key`, the job's key, is missing or empty");
        assert_eq!(key(r#"{"key": [1]}"#).unwrap_err(), "the field `key` must be a string or a number");
        assert_eq!(key(r#"{"key": "\u0000"}"#).unwrap_err(), "the key contains a NUL");
    }

    #[test]
    fn keys_of_several_fields_never_collide() {
        let source = Source { key: vec!["bucket".to_owned(), "name".to_owned()], ..source() };
        let key = |data| job(&source, data).map(|job| job.key);
        assert_eq!(key(r#"{"bucket": "b", "name": "x/y"}"#).as_deref(), Ok("b/x/y"));
        assert_eq!(key(r#"{"bucket": "b/x", "name": "y"}"#).as_deref(), Ok("b%2Fx/y"));
        assert_eq!(key(r#"{"bucket": "b%2Fx", "name": "y"}"#).as_deref(), Ok("b%252Fx/y"));
        assert_eq!(
            key(r#"{"bucket": "b"}"#).unwrap_err(),
            "the field `name`, the job's key, is missing or empty"
        );
    }

    #[test]
    fn job_id_is_the_group_unless_a_field_is_named() {
        let group = |source: &Source, data| job(source, data).map(|job| job.group);
        assert_eq!(group(&source(), r#"{"key": 1, "job_id": "j"}"#), Ok(Some("j".to_owned())));
        assert_eq!(group(&source(), r#"{"key": 1, "job_id": {}}"#), Ok(None));
        assert_eq!(group(&source(), r#"{"key": 1}"#), Ok(None));
        let named = Source { group: Some("file".to_owned()), ..source() };
        assert_eq!(group(&named, r#"{"key": 1, "job_id": "j", "file": 7}"#), Ok(Some("7".to_owned())));
        let missing = group(&named, r#"{"key": 1, "job_id": "j"}"#).unwrap_err();
        assert_eq!(missing, "the field `file`, the job's group, is missing or empty");
    }

    #[test]
    fn priority_and_time_come_from_named_fields() {
        let source =
            Source { priority: Some("rank".to_owned()), not_before: Some("from".to_owned()), ..source() };
        let read = |data| job(&source, data).map(|job| (job.priority, job.not_before));
        let time = Timestamp::from_secs(1_739_961_000);
        assert_eq!(read(r#"{"key": 1, "rank": 5, "from": "2025-02-19T10:30:00"}"#), Ok((5, time)));
        assert_eq!(read(r#"{"key": 1, "rank": "-5", "from": "2025-02-19T10:30:00Z"}"#), Ok((-5, time)));
        assert_eq!(read(r#"{"key": 1, "from": 1739961000}"#), Ok((0, time)));
        assert_eq!(read(r#"{"key": 1, "rank": "", "from": null}"#), Ok((0, Timestamp::EPOCH)));
        let wrong = "the field `rank` must be a whole number from -32768 to 32767";
        assert_eq!(read(r#"{"key": 1, "rank": 40000}"#).unwrap_err(), wrong);
        let wrong = "the field `from` must be a time like 2025-02-19T10:30:00Z";
        assert_eq!(read(r#"{"key": 1, "from": "soon"}"#).unwrap_err(), wrong);
    }
}
