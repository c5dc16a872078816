//! What is on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use tollway::Span;
use tollway::core::read_span;

use crate::BoxError;

const USAGE: &str = "\
usage: adobe-pdf [--pdfs N] [--minute TIME] [--workers python|rust] [--files PLACE] [--folder DIR] [--engine URL]
                 [--vendor-limit N]
       adobe-pdf vendor [--listen ADDRESS] [--minute TIME] [--vendor-limit N]
       adobe-pdf chunks [--pdfs N] [--files PLACE]

PLACE is a folder, or s3://bucket/prefix. DIR is kept, and another run with it goes on where the last one stopped.
URL is where the jobs are: `engine` of the config, in one line.
`vendor` runs the vendor's stand-in alone; `chunks` makes PDFs and prints the messages for AutoTag.";

/// Requests a minute.
pub(crate) const LIMIT: u64 = 200;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// All of it.
    Run,
    Vendor,
    Chunks,
}

#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) command: Command,
    pub(crate) pdfs: usize,
    /// How long a minute lasts.
    pub(crate) minute: Span,
    /// Use the Rust workers, whatever the config says.
    pub(crate) rust: bool,
    pub(crate) files: Option<String>,
    pub(crate) folder: Option<PathBuf>,
    /// Where the jobs are, if it is not what the config says.
    pub(crate) engine: Option<String>,
    /// What the vendor allows a minute, if it is not what the config says.
    pub(crate) vendor_limit: u64,
    pub(crate) listen: SocketAddr,
}

impl Arguments {
    pub(crate) fn read(arguments: impl Iterator<Item = String>) -> Result<Self, BoxError> {
        let mut arguments = arguments.peekable();
        let named = |command| match command {
            "vendor" => Some((Command::Vendor, Span::from_mins(1))),
            "chunks" => Some((Command::Chunks, Span::from_mins(1))),
            _ => None,
        };
        let found = arguments.peek().and_then(|first| named(first.as_str()));
        if found.is_some() {
            arguments.next();
        }
        let (command, minute) = found.unwrap_or((Command::Run, Span::from_secs(5)));
        let listen = SocketAddr::from(([127, 0, 0, 1], if command == Command::Vendor { 8787 } else { 0 }));
        let mut read = Self {
            command,
            pdfs: 250,
            minute,
            rust: false,
            files: None,
            folder: None,
            engine: None,
            vendor_limit: LIMIT,
            listen,
        };
        while let Some(name) = arguments.next() {
            read.set(&name, &arguments.next().ok_or(USAGE)?)?;
        }
        Ok(read)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), BoxError> {
        match name {
            "--pdfs" => self.pdfs = value.parse()?,
            "--minute" => self.minute = read_span(value)?.max(Span::from_secs(1)),
            "--workers" => {
                self.rust = match value {
                    "rust" => true,
                    "python" => false,
                    _ => return Err(USAGE.into()),
                }
            }
            "--files" => self.files = Some(value.to_owned()),
            "--folder" => self.folder = Some(value.into()),
            "--engine" => self.engine = Some(value.to_owned()),
            "--vendor-limit" => self.vendor_limit = value.parse()?,
            "--listen" => self.listen = value.parse()?,
            _ => return Err(USAGE.into()),
        }
        Ok(())
    }

    /// The vendor's limit, in the words of the config.
    pub(crate) fn vendor_limit(&self) -> String {
        format!("{} requests / {}", self.vendor_limit, self.minute)
    }

    /// How long an operation takes: ten seconds of a whole minute.
    pub(crate) fn latency(&self) -> Span {
        Span::from_micros(self.minute.as_micros() / 6)
    }
}
