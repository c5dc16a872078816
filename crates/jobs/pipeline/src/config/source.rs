//! `[pipelines.NAME.source]`: how records become jobs.

use tollway_config::{Section, Spanned};
use tollway_core::Name;

use super::stage::StageConfig;
use super::{did_you_mean, values};
use crate::source::{Objects, Pattern, PatternError, Source, Template};

const PATTERN: &str = "uploads/{job_id}/chunks/{name}.pdf";
const ORIGINAL: &str = "uploads/{job_id}/original.pdf";

/// The most fields of a key.
const KEY_FIELDS_MAX: usize = 8;

/// Keys that mean something only beside `pattern`.
const OBJECT_KEYS: [&str; 5] = ["bucket", "prefix", "suffix", "job_id", "original_file_key"];

/// Reads the section of a pipeline; without it, all is as by default. None if something is wrong, the stages included.
pub(super) fn read(pipeline: &mut Section<'_>, stages: Option<&[StageConfig]>) -> Option<Source> {
    let first = stages.and_then(|stages| stages.first()).map(|stage| stage.name.clone());
    let is_missing = !pipeline.has("source");
    // Also if the stages are wrong, so that the mistakes of both are found.
    let Some(mut section) = pipeline.section("source") else {
        return first.filter(|_| is_missing).map(Source::new);
    };
    let before = section.report().count();
    let stage = read_stage(&mut section, stages.unwrap_or_default());
    let source = Source {
        stage: stage.or(first).or_else(|| Name::new("unnamed").ok())?,
        key: read_key(&mut section),
        group: field(&mut section, "group", "job_id"),
        priority: field(&mut section, "priority", "priority"),
        not_before: field(&mut section, "not_before", "not_before"),
        items: field(&mut section, "items", "chunks"),
        objects: read_objects(&mut section),
    };
    let report = section.report();
    section.finish();
    (stages.is_some() && report.count() == before).then_some(source)
}

fn read_stage(section: &mut Section<'_>, stages: &[StageConfig]) -> Option<Name> {
    let text = section.string("stage", "autotag")?;
    let stage = stages.iter().find(|stage| stage.name.as_str() == *text.get_ref());
    // Without stages, those are what is wrong.
    if stage.is_none() && !stages.is_empty() {
        let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        let advice = did_you_mean(text.get_ref(), &names);
        section.problem("stage", format!("there is no stage {:?}", text.get_ref()), &advice);
    }
    stage.map(|stage| stage.name.clone())
}

/// One field, or a list of some.
fn read_key(section: &mut Section<'_>) -> Vec<String> {
    let one = section.value("key").and_then(|value| value.get_ref().as_str());
    let list = match one {
        Some(name) => vec![name],
        None => match values::strings(section, "key", "[\"bucket\", \"chunk_key\"]") {
            Some(list) => list.iter().map(|name| *name.get_ref()).collect(),
            None => return Vec::new(),
        },
    };
    if list.is_empty() || list.len() > KEY_FIELDS_MAX || list.contains(&"") {
        let message = format!("a key has 1 to {KEY_FIELDS_MAX} fields, each with a name");
        section.problem("key", message, "write it like `key = \"chunk_key\"`");
    }
    list.into_iter().map(str::to_owned).collect()
}

/// The name of a field of records.
fn field(section: &mut Section<'_>, key: &'static str, example: &str) -> Option<String> {
    let text = section.string(key, example)?;
    if text.get_ref().is_empty() {
        let advice = format!("write it like `{key} = {example:?}`");
        section.problem(key, format!("`{key}` names a field of the records, and it is empty"), &advice);
    }
    Some((*text.get_ref()).to_owned())
}

fn read_objects(section: &mut Section<'_>) -> Option<Objects> {
    let Some(text) = section.string("pattern", PATTERN) else {
        let is_missing = !section.has("pattern");
        for key in OBJECT_KEYS {
            if section.value(key).is_some() && is_missing {
                let advice = format!("add one like `pattern = {PATTERN:?}`");
                section.problem(key, format!("`{key}` has no effect without `pattern`"), &advice);
            }
        }
        return None;
    };
    let pattern = Pattern::parse(text.get_ref()).map_err(|error| wrong_part(section, &text, &error)).ok();
    let own = |section: &mut Section<'_>, key, example: &str| {
        section.string(key, example).map(|text| (*text.get_ref()).to_owned())
    };
    let bucket = own(section, "bucket", "your-bucket-name");
    let prefix = own(section, "prefix", "uploads/").unwrap_or_default();
    let suffix = own(section, "suffix", ".pdf").unwrap_or_default();
    let job_id = section.string("job_id", "{job_id}");
    let original = section.string("original_file_key", ORIGINAL);
    section.required("original_file_key", "\"uploads/{job_id}/original.pdf\"");
    let pattern = pattern?;
    if job_id.is_none() && !section.has("job_id") && !pattern.names().contains(&"job_id") {
        let advice = "name one so, or add `job_id` with placeholders of the pattern";
        section.problem("pattern", "no placeholder of the pattern is `{job_id}`", advice);
        return None;
    }
    let template = |text: &Spanned<&str>| {
        Template::parse(text.get_ref(), &pattern).map_err(|error| wrong_part(section, text, &error)).ok()
    };
    let job_id = match &job_id {
        Some(text) => template(text),
        None => Template::parse("{job_id}", &pattern).ok(),
    };
    let original_file_key = original.as_ref().and_then(template);
    Some(Objects { bucket, prefix, suffix, job_id: job_id?, original_file_key: original_file_key?, pattern })
}

fn wrong_part(section: &Section<'_>, text: &Spanned<&str>, error: &PatternError) {
    section.report().problem_in(text, error.at.clone(), error.message.as_str(), "");
}
