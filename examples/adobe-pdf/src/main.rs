//! AutoTag, Extract and post-processing of PDFs within 200 requests a minute: `cargo run -p adobe-pdf`
//!
//! `run` puts the pipeline together, `workers` and `adobe` are what you would write (`worker.py` is the same in Python), `files`
//! are a folder or S3, `chunks` and `pdf` make input, `vendor` stands in for the vendor, `report` sums up.

mod adobe;
mod arguments;
mod chunks;
mod files;
mod messages;
mod pdf;
mod report;
mod run;
mod vendor;
mod vendor_log;
mod workers;

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use tollway::Limiter;
use tollway_pipeline::handler::guard;

use arguments::{Arguments, Command};
use files::Files;
use vendor::{VendorApi, VendorSettings};

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    // This program guards the workers that it starts. Before the runtime, which a guard does not need.
    guard::run_if_asked();
    // HTTPS of the vendor and of S3. Nothing has chosen another provider before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let log = tracing_subscriber::fmt().with_writer(io::stderr).with_target(false).without_time();
    log.with_max_level(tracing_subscriber::filter::LevelFilter::WARN).init();
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<(), BoxError> {
    let arguments = Arguments::read(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match arguments.command {
            Command::Run => run::run(&arguments).await,
            Command::Vendor => serve_vendor(&arguments).await,
            Command::Chunks => print_chunks(&arguments).await,
        }
    })
}

async fn serve_vendor(arguments: &Arguments) -> Result<(), BoxError> {
    let (limit, log) = (arguments.vendor_limit(), Path::new("vendor.jsonl"));
    let settings =
        VendorSettings { listen: arguments.listen, limit: &limit, latency: arguments.latency(), log };
    let vendor = VendorApi::start(settings).await?;
    say(format_args!("the vendor allows {limit} at {}; its log is {}", vendor.url(), log.display()))?;
    vendor.serve().await
}

async fn print_chunks(arguments: &Arguments) -> Result<(), BoxError> {
    let files = Files::open(arguments.files.as_deref().unwrap_or("files"))?;
    let now = Limiter::builder().build().clock().now();
    for message in chunks::make(&files, arguments.pdfs, now).await?.iter().flatten() {
        say(serde_json::to_string(message)?)?;
    }
    Ok(())
}

/// A line of the result.
pub(crate) fn say(line: impl std::fmt::Display) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
