//! The table of commands: arguments, authentication and replies.

use std::ops::RangeInclusive;

use super::outbox::Outbox;
use super::reply::Reply;
use super::session::Session;
use super::{hello, info, throttle};
use crate::worker::Worker;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Throttle,
    Ping,
    Echo,
    Hello,
    Auth,
    Select,
    Client,
    Command,
    Info,
    Reset,
    Quit,
    /// Closes the connection: a web page has made a browser send HTTP here.
    Hang,
}

/// One command.
struct Command {
    /// In lower case, as in errors.
    name: &'static str,
    action: Action,
    /// How many arguments it may have, including its name.
    words: RangeInclusive<usize>,
    /// Whether it is allowed before authentication.
    before_auth: bool,
}

const fn command(name: &'static str, action: Action, least: usize, most: usize) -> Command {
    Command { name, action, words: least..=most, before_auth: false }
}

const fn before_auth(name: &'static str, action: Action, least: usize, most: usize) -> Command {
    Command { name, action, words: least..=most, before_auth: true }
}

/// As many arguments as the protocol allows.
const MANY: usize = usize::MAX;

/// All commands, the most frequent first.
static COMMANDS: [Command; 13] = [
    // It has its own error for a wrong number of arguments.
    command("cl.throttle", Action::Throttle, 1, MANY),
    command("ping", Action::Ping, 1, 2),
    command("echo", Action::Echo, 2, 2),
    before_auth("hello", Action::Hello, 1, MANY),
    before_auth("auth", Action::Auth, 2, MANY),
    command("select", Action::Select, 2, 2),
    command("client", Action::Client, 2, MANY),
    command("command", Action::Command, 1, MANY),
    command("info", Action::Info, 1, MANY),
    before_auth("reset", Action::Reset, 1, 1),
    before_auth("quit", Action::Quit, 1, MANY),
    before_auth("post", Action::Hang, 1, MANY),
    before_auth("host:", Action::Hang, 1, MANY),
];

/// Answers a request.
pub(super) fn answer(worker: &Worker, session: &mut Session, arguments: &[&[u8]], outbox: &mut Outbox) {
    let name = arguments.first().copied().unwrap_or_default();
    let out = &mut outbox.written;
    let Some(command) = COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
    else {
        return unknown(arguments, out);
    };
    if !command.before_auth && !session.may_ask() {
        return out.error("NOAUTH Authentication required.");
    }
    if !command.words.contains(&arguments.len()) {
        return wrong_number(command.name, out);
    }
    match (command.action, arguments) {
        (Action::Throttle, _) => throttle::answer(worker, session, arguments, outbox),
        (Action::Ping, [_, message]) | (Action::Echo, [_, message]) => out.bulk(message),
        (Action::Ping | Action::Echo, _) => out.simple("PONG"),
        (Action::Hello, _) => hello::hello(worker, session, arguments, out),
        (Action::Auth, _) => hello::auth(worker, session, arguments, out),
        (Action::Select, _) => select(arguments, out),
        (Action::Client, _) => client(session, arguments, out),
        (Action::Command, _) => commands(session, arguments, out),
        (Action::Info, _) => info::answer(session, arguments, out),
        (Action::Reset, _) => {
            session.reset();
            out.simple("RESET");
        }
        (Action::Quit, _) => {
            session.end();
            out.simple("OK");
        }
        (Action::Hang, _) => session.end(),
    }
}

/// There is one database.
fn select(arguments: &[&[u8]], out: &mut Vec<u8>) {
    let index = arguments.get(1).and_then(|index| std::str::from_utf8(index).ok());
    match index.and_then(|index| index.parse::<i32>().ok()) {
        Some(0) => out.simple("OK"),
        Some(_) => out.error("ERR DB index is out of range"),
        None => out.error("ERR value is not an integer or out of range"),
    }
}

/// Accepts and ignores what client libraries report about themselves.
fn client(session: &Session, arguments: &[&[u8]], out: &mut Vec<u8>) {
    let [_, subcommand, rest @ ..] = arguments else { return wrong_number("client", out) };
    let is = |name: &str| subcommand.eq_ignore_ascii_case(name.as_bytes());
    match rest {
        [] if is("id") => out.integer(session.id()),
        _ if is("id") => wrong_number("client|id", out),
        [name] if is("setname") => match is_name(name) {
            true => out.simple("OK"),
            false => out.error("ERR Client names cannot contain spaces, newlines or special characters."),
        },
        _ if is("setname") => wrong_number("client|setname", out),
        [option, value] if is("setinfo") => set_info(option, value, out),
        _ if is("setinfo") => wrong_number("client|setinfo", out),
        _ => unknown_subcommand("CLIENT", subcommand, out),
    }
}

fn set_info(option: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let known = ["lib-name", "lib-ver"].iter().any(|known| option.eq_ignore_ascii_case(known.as_bytes()));
    match (known, is_name(value)) {
        (false, _) => out.error(format_args!("ERR Unrecognized option '{}'", shortened(option))),
        (true, false) => {
            out.error(format_args!(
                "ERR {} cannot contain spaces, newlines or special characters.",
                shortened(option)
            ));
        }
        (true, true) => out.simple("OK"),
    }
}

/// Whether Redis accepts this as the name of a client.
pub(super) fn is_name(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}

/// redis-cli asks for these docs to show help. There are none for our commands.
fn commands(session: &Session, arguments: &[&[u8]], out: &mut Vec<u8>) {
    match arguments.get(1) {
        None => out.array(0),
        Some(subcommand) if subcommand.eq_ignore_ascii_case(b"docs") => out.map(0, session.protocol()),
        Some(subcommand) => unknown_subcommand("COMMAND", subcommand, out),
    }
}

fn wrong_number(name: &str, out: &mut Vec<u8>) {
    out.error(format_args!("ERR wrong number of arguments for '{name}' command"));
}

fn unknown_subcommand(command: &str, subcommand: &[u8], out: &mut Vec<u8>) {
    out.error(format_args!("ERR unknown subcommand '{}'. Try {command} HELP.", shortened(subcommand)));
}

/// Repeats the beginning of the request, as Redis does.
fn unknown(arguments: &[&[u8]], out: &mut Vec<u8>) {
    let [name, words @ ..] = arguments else { return };
    let mut beginning = String::new();
    for word in words {
        let Some(room) = SHOWN_BYTES_MAX.checked_sub(beginning.len()).filter(|room| *room > 0) else { break };
        let word = &word[..word.len().min(room)];
        beginning.push_str(&format!("'{}' ", String::from_utf8_lossy(word)));
    }
    let name = shortened(name);
    out.error(format_args!("ERR unknown command '{name}', with args beginning with: {beginning}"));
}

/// How much of a caller's arguments an error repeats.
const SHOWN_BYTES_MAX: usize = 128;

fn shortened(word: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&word[..word.len().min(SHOWN_BYTES_MAX)])
}
