//! `tollway top`: the dashboard's first screen in a terminal.
//!
//! `place` finds what is looked at, `remote` reads the stream of a server, `local` is a dashboard of this process over the
//! config's store. `tollway-top` draws.

mod local;
mod place;
mod remote;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use terminal_size::Width;
use tokio::sync::mpsc;
use tollway::Clock;
use tollway_memory::WallClock;
use tollway_top::{Palette, Screen, Update, frame_text};

use crate::cli::Color;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use place::{Address, Place};

/// How long `--once` and `--json` wait for the first figures.
const FIRST_MAX: Duration = Duration::from_secs(10);

/// How long they wait for a meter that the store has not told yet, after each event.
const COMPLETE_MAX: Duration = Duration::from_secs(2);

/// The width of a frame that goes into a file.
const WIDTH: usize = 80;

/// Watch limits fill and reset, in the terminal
///
/// Shows the first screen of the dashboard: how full each limit is and when it resets, who waits, what was denied, the apis
/// that are called, the stages of pipelines, and alarms. Figures are a second old at most; older ones are marked.
///
/// Without --server it looks for a running process: at the config's `admin`, else at ports 9090 to 9099 of this machine. If
/// none answers, it reads the config's store itself, where it sees usage but neither who waits nor what was denied.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway top                                        what runs on this machine, else the store
  tollway top --server http://127.0.0.1:9090
  TOLLWAY_TOKEN=... tollway top --server https://tollway.internal.example:9443
  tollway top --once                                 one frame with all limits, for a ticket
  tollway top --json | jq -r .sentence.text

Keys: q quits, arrows scroll, / shows only names that contain what you type, ? lists all keys.")]
pub(crate) struct Arguments {
    /// The administration address of a running process: http://HOST:PORT, https://HOST:PORT or unix:PATH
    #[arg(long, value_name = "URL")]
    server: Option<Address>,
    /// The file with a token that may read [default: $TOLLWAY_TOKEN]
    #[arg(long, value_name = "FILE", requires = "server")]
    token_file: Option<PathBuf>,
    /// Print one frame with all limits, and end
    #[arg(long)]
    once: bool,
}

impl Arguments {
    /// Whether it prints one frame.
    pub(crate) fn is_frame(&self) -> bool {
        self.once
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Failure::new(Exit::FAILED, format!("cannot start the async runtime: {error}")))?;
    let ended = runtime.block_on(show(arguments, context));
    // A server that does not answer is not waited for.
    runtime.shutdown_background();
    ended
}

async fn show(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let output = context.output();
    let is_frame = arguments.once || output.is_json();
    if !is_frame && !std::io::stdout().is_terminal() {
        return Err(
            Failure::usage("standard output is no terminal").advise("print one frame: tollway top --once")
        );
    }
    let place = Place::find(arguments, context).await?;
    let mut updates = place.follow();
    if is_frame {
        let screen = first(&mut updates, &place).await?;
        match screen.snapshot() {
            Some(snapshot) if output.is_json() => output.json(snapshot)?,
            _ => output.bytes(frame_text(&screen, width(), WallClock.now()).as_bytes())?,
        }
        return Ok(Exit::DONE);
    }
    let clock: Arc<dyn Clock> = Arc::new(WallClock);
    let ended = tollway_top::run(updates, palette(context), clock).await;
    ended.map_err(|error| Failure::new(Exit::FAILED, format!("the terminal cannot be used: {error}")))?;
    Ok(Exit::DONE)
}

/// The screen with the first figures: as soon as the store has told every meter, or after a moment without some.
async fn first(updates: &mut mpsc::Receiver<Update>, place: &Place) -> Result<Screen, Failure> {
    let (mut screen, mut wait) = (Screen::default(), FIRST_MAX);
    loop {
        match tokio::time::timeout(wait, updates.recv()).await {
            Ok(Some(Update::Event(event))) => screen.take_in(event, WallClock.now()),
            _ if screen.snapshot().is_some() => return Ok(screen),
            Ok(Some(Update::Away(why))) => return Err(place.unreachable(&why)),
            Ok(None) | Err(_) => return Err(place.unreachable("no figures came")),
        }
        let rows = screen.snapshot().map_or(&[][..], |snapshot| &snapshot.rows);
        if rows.iter().all(|row| row.used.is_some()) {
            return Ok(screen);
        }
        wait = COMPLETE_MAX;
    }
}

fn palette(context: &Context) -> Palette {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match context.color() {
        Color::Always => Palette::COLOURED,
        Color::Auto if !no_color => Palette::COLOURED,
        Color::Auto | Color::Never => Palette::PLAIN,
    }
}

fn width() -> usize {
    let terminal = terminal_size::terminal_size_of(std::io::stdout());
    terminal.map_or(WIDTH, |(Width(width), _)| width.into())
}
