//! `[pipelines]` in the config file.

use std::fs;
use std::path::{Path, PathBuf};

use tollway_core::{Name, Span};
use tollway_pipeline::source::{Objects, Pattern, Source, Template};
use tollway_pipeline::{CommandConfig, ConfigWithPipelines, EngineUrl, HandlerConfig, HttpConfig};

/// P1, P2, P5: the document's stages with their queues, times, tries and workers.
#[test]
fn stages_are_read_in_order_with_their_keys() {
    let config =
        ConfigWithPipelines::load("tests/config/good/pdf.toml").unwrap_or_else(|error| panic!("{error}"));
    let pipeline = config.pipeline("pdf").unwrap();
    assert_eq!(pipeline.engine, EngineUrl::Sqlite("tests/config/good/pdf.db".into()));
    assert_eq!(pipeline.concurrency, Some(80));
    let [autotag, extract, upload] = &pipeline.stages[..] else { panic!("{:?}", pipeline.stages) };
    assert_eq!(autotag.queue.as_deref(), Some("adobe-autotag-queue"));
    assert_eq!(autotag.dead_letter_queue.as_deref(), Some("adobe-autotag-dlq"));
    assert_eq!(autotag.take.as_str(), r#"{"adobe":{"requests":1}}"#);
    assert_eq!((autotag.concurrency, autotag.tries, autotag.crashes), (50, 3, 5));
    assert_eq!((autotag.visibility_timeout, autotag.timeout), (Span::from_mins(15), Span::from_mins(5)));
    let Some(HandlerConfig::Command(command)) = &autotag.handler else { panic!("{:?}", autotag.handler) };
    let expected = CommandConfig::new(["python3", "autotag.py"]);
    assert_eq!(command.command, expected.command);
    assert_eq!(command.folder, Path::new("tests/config/good/."));
    assert_eq!(
        (command.memory_max, command.slots, command.begin, command.each),
        (Some(512 << 20), 4, true, false)
    );
    assert_eq!(autotag.next, Some(extract.name.clone()));

    assert_eq!((extract.concurrency, extract.tries, extract.crashes), (10, 3, 3));
    assert_eq!((extract.visibility_timeout, extract.timeout), (Span::from_mins(15), Span::from_mins(10)));
    assert_eq!(extract.retention, Span::from_days(7));
    assert_eq!(extract.handler, Some(HandlerConfig::Http(HttpConfig::new("http://127.0.0.1:9000/extract"))));
    assert_eq!(upload.after, [autotag.name.clone(), extract.name.clone()]);
    assert_eq!(upload.next, None);
}

#[test]
fn source_is_read_with_all_its_keys() {
    let config = ConfigWithPipelines::load("tests/config/good/pdf.toml").unwrap();
    let source = &config.pipeline("pdf").unwrap().source;
    assert_eq!(
        (source.stage.as_str(), &source.key[..]),
        ("autotag", &["bucket", "chunk_key"].map(str::to_owned)[..])
    );
    let named = [&source.group, &source.priority, &source.not_before, &source.items].map(Option::as_deref);
    assert_eq!(named, [Some("job_id"), Some("priority"), Some("not_before"), Some("chunks")]);
    let pattern = Pattern::parse("uploads/{folder}/chunks/{name}.pdf").unwrap();
    let objects = Objects {
        bucket: Some("your-bucket-name".to_owned()),
        prefix: "uploads/".to_owned(),
        suffix: ".pdf".to_owned(),
        job_id: Template::parse("pdf-{folder}", &pattern).unwrap(),
        original_file_key: Template::parse("uploads/{folder}/original.pdf", &pattern).unwrap(),
        pattern,
    };
    assert_eq!(source.objects, Some(objects));
}

#[test]
fn without_a_source_jobs_enter_the_first_stage() {
    let text = "[pipelines.p]\nengine = \"sqlite:p.db\"\nstages = [{ name = \"one\" }, { name = \"two\" }]";
    let config = ConfigWithPipelines::parse(text).unwrap();
    assert_eq!(config.pipeline("p").unwrap().source, Source::new(Name::new("one").unwrap()));
    let config = ConfigWithPipelines::parse(&format!("{text}\nsource = {{ stage = \"two\" }}")).unwrap();
    assert_eq!(config.pipeline("p").unwrap().source, Source::new(Name::new("two").unwrap()));
}

/// Each `wrong/NAME.toml` fails with exactly the text of `wrong/NAME.txt`. `TOLLWAY_BLESS` rewrites the texts; review the
/// diff before you keep it.
#[test]
fn every_config_error_matches_its_golden_text() {
    let entries = fs::read_dir("tests/config/wrong").unwrap();
    let mut fixtures: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    fixtures.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    fixtures.sort();
    assert!(fixtures.len() >= 8, "only {} fixtures were found", fixtures.len());
    for path in fixtures {
        let Err(error) = ConfigWithPipelines::load(&path) else { panic!("{} is accepted", path.display()) };
        let text = format!("{error}\n");
        let beside = path.with_extension("txt");
        if std::env::var_os("TOLLWAY_BLESS").is_some() {
            fs::write(&beside, &text).unwrap();
        }
        assert_eq!(text, fs::read_to_string(&beside).unwrap_or_default(), "{}", path.display());
    }
}

/// A truncated file is read or rejected with a message, never a panic.
#[test]
fn truncated_config_never_panics() {
    let text = fs::read_to_string("tests/config/good/pdf.toml").unwrap();
    for (end, _) in text.char_indices() {
        if let Err(error) = ConfigWithPipelines::parse(&text[..end]) {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// A mistake in the sections of limits has the same message here and in the library.
#[test]
fn limit_errors_match_the_library() {
    let entries = fs::read_dir("../../limiter/tollway/tests/config/wrong").unwrap();
    let fixtures = entries.map(|entry| entry.unwrap().path());
    let mut compared = 0;
    for path in fixtures.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
        assert_eq!(ConfigWithPipelines::load(&path).unwrap_err(), tollway::Config::load(&path).unwrap_err());
        compared += 1;
    }
    assert!(compared >= 25, "only {compared} fixtures were found");
}
