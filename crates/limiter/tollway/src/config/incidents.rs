//! `[incidents]`: the file that keeps incidents, and the webhook and the topic of AWS SNS that they are sent to.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{env, fmt};

use tollway_config::{DeValue, Section, type_words};

use super::StoreUrl;
use super::topic::{TOPIC_ADVICE, TOPIC_EXAMPLE, TopicConfig, TopicError};

const SECRET_ADVICE: &str = "write { env = \"TOLLWAY_WEBHOOK_SECRET\" }";

/// Where incidents go, besides the memory of their process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncidentsConfig {
    file: FileSetting,
    /// Whether the config was read from a file, and not from a text.
    is_of_file: bool,
    webhook: Option<WebhookConfig>,
    topic: Option<TopicConfig>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum FileSetting {
    #[default]
    Unset,
    Off,
    At(PathBuf),
}

/// The webhook that incidents are sent to.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    url: String,
    /// The environment variable that holds the secret.
    secret: Option<String>,
}

/// The secret of the webhook cannot be used.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("`secret` of [incidents] needs the environment variable {variable}, which {problem}")]
pub struct WebhookSecretError {
    variable: String,
    problem: &'static str,
}

tollway_core::debug_as_display!(WebhookSecretError);

impl IncidentsConfig {
    /// The file that keeps incidents beside this store, unless the config names one. None if it says `"off"`, if the config
    /// was not read from a file, and if there is no state folder.
    ///
    /// ```
    /// use tollway::Config;
    ///
    /// let config = Config::parse("incidents.file = '/var/lib/tollway/incidents'")?;
    /// assert_eq!(config.incidents().file(None), Some("/var/lib/tollway/incidents".into()));
    /// assert_eq!(Config::parse("")?.incidents().file(None), None);
    /// # Ok::<(), tollway::ConfigError>(())
    /// ```
    pub fn file(&self, store: Option<&StoreUrl>) -> Option<PathBuf> {
        match &self.file {
            FileSetting::Off => None,
            FileSetting::At(path) => Some(path.clone()),
            FileSetting::Unset => self.is_of_file.then(|| beside(store)).flatten(),
        }
    }

    /// The same for a command, which looks there also without a config file. None if it says `"off"`, and if there is no
    /// state folder.
    pub fn file_to_read(&self, store: Option<&StoreUrl>) -> Option<PathBuf> {
        Self { is_of_file: true, ..self.clone() }.file(store)
    }

    /// Whether the config says `file = "off"`.
    pub fn is_off(&self) -> bool {
        self.file == FileSetting::Off
    }

    /// The webhook, if it names one.
    pub fn webhook(&self) -> Option<&WebhookConfig> {
        self.webhook.as_ref()
    }

    /// The topic of AWS SNS, if it names one.
    pub fn topic(&self) -> Option<&TopicConfig> {
        self.topic.as_ref()
    }

    /// Whether both say the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.file, &self.webhook, &self.topic) == (&other.file, &other.webhook, &other.topic)
    }

    pub(super) fn in_folder(&mut self, folder: &Path) {
        self.is_of_file = true;
        if let FileSetting::At(path) = &mut self.file
            && folder != Path::new(".")
        {
            *path = folder.join(&*path);
        }
    }
}

impl WebhookConfig {
    /// A webhook; its secret is in this environment variable.
    pub fn new(url: impl Into<String>, secret: Option<String>) -> Self {
        Self { url: url.into(), secret }
    }

    /// The complete URL, for sending. It may hold a secret; its host is enough for messages.
    pub fn expose_url(&self) -> &str {
        &self.url
    }

    /// Its scheme and host.
    pub fn host(&self) -> &str {
        let host = self.url.find("://").map_or(0, |at| at.saturating_add(3));
        let rest = self.url.get(host..).unwrap_or_default();
        let end = rest.find(['/', '?', '#']).map_or(self.url.len(), |end| host.saturating_add(end));
        self.url.get(..end).unwrap_or_default()
    }

    /// The secret that signs events; none if the config names none.
    pub fn secret(&self) -> Result<Option<String>, WebhookSecretError> {
        let Some(variable) = &self.secret else { return Ok(None) };
        let unusable = |problem| WebhookSecretError { variable: variable.clone(), problem };
        let secret = env::var(variable).map_err(|error| match error {
            env::VarError::NotPresent => unusable("is not set"),
            env::VarError::NotUnicode(_) => unusable("is not UTF-8"),
        })?;
        match secret.trim() {
            "" => Err(unusable("is empty")),
            secret => Ok(Some(secret.to_owned())),
        }
    }
}

impl fmt::Debug for WebhookConfig {
    /// Without the path: those of many services hold a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/*** secret ${}", self.host(), self.secret.as_deref().unwrap_or_default())
    }
}

/// The file beside the store's, else beside the one that commands use.
fn beside(store: Option<&StoreUrl>) -> Option<PathBuf> {
    let state = match store {
        Some(StoreUrl::File(path)) => path.clone(),
        _ => state_file()?,
    };
    let mut path = state.into_os_string();
    path.push(".incidents");
    Some(path.into())
}

/// The store of commands that name none: `$XDG_STATE_HOME/tollway/state`, else `~/.local/state/tollway/state`. None if
/// neither variable is an absolute path.
pub fn state_file() -> Option<PathBuf> {
    let folder = |variable: &str| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || folder("HOME").map(|home| home.join(".local/state"));
    Some(folder("XDG_STATE_HOME").or_else(home)?.join("tollway").join("state"))
}

/// The settings, without those that have something wrong with them; that is in the report.
pub(super) fn read(mut section: Section<'_>) -> IncidentsConfig {
    let file = match section.string("file", "incidents.jsonl").map(|file| *file.get_ref()) {
        None => FileSetting::Unset,
        Some("off") => FileSetting::Off,
        Some("") => {
            section.problem("file", "the path is empty", "write a path, or \"off\"");
            FileSetting::Unset
        }
        Some(path) => FileSetting::At(path.into()),
    };
    let url = section.string("webhook", "https://alerts.example/tollway");
    let url = url.filter(|url| match what_is_wrong_with(url.get_ref()) {
        Some(message) => {
            let advice = "write it like \"https://alerts.example/tollway\"";
            section.report().problem(start_of(&url.span()), message, advice);
            false
        }
        None => true,
    });
    let topic = section.string("topic", TOPIC_EXAMPLE);
    let topic = topic.and_then(|arn| {
        let wrong = |error: TopicError| section.problem("topic", error.to_string(), TOPIC_ADVICE);
        TopicConfig::new(arn.get_ref()).map_err(wrong).ok()
    });
    let secret = read_secret(&mut section);
    if secret.is_some() && !section.has("webhook") {
        section.problem("secret", "`secret` signs what a webhook gets, and there is no `webhook`", "add one");
    }
    section.finish();
    let webhook = url.map(|url| WebhookConfig::new(*url.get_ref(), secret));
    IncidentsConfig { file, is_of_file: false, webhook, topic }
}

/// Where a value begins. A problem keeps the word that it points at, which must not be a secret.
fn start_of(span: &Range<usize>) -> Range<usize> {
    span.start..span.start
}

fn read_secret(section: &mut Section<'_>) -> Option<String> {
    let value = section.value("secret")?;
    match value.get_ref() {
        DeValue::Table(table) => {
            let path = format!("{}.secret", section.path());
            let mut table = Section::new(section.report(), path, value.span(), table);
            table.required("env", "\"TOLLWAY_WEBHOOK_SECRET\"");
            let variable = table.string("env", "TOLLWAY_WEBHOOK_SECRET").map(|variable| *variable.get_ref());
            let named = variable.filter(|name| {
                let is_name = !name.is_empty() && !name.contains(['=', '\0']);
                if !is_name {
                    table.problem("env", "that cannot be the name of a variable", "name one like \"SECRET\"");
                }
                is_name
            });
            table.finish();
            named.map(str::to_owned)
        }
        DeValue::String(_) => {
            let message = "a secret does not belong into a config file";
            section.report().problem(start_of(&value.span()), message, SECRET_ADVICE);
            None
        }
        other => {
            let message = format!("`secret` must be a table, not {}", type_words(other));
            section.problem("secret", message, SECRET_ADVICE);
            None
        }
    }
}

/// The messages repeat no part of the URL, which may hold a secret.
fn what_is_wrong_with(url: &str) -> Option<&'static str> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if !["http", "https"].contains(&scheme) {
        return Some("`webhook` must begin with https:// or http://");
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains('@') {
        return Some(
            "`webhook` has a user or a password before its host; events are signed with `secret` instead",
        );
    }
    if host.is_empty() || host.starts_with(':') {
        return Some("`webhook` names no host");
    }
    let strange = |character: char| character.is_whitespace() || character.is_control();
    url.contains(strange).then_some("`webhook` has a space or a control character in it")
}
