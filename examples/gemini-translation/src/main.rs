//! Eight processes translate texts within the limits of one Gemini account: `cargo run -p gemini-translation`
//!
//! `worker` is the program that you would write, `coordinator` starts it eight times and hands out texts, `report` sums up.

mod coordinator;
mod report;
mod worker;

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

use tollway::Span;
use tollway_vendor::server::{VendorServer, VendorSettings};

use coordinator::Coordinator;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// Requests and tokens of a minute, requests of a day: those of Gemini's free tier.
pub(crate) const REQUESTS_A_MINUTE: u64 = 5;
pub(crate) const TOKENS_A_MINUTE: u64 = 250_000;
pub(crate) const REQUESTS_A_DAY: u64 = 25;

/// A day of the example has so many of its minutes.
const MINUTES_OF_A_DAY: u64 = 10;

const USAGE: &str = "usage: gemini-translation [STORE] [--texts N] [--minute SECONDS]\n\
    STORE is the URL of a store that processes share; by default a file in a folder of its own";

pub(crate) struct Arguments {
    /// The URL of the store; a file if there is none.
    store: Option<String>,
    pub(crate) texts: usize,
    /// How long a minute lasts.
    pub(crate) minute: u64,
}

impl Arguments {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, BoxError> {
        let mut read = Self { store: None, texts: 30, minute: 6 };
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().ok_or(USAGE)?.parse::<u64>().map_err(BoxError::from);
            match argument.as_str() {
                "--texts" => read.texts = usize::try_from(number()?)?,
                "--minute" => read.minute = number()?.clamp(1, 60),
                option if option.starts_with('-') => return Err(USAGE.into()),
                store => read.store = Some(store.to_owned()),
            }
        }
        Ok(read)
    }

    pub(crate) fn day(&self) -> u64 {
        self.minute * MINUTES_OF_A_DAY
    }

    /// The limits, in the words of the config and of the vendor alike.
    fn limits(&self) -> [String; 3] {
        let (minute, day) = (self.minute, self.day());
        [
            format!("{REQUESTS_A_MINUTE} requests / {minute}s"),
            format!("{TOKENS_A_MINUTE} tokens / {minute}s"),
            format!("rpd: {REQUESTS_A_DAY} requests / {day}s"),
        ]
    }

    /// The config that all processes read. The rest of the api is in the profile `gemini`.
    fn config(&self, vendor_url: &str, folder: &Path) -> String {
        let file = || format!("file:{}", folder.join("state").display());
        let store = self.store.clone().unwrap_or_else(file);
        let limits = self.limits().map(|limit| format!("    {limit:?},\n")).concat();
        format!(
            "[store]\nurl = {store:?}\n\n[apis.gemini]\nbase_url = \"{vendor_url}/v1beta\"\nlimits = [\n{limits}]\n\
             rate = \"off\"                              # the limits are known\n\
             cost = {{ tokens = \"bytes / 4 + 500\" }}   # a little too much: settled from the answer\n"
        )
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if_eq("worker").is_some() {
        let config = arguments.next().ok_or(USAGE)?;
        return worker::run(Path::new(&config)).await;
    }
    let arguments = Arguments::read(arguments)?;
    let limits = arguments.limits();
    let mut settings = VendorSettings::new(limits.iter().map(|limit| limit.trim_start_matches("rpd: ")))?
        .dialect("gemini")?;
    settings.terms.latency = (Span::from_millis(200), Span::from_millis(400));
    let vendor = VendorServer::start(settings).await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("tollway.toml");
    std::fs::write(&config, arguments.config(&vendor.url(), folder.path()))?;

    say(format_args!(
        "translating {} texts with {} processes; a minute lasts {} s, a day {} s",
        arguments.texts,
        coordinator::WORKERS,
        arguments.minute,
        arguments.day()
    ))?;
    let outcome = Coordinator::start(&config)?.run(arguments.texts).await?;
    report::print(&outcome, &vendor, &arguments)?;
    Ok(())
}

/// A line of the result.
pub(crate) fn say(line: impl std::fmt::Display) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
