//! Records of every shape, from the text to the engine.

use serde_json::json;
use tollway_core::{Name, Timestamp};
use tollway_pipeline::source::{Format, RECORD_BYTES_MAX, RecordJobs, Records, Skipped, Source};
use tollway_pipeline::{ConfigWithPipelines, Engine, Enqueued, Filter, Job, JobCost, NewJob, SqliteEngine};

const NOW: Timestamp = Timestamp::from_secs(1_739_961_000);

fn source(more: &str) -> Source {
    let text = format!(
        r#"
        [pipelines.pdf]
        engine = "sqlite:pdf.db"
        stages = [{{ name = "autotag" }}, {{ name = "extract" }}]
        [pipelines.pdf.source]
        pattern = "uploads/{{job_id}}/chunks/{{name}}.pdf"
        original_file_key = "uploads/{{job_id}}/original.pdf"
        {more}"#
    );
    ConfigWithPipelines::parse(&text).unwrap().pipeline("pdf").unwrap().source.clone()
}

fn plain() -> Source {
    Source::new(Name::new("autotag").unwrap())
}

fn read(source: &Source, record: impl ToString) -> RecordJobs {
    source.read(&record.to_string(), NOW)
}

fn errors(read: &RecordJobs) -> Vec<String> {
    read.errors.iter().map(ToString::to_string).collect()
}

/// The job of the document's example, made from its object.
fn autotag_job() -> NewJob {
    let data = concat!(
        r#"{"bucket":"your-bucket-name","chunk_key":"uploads/job-123/chunks/chunk_001.pdf","#,
        r#""original_file_key":"uploads/job-123/original.pdf","job_id":"job-123","timestamp":"2025-02-19T10:30:00Z"}"#
    );
    let key = "uploads/job-123/chunks/chunk_001.pdf";
    NewJob::new(&Name::new("autotag").unwrap(), key, data).unwrap().group("job-123").unwrap()
}

fn s3_record(event: &str, key: &str) -> serde_json::Value {
    json!({
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "us-west-2",
        "eventTime": "2025-02-19T10:30:00.000Z",
        "eventName": event,
        "userIdentity": {"principalId": "AIDAJDPLRKLG7UEXAMPLE"},
        "requestParameters": {"sourceIPAddress": "127.0.0.1"},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "testConfigRule",
            "bucket": {"name": "your-bucket-name", "arn": "arn:aws:s3:::your-bucket-name"},
            "object": {"key": key, "size": 1024, "eTag": "d41d8cd98f00b204e9800998ecf8427e",
                       "versionId": "096fKKXTRTtl3on89fVO.nfljtsv6qko", "sequencer": "0055AED6DCD90281E5"},
        },
    })
}

fn event_bridge(kind: &str, key: &str) -> serde_json::Value {
    json!({
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": kind,
        "source": "aws.s3",
        "account": "111122223333",
        "time": "2025-02-19T10:30:00Z",
        "region": "ca-central-1",
        "resources": ["arn:aws:s3:::your-bucket-name"],
        "detail": {
            "version": "0",
            "bucket": {"name": "your-bucket-name"},
            "object": {"key": key, "size": 5, "etag": "b1946ac92492d2347c6235b4d2611184",
                       "version-id": "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e", "sequencer": "617f08299329d189"},
            "reason": "PutObject",
        },
    })
}

/// P1: an S3 notification becomes the document's AutoTag message, whatever carries it.
#[test]
fn created_objects_become_the_documents_message() {
    let source = source("bucket = \"your-bucket-name\"");
    let key = "uploads/job-123/chunks/chunk_001.pdf";
    let notification = json!({"Records": [s3_record("ObjectCreated:Put", key)]});
    let in_sns = json!({
        "Type": "Notification", "MessageId": "22b80b92", "TopicArn": "arn:aws:sns:us-west-2:123456789012:MyTopic",
        "Subject": "Amazon S3 Notification", "Message": notification.to_string(), "Timestamp": "2012-05-02T00:54:06.655Z",
    });
    let in_sqs = json!({"messageId": "059f36b4", "receiptHandle": "AQEB", "body": in_sns.to_string(),
                        "eventSource": "aws:sqs"});
    for record in [
        notification.clone(),
        json!({"EventName": "s3:ObjectCreated:Put", "Key": "x", "Records":
            [s3_record("s3:ObjectCreated:Put", "uploads%2Fjob-123%2Fchunks%2Fchunk_001.pdf")]}),
        s3_record("ObjectCreated:CompleteMultipartUpload", key),
        in_sns.clone(),
        in_sqs.clone(),
        json!({"Records": [in_sqs]}),
        json!({"Records": [{"EventSource": "aws:sns", "Sns": {"Message": notification.to_string()}}]}),
        json!({"Messages": [{"MessageId": "1", "ReceiptHandle": "MbZj", "Body": notification.to_string()}]}),
        event_bridge("Object Created", key),
        json!({"Messages": [{"MessageId": "1", "ReceiptHandle": "MbZj", "Body": event_bridge("Object Created", key).to_string()}]}),
        json!({"BatchInput": {}, "Items":
            [{"Etag": "\"e9c\"", "Key": key, "LastModified": 1_739_961_000, "Size": 7, "StorageClass": "STANDARD"}]}),
        json!({"Key": key, "LastModified": "2025-02-19T10:30:00+00:00", "ETag": "\"e9c\"", "Size": 7}),
    ] {
        let read = read(&source, &record);
        assert_eq!(read, RecordJobs { jobs: vec![autotag_job()], ..RecordJobs::default() }, "{record}");
    }
}

#[test]
fn notification_with_several_records_loses_none() {
    let source = source("prefix = \"uploads/\"\nsuffix = \".pdf\"");
    let mut unnamed = s3_record("ObjectCreated:Put", "x");
    unnamed["s3"]["object"] = json!({});
    let records = [
        s3_record("ObjectCreated:Put", "uploads/job-1/chunks/red+flower+%2B1.pdf"),
        unnamed,
        s3_record("ObjectRemoved:Delete", "uploads/job-1/chunks/a.pdf"),
        s3_record("ObjectCreated:Put", "uploads/job-1/chunks/a.txt"),
        s3_record("ObjectCreated:Put", "other/job-1/chunks/a.pdf"),
        s3_record("ObjectCreated:Put", "uploads/job-1/original.pdf"),
        s3_record("ObjectCreated:Put", "uploads/job-1/output_autotag/COMPLIANT_a.pdf"),
        s3_record("ObjectCreated:Put", "%ff"),
        s3_record("ObjectCreated:Copy", "uploads/job-2/chunks/caf%C3%A9.pdf"),
    ];
    let outcome = read(&source, json!({ "Records": records }));
    let keys: Vec<NewJob> = ["red flower +1", "café"]
        .into_iter()
        .zip(["job-1", "job-2"])
        .map(|(name, job_id)| {
            let key = format!("uploads/{job_id}/chunks/{name}.pdf");
            let data = format!(
                "{{\"bucket\":\"your-bucket-name\",\"chunk_key\":\"{key}\",\"original_file_key\":\
                 \"uploads/{job_id}/original.pdf\",\"job_id\":\"{job_id}\",\"timestamp\":\"2025-02-19T10:30:00Z\"}}"
            );
            NewJob::new(&source.stage, &key, &data).unwrap().group(job_id).unwrap()
        })
        .collect();
    assert_eq!(outcome.jobs, keys);
    assert_eq!(outcome.skipped, Skipped { test_events: 0, other_events: 1, filtered: 2, unmatched: 2 });
    assert_eq!(
        errors(&outcome),
        [
            "item 2: the S3 event has no `s3.object.key`",
            "item 8: the object's key is not UTF-8 after percent-decoding"
        ]
    );
    let test = json!({"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2014-10-13T15:57:02.089Z",
                      "Bucket": "bucketname", "RequestId": "5582815E1AEA5ADF", "HostId": "8cLeG"});
    let outcome = read(
        &source,
        json!({"Messages": [{"MessageId": "1", "ReceiptHandle": "MbZj", "Body": test.to_string()}]}),
    );
    assert_eq!(outcome.skipped.test_events, 1);
    let outcome = read(&source, event_bridge("Object Deleted", "uploads/job-1/chunks/a.pdf"));
    assert_eq!((outcome.skipped.other_events, outcome.jobs.len()), (1, 0));
}

#[test]
fn objects_need_a_pattern_and_a_bucket() {
    let key = "uploads/job-123/chunks/chunk_001.pdf";
    let outcome = read(&plain(), s3_record("ObjectCreated:Put", key));
    let message = "an S3 object becomes a job by a `pattern`; add one to the pipeline's `source`";
    assert_eq!(errors(&outcome), [message]);
    let listed = json!({"Key": key, "Size": 7});
    let outcome = read(&source(""), &listed);
    assert_eq!(errors(&outcome), ["the object has no bucket; add `bucket` to the pipeline's `source`"]);
    // Without a pattern, a listed object is a record like any other.
    let by_key = Source { key: vec!["Key".to_owned()], ..plain() };
    assert_eq!(read(&by_key, &listed).jobs, [NewJob::new(&by_key.stage, key, &listed.to_string()).unwrap()]);
    let long = read(&source(""), s3_record("ObjectCreated:Put", &"x".repeat(2_000)));
    assert_eq!(errors(&long), ["the object's key has 2000 bytes, more than the 1024 allowed"]);
}

/// The document's message is one of many that Step Functions may pass; each stays byte for byte.
#[test]
fn lists_are_read_item_by_item() {
    let message = r#"{ "bucket":"b",  "chunk_key":"temp/a_chunk_1.pdf","job_id":"a" }"#;
    let job = NewJob::new(&plain().stage, "temp/a_chunk_1.pdf", message).unwrap().group("a").unwrap();
    for record in [
        message.to_owned(),
        format!(" [{message}]\r"),
        format!(r#"{{"chunks": [{message}], "s3_bucket": "b"}}"#),
        format!(r#"{{"BatchInput": {{"a": 1}}, "Items": [{message}]}}"#),
        format!(r#"{{"source": "my.splitter", "detail-type": "Chunk", "detail": {message}}}"#),
        json!({"Records": [{"messageId": "1", "receiptHandle": "AQEB", "body": message}]}).to_string(),
    ] {
        assert_eq!(read(&plain(), &record).jobs, std::slice::from_ref(&job), "{record}");
    }
    let mixed = read(&plain(), format!("[{message}, 5, {{}}, {message}]"));
    assert_eq!(mixed.jobs, [job.clone(), job]);
    assert_eq!(errors(&mixed)[0], "item 2: a record is a JSON object, not a number");
    assert!(errors(&mixed)[1].starts_with("item 3: no field `key`"), "{:?}", mixed.errors);
}

#[test]
fn jobs_with_lists_in_them_are_one_job() {
    let own = r#"{"key": 1, "chunks": [{"key": 2}, {"key": 3}], "body": "text"}"#;
    assert_eq!(read(&plain(), own).jobs.len(), 1);
    let mail = r#"{"messageId": 7, "body": "Hello"}"#;
    let by_id = Source { key: vec!["messageId".to_owned()], ..plain() };
    assert_eq!(read(&by_id, mail).jobs, [NewJob::new(&by_id.stage, "7", mail).unwrap()]);
    let named = Source { items: Some("chunks".to_owned()), ..plain() };
    assert_eq!(read(&named, own).jobs.len(), 2);
    let scalars = Source { key: vec!["id".to_owned()], ..plain() };
    assert_eq!(read(&scalars, r#"{"id": 1, "Items": [1, 2]}"#).jobs.len(), 1);
}

#[test]
fn records_are_bounded() {
    let deep = format!("{}{}", "[".repeat(20), "]".repeat(20));
    assert_eq!(errors(&read(&plain(), deep)), ["item 1: more than 8 lists and envelopes around each other"]);
    let many = |count: usize| format!("[{}]", vec!["{\"key\":1}"; count].join(","));
    assert_eq!(read(&plain(), many(10_000)).jobs.len(), 10_000);
    let outcome = read(&plain(), many(10_001));
    assert_eq!(errors(&outcome), ["more than 10000 items in one record; split it. No item was taken"]);
    assert_eq!(outcome.jobs, []);
    let long = format!("{{\"key\": 1, \"x\": \"{}\"}}", "x".repeat(1 << 20));
    assert_eq!(errors(&read(&plain(), long)), ["the data has 1048595 bytes, more than the 1048576 allowed"]);
    let longer = " ".repeat(RECORD_BYTES_MAX + 1);
    assert_eq!(
        errors(&read(&plain(), longer)),
        ["longer than the 2162688 bytes that a record may have; skipped"]
    );
}

#[test]
fn other_values_are_named() {
    for (record, message) in [
        ("hello", "not JSON: expected value at line 1 column 1"),
        ("\"hello\"", "a record is a JSON object, not a string"),
        ("5", "a record is a JSON object, not a number"),
        ("null", "a record is a JSON object, not null"),
        ("{", "the JSON ends early; write each record on one line, as `jq -c` does"),
        ("{\"key\": 1} {\"key\": 2}", "not JSON: trailing characters at line 1 column 12"),
    ] {
        assert_eq!(errors(&read(&plain(), record)), [message], "{record}");
    }
}

async fn enqueue_all(engine: &SqliteEngine, input: &[u8], format: Format) -> (Vec<Enqueued>, Vec<u64>) {
    let mut records = Records::new(source(""), input, format);
    let (mut enqueued, mut bad) = (Vec::new(), Vec::new());
    while let Some((line, read)) = records.next_record(NOW).unwrap() {
        bad.extend(read.errors.iter().map(|_| line));
        enqueued.extend(engine.enqueue(read.jobs, NOW).await.unwrap());
    }
    (enqueued, bad)
}

/// P8: a file with bad lines is enqueued without them, and once, however often it is read.
#[tokio::test]
async fn input_is_enqueued_once_without_its_bad_lines() {
    let folder = tempfile::tempdir().unwrap();
    let engine = SqliteEngine::open(&folder.path().join("pdf.db")).unwrap();
    let object = s3_record("ObjectCreated:Put", "uploads/job-1/chunks/a+b.pdf");
    let same = event_bridge("Object Created", "uploads/job-1/chunks/a b.pdf");
    let notification = json!({"Records": [object, object]});
    let too_long = "x".repeat(RECORD_BYTES_MAX + 1);
    let lines = format!("\u{feff}{notification}\r\n\r\n{{\"key\":  1}}\r\n{{\"key\"\r\n{too_long}\r\n{same}");
    let mut input = lines.into_bytes();
    input.extend_from_slice(b"\n{\"key\": \"\xff\"}\n{\"key\":  2}");

    let (enqueued, bad) = enqueue_all(&engine, &input, Format::Jsonl).await;
    let new = enqueued.iter().filter(|enqueued| matches!(enqueued, Enqueued::New(_))).count();
    assert_eq!((enqueued.len(), new), (5, 3));
    assert_eq!(bad, [4, 5, 7]);
    let (again, _) = enqueue_all(&engine, &input, Format::Jsonl).await;
    assert!(again.iter().all(|enqueued| matches!(enqueued, Enqueued::Duplicate(_))), "{again:?}");

    let csv = "\u{feff}key;job_id;note\r\nab;g;\"a\r\nb\"\r\n3\r\n4;;\r\n";
    let (enqueued, bad) = enqueue_all(&engine, csv.as_bytes(), Format::Csv).await;
    assert_eq!((enqueued.len(), bad), (2, vec![4]));

    let page = engine.scan(Filter::default(), None, 10).await.unwrap();
    let shown = |job: &Job| (job.key.clone(), job.group.clone(), job.data.clone());
    let some = |key: &str, group: Option<&str>, data: &str| {
        (key.to_owned(), group.map(str::to_owned), data.to_owned())
    };
    let message = concat!(
        r#"{"bucket":"your-bucket-name","chunk_key":"uploads/job-1/chunks/a b.pdf","#,
        r#""original_file_key":"uploads/job-1/original.pdf","job_id":"job-1","timestamp":"2025-02-19T10:30:00Z"}"#
    );
    assert_eq!(
        page.items.iter().map(shown).collect::<Vec<_>>(),
        [
            some("uploads/job-1/chunks/a b.pdf", Some("job-1"), message),
            some("1", None, "{\"key\":  1}"),
            some("2", None, "{\"key\":  2}"),
            some("ab", Some("g"), r#"{"key":"ab","job_id":"g","note":"a\r\nb"}"#),
            some("4", None, r#"{"key":"4","job_id":"","note":""}"#),
        ]
    );
}

/// A dead letter that was exported becomes the same job again, also from a list, and whatever the source says of keys.
#[test]
fn exported_dead_letter_is_the_same_job_again() {
    let exported = r#"{"key": "c>autotag.0", "stage": "extract", "group": "g", "priority": -3,
        "cost": {"adobe": {"requests": 2}}, "data": {"key": "other",  "n": 1e400}, "dead_letter": {"id": 7}}"#;
    let expected =
        NewJob::new(&Name::new("extract").unwrap(), "c>autotag.0", r#"{"key": "other",  "n": 1e400}"#);
    let cost = JobCost::new([("adobe", "requests", 2)]).unwrap();
    let expected = expected.unwrap().group("g").unwrap().priority(-3).cost(cost);
    let named = Source { key: vec!["id".to_owned()], ..plain() };
    assert_eq!(named.read(exported, NOW).jobs, std::slice::from_ref(&expected));
    assert_eq!(plain().read(&format!("[{exported}]"), NOW).jobs, [expected]);
    let wrong = plain().read(&exported.replace("extract", "no name!"), NOW);
    assert_eq!(errors(&wrong), ["the field `stage` must be the name of a stage, such as extract"]);
    // Without the sign it is the data of a job.
    assert_eq!(plain().read(&exported.replace("dead_letter", "x"), NOW).jobs.len(), 1);
}
