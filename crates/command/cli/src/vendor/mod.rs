//! `tollway vendor`: a simulated vendor API with rate limits.
//!
//! `parse` parses the arguments, the library `tollway-vendor` serves, `display` writes what happens.

mod display;
mod parse;

use std::net::SocketAddr;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use tokio::signal::unix::{SignalKind, signal};
use tollway::{Clock, Span};
use tollway_memory::WallClock;
use tollway_vendor::WindowStart;
use tollway_vendor::server::{VendorDialect, VendorServer, VendorSettings};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use display::Display;
use parse::{Change, PerThousand};

/// How often progress is shown.
const TICK: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  A window that starts 17 s after each full minute, and refusals like Notion's:
    tollway vendor --limit \"200 / minute\" --phase 17s --dialect notion --latency 150ms..350ms

  Requests, tokens and a day at once, refused like Gemini's free tier:
    tollway vendor --dialect gemini --limit \"5 / minute\" --limit \"250k tokens / minute\" \\
      --limit \"25 / day in America/Los_Angeles\"

  A limit that falls after ten minutes, while other clients use a fifth of it:
    tollway vendor --limit \"10 / second bucket\" --then \"10m: 4 / second bucket\" --others 20%

  A hard one: bare refusals that count, errors, at most 4 calls at the same time:
    tollway vendor --limit \"100 / minute sliding\" --limit \"4 concurrent\" --dialect bare \\
      --refusals-count --errors 1%

Every path and method answers. POST /v1/chat/completions, /v1/messages and :generateContent answer
like a language model, also streamed. GET /_vendor/counts shows the counts, and is not counted.
Ctrl-C stops it and prints a summary.";

/// Start a simulated vendor API with rate limits
///
/// A real HTTP server that refuses like a vendor does: for demos, for your own tests, and to see how a client behaves
/// before it meets the real one. It needs no config and no store. Latencies and errors follow from the seed, call by call;
/// with --others, errors depend on the time too.
///
/// A LIMIT is written as in the config file. Its unit is `requests` or `tokens`. A request has one token for each four
/// bytes of its body; an answer of a language model has as many as the request, at most what the request allows.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A limit, e.g. "200 / minute", "10 / second bucket", "100 / hour sliding", "4 concurrent"; repeatable
    #[arg(long = "limit", value_name = "LIMIT", default_value = "60 / minute")]
    limits: Vec<String>,
    /// Start windows this long after multiples of their length since 1970
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse::span)]
    phase: Span,
    /// A later limit in place of the first one of its unit, e.g. "10m: 4 / second bucket"; repeatable
    #[arg(long = "then", value_name = "TIME: LIMIT", value_parser = parse::change)]
    changes: Vec<Change>,
    /// How it tells its limits; --list-dialects describes them
    #[arg(long, value_name = "NAME", default_value = "http", hide_possible_values = true, value_parser = dialects())]
    dialect: String,
    /// How long a call takes, e.g. 150ms..350ms; it decides at half of it
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse::latency)]
    latency: (Span, Span),
    /// Share of calls that fail with a 500, e.g. 1%; they count
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = parse::share)]
    errors: PerThousand,
    /// Share of the limit that other clients on the same key use, e.g. 20%
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = parse::share)]
    others: PerThousand,
    /// Count refused calls against the limits, too
    #[arg(long)]
    refusals_count: bool,
    /// Seed of latencies, errors and other clients
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where to listen
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// List the dialects and exit
    #[arg(long)]
    list_dialects: bool,
}

fn dialects() -> PossibleValuesParser {
    PossibleValuesParser::new(VendorDialect::all().map(VendorDialect::name))
}

impl Arguments {
    fn settings(&self) -> Result<VendorSettings, Failure> {
        let limits = self.limits.iter().map(String::as_str);
        let settings = VendorSettings::with_phase(limits, self.phase).map_err(Failure::usage)?;
        let mut settings = settings.dialect(&self.dialect).map_err(Failure::usage)?;
        let start = WindowStart { phase: self.phase, now: WallClock.now() };
        for change in &self.changes {
            let at = start.now.plus(change.after);
            settings.terms.change_limit(at, &change.limit, start).map_err(Failure::usage)?;
        }
        let rate = settings.terms.calls_rate(start.now);
        if rate.is_none() && self.others != PerThousand(0) {
            let advice = "add a limit like --limit \"200 / minute\"";
            return Err(Failure::usage("--others is a share of a limit of requests, and there is none")
                .advise(advice));
        }
        settings.terms.others = self.others.of(rate.unwrap_or(0));
        settings.terms.errors = self.errors.0;
        settings.terms.latency = self.latency;
        settings.terms.refusals_count = self.refusals_count;
        (settings.seed, settings.listen) = (self.seed, self.listen);
        Ok(settings)
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    if arguments.list_dialects {
        display::list_dialects(context.output())?;
        return Ok(Exit::DONE);
    }
    let settings = arguments.settings()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Failure::new(Exit::FAILED, format!("cannot start the async runtime: {error}")))?;
    runtime.block_on(serve(settings, arguments, context))
}

async fn serve(settings: VendorSettings, arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    // Before the URL is printed, so that no signal is missed.
    let mut signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let [Ok(interrupt), Ok(terminate)] = &mut signals else {
        return Err(Failure::new(Exit::FAILED, "cannot handle signals"));
    };
    let vendor = VendorServer::start(settings).await.map_err(|error| {
        Failure::new(Exit::FAILED, format!("cannot listen at {}: {error}", arguments.listen))
            .advise("name another address with --listen; port 0 is any free one")
    })?;
    let mut display = Display::start(context.output(), &vendor.url(), arguments)?;
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    // The first tick comes at once.
    ticks.tick().await;
    loop {
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            _ = ticks.tick() => display.tick(vendor.counts())?,
        }
    }
    display.summary(vendor.stop().await)?;
    Ok(Exit::DONE)
}
