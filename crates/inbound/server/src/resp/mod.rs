//! The Redis protocol: `CL.THROTTLE` for programs that have only a Redis client.
//!
//! All requests that have arrived are answered in one write, and go to a remote store in one batch. `request` and `inline`
//! parse, `command` is the table of commands, `throttle` is `CL.THROTTLE`, `chosen` caches the limits that callers choose,
//! `hello`, `info` and `session` handle the connection's state, `reply` and `outbox` write.

mod chosen;
mod command;
pub(crate) mod fuzz;
mod hello;
mod info;
mod inline;
mod outbox;
mod reply;
mod request;
mod session;
mod throttle;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::yield_now;

use crate::bounds::RESP_READ_BYTES;
use crate::connection::Caller;
use crate::worker::{Worker, yield_before_park};
use chosen::ChosenLimits;
use outbox::Outbox;
use reply::Reply;
use request::{Parsed, parse};
use session::Session;

/// What the connections of a worker share. The current connection borrows the read and write buffers, so that thousands of
/// idle connections hold none.
pub(crate) struct Resp {
    chosen: ChosenLimits,
    arrived: RefCell<Box<[u8]>>,
    written: Cell<Vec<u8>>,
}

impl Resp {
    pub(crate) fn new() -> Self {
        let arrived = vec![0; RESP_READ_BYTES].into_boxed_slice();
        Self { chosen: ChosenLimits::default(), arrived: RefCell::new(arrived), written: Cell::default() }
    }
}

/// Serves one connection until the client closes it, a deadline cuts it off, or the server stops.
pub(crate) async fn serve(worker: &Worker, mut stream: impl AsyncRead + AsyncWrite + Unpin, caller: Caller) {
    let mut conversation =
        Conversation { worker, session: Session::of(&caller), kept: Vec::new(), behind: false };
    if let Err(error) = conversation.hold(&mut stream, &caller).await {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// One connection and its requests.
struct Conversation<'w> {
    worker: &'w Worker,
    session: Session,
    /// Bytes that are not answered yet: an incomplete request, or requests beyond a full outbox.
    kept: Vec<u8>,
    /// Whether `kept` may hold complete requests.
    behind: bool,
}

impl Conversation<'_> {
    async fn hold(
        &mut self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        caller: &Caller,
    ) -> io::Result<()> {
        loop {
            let mut outbox = Outbox::default();
            let heard = poll_fn(|context| self.poll_hear(stream, &mut outbox, context)).await?;
            if !outbox.is_empty() {
                let _busy = caller.deadlines.begin(false);
                outbox.fill_gaps().await;
                if self.session.take_guess() {
                    let delay = self.worker.state.timeouts.wrong_token;
                    // Boxed, like everything that is rare.
                    Box::pin(self.worker.state.wrong_tokens.delay(delay)).await;
                }
                stream.write_all(&outbox.written).await?;
                // TLS may hold encrypted bytes back.
                stream.flush().await?;
                yield_before_park::answered(false);
            }
            if let Some(memory) = outbox.into_memory() {
                self.worker.resp.written.set(memory);
            }
            if heard == Heard::All || self.session.has_ended() {
                return stream.shutdown().await;
            }
            if self.behind || heard == Heard::Much {
                // Lets other connections run.
                yield_now().await;
            }
        }
    }

    /// Waits for bytes and answers the complete requests in them.
    fn poll_hear(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        outbox: &mut Outbox,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Heard>> {
        if !self.behind {
            if self.worker.is_stopping() {
                return Poll::Ready(Ok(Heard::All));
            }
            let mut buffer = self.worker.resp.arrived.borrow_mut();
            let mut buffer = ReadBuf::new(&mut buffer);
            ready!(Pin::new(stream).poll_read(context, &mut buffer))?;
            match buffer.filled() {
                [] => return Poll::Ready(Ok(Heard::All)),
                arrived if self.kept.is_empty() => {
                    let answered = self.answer(arrived, outbox);
                    self.kept.extend_from_slice(arrived.get(answered..).unwrap_or_default());
                    outbox.send(context);
                    let much = arrived.len() == RESP_READ_BYTES;
                    return Poll::Ready(Ok(if much { Heard::Much } else { Heard::Some }));
                }
                arrived => self.kept.extend_from_slice(arrived),
            }
        }
        let mut kept = std::mem::take(&mut self.kept);
        let answered = self.answer(&kept, outbox);
        kept.drain(..answered);
        self.kept = if kept.is_empty() { Vec::new() } else { kept };
        outbox.send(context);
        Poll::Ready(Ok(Heard::Much))
    }

    /// Answers the complete requests in `arrived`, and returns their length in bytes.
    fn answer(&mut self, arrived: &[u8], outbox: &mut Outbox) -> usize {
        outbox.written = self.worker.resp.written.take();
        let mut answered = 0;
        let mut unquoted = Vec::new();
        self.behind = false;
        self.session.follow(self.worker);
        while !self.session.has_ended() {
            if outbox.is_full() {
                self.behind = true;
                break;
            }
            let rest = arrived.get(answered..).unwrap_or_default();
            let taken = match parse(rest, &mut unquoted, self.session.may_ask()) {
                Ok(Parsed::Incomplete) => break,
                Ok(Parsed::Nothing(taken)) => taken,
                Ok(Parsed::Request(arguments, taken)) => {
                    command::answer(self.worker, &mut self.session, &arguments, outbox);
                    if self.session.has_guessed() {
                        // Each guess is delayed, however many arrive together.
                        self.behind = true;
                        return answered.saturating_add(taken);
                    }
                    taken
                }
                Err(error) => {
                    outbox.written.error(format_args!("ERR Protocol error: {error}"));
                    self.session.end();
                    break;
                }
            };
            answered = answered.saturating_add(taken);
        }
        answered
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// Less than a full buffer.
    Some,
    /// A full buffer or kept bytes: there may be more.
    Much,
    /// The end of the stream, or the server stops.
    All,
}
