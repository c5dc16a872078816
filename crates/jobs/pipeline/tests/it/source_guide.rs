//! The examples of `docs/guide/pipeline-sources.md`.

use std::fs;

use tollway_core::{Name, Timestamp};
use tollway_pipeline::source::{Format, Records, Skipped, Source};
use tollway_pipeline::{ConfigWithPipelines, NewJob};

/// The fenced blocks of a page: language and text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((language.to_owned(), text.join("\n")));
        }
    }
    blocks
}

struct Outcome {
    jobs: Vec<NewJob>,
    notes: Vec<String>,
}

fn read(source: &Source, input: &str, format: Format) -> Outcome {
    let mut outcome = Outcome { jobs: Vec::new(), notes: Vec::new() };
    let mut records = Records::new(source.clone(), input.as_bytes(), format);
    let mut skipped = Skipped::default();
    while let Some((line, read)) = records.next_record(Timestamp::EPOCH).unwrap() {
        outcome.jobs.extend(read.jobs);
        outcome.notes.extend(read.errors.iter().map(|error| format!("line {line}: {error}")));
        skipped.add(read.skipped);
    }
    if skipped.total() > 0 {
        outcome.notes.push(format!("skipped: {skipped}"));
    }
    outcome
}

fn expected(source: &Source, text: &str) -> Outcome {
    let mut outcome = Outcome { jobs: Vec::new(), notes: Vec::new() };
    for paragraph in text.split("\n\n") {
        let part = |name: &str| {
            paragraph.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start).map(str::to_owned)
        };
        let Some(key) = part("key ") else {
            outcome.notes.extend(paragraph.lines().map(str::to_owned));
            continue;
        };
        let job = NewJob::new(&source.stage, &key, &part("data ").unwrap()).unwrap();
        outcome.jobs.push(match part("group ") {
            Some(group) => job.group(&group).unwrap(),
            None => job,
        });
    }
    outcome
}

/// P8: what the guide shows is what is enqueued.
#[test]
fn examples_of_the_guide_become_the_jobs_it_shows() {
    let page = fs::read_to_string("../../../docs/guide/pipeline-sources.md").unwrap();
    let mut source = Source::new(Name::new("autotag").unwrap());
    let mut input: Option<(String, Format)> = None;
    let mut compared = 0;
    for (language, text) in blocks(&page) {
        match language.as_str() {
            "toml" => {
                source = ConfigWithPipelines::parse(&text).unwrap().pipeline("pdf").unwrap().source.clone()
            }
            "json" => input = Some((text, Format::Jsonl)),
            "csv" => input = Some((text, Format::Csv)),
            "text" => {
                let (input, format) = input.take().unwrap();
                let (found, expected) = (read(&source, &input, format), expected(&source, &text));
                assert_eq!(found.jobs, expected.jobs, "{input}");
                assert_eq!(found.notes, expected.notes, "{input}");
                compared += 1;
            }
            other => panic!("a block of {other:?} is not tested"),
        }
    }
    assert_eq!(compared, 4);
}
