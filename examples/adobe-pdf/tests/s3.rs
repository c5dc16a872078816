//! Runs the example with files in S3, which an emulator stands in for.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::ffi::OsString;
use std::process::Command;

use tollway_testkit::servers::{Ministack, python_tool};

/// Makes a bucket, or prints how many of its files end like this.
const SCRIPT: &str = "
import boto3, sys
s3 = boto3.client('s3')
if len(sys.argv) == 1:
    s3.create_bucket(Bucket='pdfs')
else:
    pages = s3.get_paginator('list_objects_v2').paginate(Bucket='pdfs', Prefix='2025/uploads/')
    print(sum(found['Key'].endswith(sys.argv[1]) for page in pages for found in page['Contents']))
";

/// The settings of an AWS client for the emulator.
fn with_aws<'c>(command: &'c mut Command, server: &Ministack) -> &'c mut Command {
    command
        .env("AWS_ENDPOINT_URL", server.endpoint())
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
}

fn script(server: &Ministack, arguments: &[&str]) -> String {
    let mut python = Command::new(python_tool("python3"));
    let output = with_aws(&mut python, server).args(["-c", SCRIPT]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// P1: the same workers, in Rust and in Python, with files below a prefix of a bucket.
#[test]
fn files_may_be_in_s3() {
    // This Python has boto3.
    let python = python_tool("python3").parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: OsString =
        std::env::join_paths(std::iter::once(python).chain(std::env::split_paths(&path))).unwrap();
    for workers in ["rust", "python"] {
        let server = Ministack::start();
        script(&server, &[]);
        let mut example = Command::new(env!("CARGO_BIN_EXE_adobe-pdf"));
        let arguments = ["--pdfs", "2", "--minute", "3s", "--files", "s3://pdfs/2025", "--workers", workers];
        let output = with_aws(&mut example, &server).args(arguments).env("PATH", &path).output().unwrap();
        let report = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
        assert!(report.contains("PDFs     2: 2 finished"), "{workers}: {report}");
        assert_eq!(script(&server, &["/result.json"]), "2", "{workers}: {report}");
        // 6 and 4 chunks, and two results.
        assert_eq!(script(&server, &[".json"]), "12", "{workers}: {report}");
    }
}
