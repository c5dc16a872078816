//! `HELLO` and `AUTH`: protocol version and authentication.

use super::command::is_name;
use super::reply::{Protocol, Reply};
use super::session::Session;
use crate::worker::Worker;

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

const NO_PASSWORD_SET: &str = "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                               your configuration is correct?";

const HELLO_BEFORE_AUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
                                 <proto> AUTH <user> <pass> option can be used to authenticate the client and select the \
                                 RESP protocol version at the same time";

/// `AUTH [user] token`.
pub(super) fn auth(worker: &Worker, session: &mut Session, arguments: &[&[u8]], out: &mut Vec<u8>) {
    let shown = match arguments {
        [_, _] if session.is_open() => return out.error(NO_PASSWORD_SET),
        [_, token] => session.show_token(worker, b"default", token),
        [_, user, token] => session.show_token(worker, user, token),
        _ => return out.error("ERR syntax error"),
    };
    match shown {
        true => out.simple("OK"),
        false => out.error(WRONG_PASSWORD),
    }
}

/// `HELLO [protocol [AUTH user token] [SETNAME name]]`.
pub(super) fn hello(worker: &Worker, session: &mut Session, arguments: &[&[u8]], out: &mut Vec<u8>) {
    let wanted = match arguments.get(1) {
        None => None,
        Some(text) => match protocol(text) {
            Ok(protocol) => Some(protocol),
            Err(problem) => return out.error(problem),
        },
    };
    let options = match Options::read(arguments.get(2..).unwrap_or_default()) {
        Ok(options) => options,
        Err(problem) => return out.error(problem),
    };
    if let Some((user, token)) = options.auth
        && !session.show_token(worker, user, token)
    {
        return out.error(WRONG_PASSWORD);
    }
    if !session.may_ask() {
        return out.error(HELLO_BEFORE_AUTH);
    }
    session.speak(wanted);
    introduce(session, out);
}

/// The options of `HELLO` besides the protocol.
#[derive(Default)]
struct Options<'a> {
    auth: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> Options<'a> {
    fn read(mut rest: &[&'a [u8]]) -> Result<Self, String> {
        let mut options = Self::default();
        loop {
            rest = match rest {
                [] => return Ok(options),
                [word, user, token, rest @ ..] if word.eq_ignore_ascii_case(b"auth") => {
                    options.auth = Some((user, token));
                    rest
                }
                [word, name, rest @ ..] if word.eq_ignore_ascii_case(b"setname") => match is_name(name) {
                    true => rest,
                    false => {
                        let problem =
                            "ERR Client names cannot contain spaces, newlines or special characters.";
                        return Err(problem.to_owned());
                    }
                },
                [word, ..] => {
                    let word = &word[..word.len().min(64)];
                    return Err(format!(
                        "ERR Syntax error in HELLO option '{}'",
                        String::from_utf8_lossy(word)
                    ));
                }
            }
        }
    }
}

fn protocol(text: &[u8]) -> Result<Protocol, &'static str> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    match number {
        Some(2) => Ok(Protocol::Resp2),
        Some(3) => Ok(Protocol::Resp3),
        Some(_) => Err("NOPROTO unsupported protocol version"),
        None => Err("ERR Protocol version is not an integer or out of range"),
    }
}

/// Describes the server, with the fields that Redis has.
fn introduce(session: &Session, out: &mut Vec<u8>) {
    let protocol = session.protocol();
    out.map(7, protocol);
    for (name, value) in [("server", "tollway"), ("version", env!("CARGO_PKG_VERSION"))] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"proto");
    out.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    out.bulk(b"id");
    out.integer(session.id());
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"modules");
    out.array(0);
}
