//! Input of any bytes: it is read or reported, never a panic.

use tollway_core::{Name, Timestamp};
use tollway_pipeline::ConfigWithPipelines;
use tollway_pipeline::source::{Format, Records, Source};

const SEEDS: u64 = 3_000;

/// Pieces that inputs are made of, so that most of them get past the first check.
const PIECES: [&str; 41] = [
    "\n{\"key\":1,\"chunk_key\":\"uploads/j/chunks/a.pdf\"}\n",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\n",
    "\r\n",
    " ",
    "\u{feff}",
    "null",
    "-1e9",
    "true",
    "\"key\"",
    "\"chunk_key\":\"uploads/j/chunks/a.pdf\"",
    "\"job_id\"",
    "\"Records\":[",
    "\"s3\":{",
    "\"bucket\":{\"name\":\"b\"}",
    "\"object\":{\"key\":\"uploads/j/chunks/%41+.pdf\"}",
    "\"eventName\":\"ObjectCreated:Put\"",
    "\"eventTime\":\"2025\"",
    "\"Event\":\"s3:TestEvent\"",
    "\"detail\":{",
    "\"detail-type\":\"Object Created\"",
    "\"source\":\"aws.s3\"",
    "\"receiptHandle\":1,\"body\":\"{\\\"key\\\":1}\"",
    "\"TopicArn\":1,\"Message\":\"[[]]\"",
    "\"Items\":[{",
    "\"Key\":\"%ff\"",
    "\"Size\":5",
    "\"from\":\"2025-02-19T10:30:00\"",
    "\"rank\":99999",
    "a,b\n",
    "\"a\",\"b\n",
    ";",
    "\t",
    "é",
];

/// A small generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((bits ^ (bits >> 31)) % end as u64).unwrap()
    }
}

fn source() -> Source {
    let text = r#"
        [pipelines.pdf]
        engine = "sqlite:pdf.db"
        stages = [{ name = "autotag" }]
        [pipelines.pdf.source]
        priority = "rank"
        not_before = "from"
        suffix = ".pdf"
        pattern = "uploads/{job_id}/{*name}.pdf"
        original_file_key = "{job_id}"
    "#;
    ConfigWithPipelines::parse(text).unwrap().pipeline("pdf").unwrap().source.clone()
}

fn input(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(60) {
        match random.below(10) {
            0 => bytes.push(u8::try_from(random.below(256)).unwrap()),
            _ => bytes.extend_from_slice(PIECES[random.below(PIECES.len())].as_bytes()),
        }
    }
    bytes
}

/// Every line is a job, a skipped event, an error, or nothing; their numbers only rise.
fn check(source: &Source, input: &[u8], format: Format) -> usize {
    let lines = input.split(|byte| *byte == b'\n').count() as u64;
    let mut records = Records::new(source.clone(), input, format);
    let (mut last, mut jobs) = (0, 0);
    while let Ok(Some((line, read))) = records.next_record(Timestamp::EPOCH) {
        assert!(last < line && line <= lines, "{line} after {last} of {lines}");
        last = line;
        jobs += read.jobs.len();
        assert!(read.errors.iter().all(|error| !error.to_string().is_empty()));
    }
    jobs
}

#[test]
fn any_bytes_are_read_or_reported() {
    let sources = [source(), Source::new(Name::new("autotag").unwrap())];
    let mut jobs = 0;
    for seed in 0..SEEDS {
        let input = input(&mut Random(seed));
        for source in &sources {
            jobs += check(source, &input, Format::Jsonl) + check(source, &input, Format::Csv);
        }
    }
    assert!(jobs > 0, "no input was a job");
}

/// Real records with one byte changed, removed or cut off.
#[test]
fn damaged_records_are_read_or_reported() {
    let source = source();
    let page = std::fs::read_to_string("../../../docs/guide/pipeline-sources.md").unwrap();
    for (seed, line) in (0..).zip(page.lines().filter(|line| line.starts_with('{'))) {
        let mut random = Random(seed);
        for at in 0..line.len() {
            check(&source, &line.as_bytes()[..at], Format::Jsonl);
            let mut damaged = line.as_bytes().to_vec();
            damaged[at] = u8::try_from(random.below(256)).unwrap();
            check(&source, &damaged, Format::Jsonl);
            check(&source, &damaged, Format::Csv);
        }
    }
}
