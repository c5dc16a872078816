//! Exports a Notion workspace within a limit that has to be found: `cargo run -p notion-sync`
//!
//! `export` is the program that you would write, `workspace` the Notion it reads, `three_refusals` a hard case.

mod export;
mod three_refusals;
mod workspace;

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;

use tollway::{Config, Limiter, Span};
use tollway_client::ApiClient;
use tollway_vendor::{Quota, Shape, Terms};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use export::Export;
use workspace::Workspace;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// Pages in each database, unless `--pages` says otherwise.
const PAGES: usize = 8;

/// The vendor allows this much at first, and half of it after a while: other integrations of the workspace wake up.
const CALLS_A_SECOND: u64 = 3;
const BUSY_AFTER: Span = Span::from_secs(5);

struct Arguments {
    folder: PathBuf,
    pages: usize,
    log_level: Level,
}

impl Arguments {
    fn read() -> Result<Self, BoxError> {
        let folder = std::env::temp_dir().join("notion-sync");
        let mut read = Self { folder, pages: PAGES, log_level: Level::WARN };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--pages" => read.pages = arguments.next().ok_or("--pages needs a number")?.parse()?,
                "--verbose" => read.log_level = Level::DEBUG,
                option if option.starts_with('-') => {
                    return Err("usage: notion-sync [FOLDER] [--pages N] [--verbose]".into());
                }
                folder => read.folder = folder.into(),
            }
        }
        Ok(read)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let arguments = Arguments::read()?;
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false).without_time();
    let ours = Targets::new().with_target("tollway_client", arguments.log_level);
    tracing_subscriber::registry().with(lines).with(ours).init();

    let workspace = Workspace::start(terms(), arguments.pages).await?;
    let notion = notion_at(workspace.url())?;
    say(format_args!("exporting the workspace at {}", workspace.url()))?;
    let export = Export::run(&notion, &arguments.folder).await?;
    report(&export, &workspace, &notion, &arguments).await?;
    three_refusals::show().await
}

/// The client. Everything that is not written here comes from the profile: the documented limit, the five numbers of the
/// rate, the statuses that mean "call later", the way Notion words a refusal.
///
/// With a `tollway.toml` that has a section `[apis.notion]`, all of this is `ApiClient::for_api("notion")`.
pub(crate) fn notion_at(url: &str) -> Result<ApiClient, BoxError> {
    let config = format!("[apis.notion]\nbase_url = \"{url}/v1\"");
    let limiter = Limiter::builder().config(&Config::parse(&config)?)?.build();
    Ok(ApiClient::of(&limiter, "notion")?)
}

fn terms() -> Terms {
    let bucket = |rate, burst| Shape::Bucket { rate, burst };
    let busy_at = workspace::machine_clock().now().plus(BUSY_AFTER);
    let calls = Quota::calls(bucket(CALLS_A_SECOND * 1_000_000, CALLS_A_SECOND));
    Terms::new(vec![calls.then(busy_at, bucket(CALLS_A_SECOND * 500_000, 1))])
}

async fn report(
    export: &Export,
    workspace: &Workspace,
    notion: &ApiClient,
    arguments: &Arguments,
) -> Result<(), BoxError> {
    let (accepted, refused) = workspace.counts();
    let snapshot = notion.limiter().snapshot().await?;
    say(format_args!(
        "exported   {} users, {} databases, {} pages, {} blocks",
        export.users, export.databases, export.pages, export.blocks
    ))?;
    say(format_args!("files      {} in {}", export.files, arguments.folder.display()))?;
    say(format_args!("calls      {accepted} answered, {refused} refused by the vendor"))?;
    let seconds = export.took.as_micros() as f64 / 1_000_000.0;
    let average = accepted as f64 / seconds;
    say(format_args!("time       {seconds:.1} s, {average:.1} calls a second"))?;
    let rate = snapshot.current_rate.unwrap_or_default();
    say(format_args!("rate       {rate:.2} a second at the end; it started at 2"))?;
    Ok(())
}

/// A line of the result.
pub(crate) fn say(line: impl std::fmt::Display) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
