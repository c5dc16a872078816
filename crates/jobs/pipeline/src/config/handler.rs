//! `handler = { ... }`: what does the work of a stage.

use std::path::{Path, PathBuf};

use tollway_config::Section;

use super::values;

/// The most jobs that one process may work on at a time.
const SLOTS_MAX: u32 = 1_000;

/// The key that means something only beside `http`.
const PROXY: &str = "proxy";

/// Keys that mean something only beside `command`.
const COMMAND_KEYS: [&str; 5] = ["env", "memory_max", "slots", "begin", "each"];

/// What does the work of a stage. A Rust handler is not in the config: the program brings it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerConfig {
    /// A process that speaks JSON lines.
    Command(CommandConfig),
    /// A URL that jobs are posted to.
    Http(HttpConfig),
}

/// A URL that jobs are posted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// The URL.
    pub url: String,
    /// Whether the proxy that `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` name is used. Not by default: most handlers are on this
    /// machine, where no proxy reaches them, and jobs should not pass through a program that was set up for others.
    pub proxy: bool,
}

impl HttpConfig {
    /// This URL, without a proxy.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), proxy: false }
    }
}

/// A process that does the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandConfig {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it runs: the config file's folder.
    pub folder: PathBuf,
    /// Environment variables that it gets, beside a few that every program needs. Their values are kept out of logs and
    /// evidence.
    pub env: Vec<String>,
    /// The most memory of the process, in bytes.
    pub memory_max: Option<u64>,
    /// How many jobs it works on at a time.
    pub slots: u32,
    /// Whether it says `begin` itself, just before it calls the vendor.
    pub begin: bool,
    /// One process for each job, whose exit code counts.
    pub each: bool,
}

impl CommandConfig {
    /// This command, with one job at a time.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            folder: PathBuf::from("."),
            env: Vec::new(),
            memory_max: None,
            slots: 1,
            begin: false,
            each: false,
        }
    }
}

impl HandlerConfig {
    pub(super) fn in_folder(&mut self, folder: &Path) {
        if let Self::Command(command) = self {
            command.folder = folder.join(&command.folder);
        }
    }
}

pub(super) fn read(mut section: Section<'_>) -> Option<HandlerConfig> {
    let command = values::strings(&mut section, "command", "[\"python3\", \"worker.py\"]");
    let http = section.string("http", "http://127.0.0.1:9000/job");
    let handler = match (section.has("command"), section.has("http")) {
        // A command of another type is reported already; its other keys are read, too.
        (true, false) => match command {
            Some(command) => read_command(&mut section, &command),
            None => read_command(&mut section, &[toml::Spanned::new(0..0, "unreadable")]),
        },
        (false, true) => http.and_then(|url| read_http(&mut section, url.get_ref())),
        (both, _) => {
            let found = if both { "both" } else { "neither" };
            for key in COMMAND_KEYS.into_iter().chain([PROXY]) {
                section.value(key);
            }
            // A misspelt key is not missing.
            if both || !section.has_unknown() {
                let message = format!("a handler has `command` or `http`, and this one has {found}");
                let advice = "write one like `handler = { command = [\"python3\", \"worker.py\"] }`";
                section.problem("http", message, advice);
            }
            None
        }
    };
    section.finish();
    handler
}

fn read_command(section: &mut Section<'_>, command: &[toml::Spanned<&str>]) -> Option<HandlerConfig> {
    let base = CommandConfig::new(command.iter().map(|word| *word.get_ref()));
    if base.command.first().is_none_or(String::is_empty) {
        section.problem(
            "command",
            "the command is empty",
            "write it like `command = [\"python3\", \"worker.py\"]`",
        );
    }
    if section.value(PROXY).is_some() {
        section.problem(PROXY, "`proxy` belongs to a handler with `http`", "remove it");
    }
    let env = values::strings(section, "env", "[\"ADOBE_CLIENT_SECRET\"]").unwrap_or_default();
    for name in env.iter().filter(|name| name.get_ref().is_empty() || name.get_ref().contains(['=', '\0'])) {
        let message = "`env` lists names of variables, without values";
        section.report().problem(name.span(), message, "write it like `env = [\"ADOBE_CLIENT_SECRET\"]`");
    }
    let memory_max = values::bytes(section, "memory_max", "512MiB");
    let slots = values::whole(section, "slots", 1..=SLOTS_MAX, "1").unwrap_or(base.slots);
    let begin = section.bool("begin").unwrap_or(base.begin);
    let each = section.bool("each").unwrap_or(base.each);
    if each && (slots > 1 || begin) {
        let key = if begin { "begin" } else { "slots" };
        section.problem(
            key,
            format!("with `each`, a process gets one job, so `{key}` has no effect"),
            "remove it",
        );
    }
    let env = env.iter().map(|name| (*name.get_ref()).to_owned()).collect();
    Some(HandlerConfig::Command(CommandConfig { env, memory_max, slots, begin, each, ..base }))
}

fn read_http(section: &mut Section<'_>, url: &str) -> Option<HandlerConfig> {
    for key in COMMAND_KEYS {
        if section.value(key).is_some() {
            section.problem(key, format!("`{key}` belongs to a handler with `command`"), "remove it");
        }
    }
    let proxy = section.bool(PROXY).unwrap_or(false);
    if !url.starts_with("http://") && !url.starts_with("https://") {
        section.problem("http", "the URL does not begin with http:// or https://", "");
        return None;
    }
    Some(HandlerConfig::Http(HttpConfig { proxy, ..HttpConfig::new(url) }))
}
