//! What a URL says: which table, where DynamoDB is, and how the store behaves.

use std::str::FromStr;
use std::time::Duration;

use tollway_aws::{Access, Connect};
use tollway_core::{StoreUrlParts, nearest};
use tollway_remote::DENIALS_MAX;

use crate::minute::{Layout, table_of_environment};

/// The longest a caller may be made to wait for the store.
const DEADLINE_MAX: Duration = Duration::from_secs(30);

/// A request is answered within this time, or it has failed. Calls on one subject wait for it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

const PARAMETERS: [&str; 6] = ["region", "endpoint", "deadline", "denials", "create", "layout"];

/// Which table, and how the store behaves: `dynamodb://tollway?region=eu-central-1&deadline=500ms`.
///
/// | parameter | meaning | if not given |
/// |---|---|---|
/// | `region` | AWS's region | as every AWS tool finds it (`AWS_REGION`, the profile, the machine) |
/// | `endpoint` | another place than AWS's own: `http://127.0.0.1:8000` | AWS |
/// | `deadline` | within which every caller is answered (`500ms`, `2s`) | `500ms` |
/// | `denials` | how long a denial is repeated from memory, at most `1s`; `0s`: each take reads | `1s` |
/// | `create` | `yes`: the table is made if it is not there | `no` |
/// | `layout` | `minute` or `api-minute`: a table of a system that already runs ([`minute`](crate::minute)); without a name it is that of `$RATE_LIMIT_TABLE`, else the documented one | lines |
///
/// Credentials are found as every AWS tool finds them. For emulators they may be given: `dynamodb://KEY:SECRET@TABLE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamoOptions {
    pub(crate) table: String,
    pub(crate) connect: Connect,
    pub(crate) deadline: Duration,
    pub(crate) denials: Duration,
    pub(crate) create: bool,
    pub(crate) layout: Option<Layout>,
}

impl DynamoOptions {
    /// How long a call may lose races before it fails. A caller waits for the call in flight and then for its own; both find
    /// out that an account is busy before the deadline.
    pub(crate) fn race_time(&self) -> Duration {
        self.deadline * 2 / 5
    }
}

/// A URL that is not one. It never repeats the URL, which may hold a secret.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DynamoUrlError(String);

tollway_core::debug_as_display!(DynamoUrlError);

impl FromStr for DynamoOptions {
    type Err = DynamoUrlError;

    fn from_str(url: &str) -> Result<Self, DynamoUrlError> {
        let parts = StoreUrlParts::read(url).filter(|parts| parts.scheme == "dynamodb");
        let parts = parts.ok_or_else(|| wrong("a DynamoDB URL begins with dynamodb://"))?;
        let access = parts.user_info.map(read_access).transpose()?;
        let table = parts.place;
        let connect = Connect { access, timeout: Some(REQUEST_TIMEOUT), ..Connect::default() };
        let mut options = Self {
            table: String::new(),
            connect,
            deadline: tollway_remote::Options::default().deadline,
            denials: DENIALS_MAX,
            create: false,
            layout: None,
        };
        for (name, value) in parts.parameters() {
            options.set(name, value)?;
        }
        options.table = match options.layout {
            Some(layout) if table.is_empty() => read_table(&table_of_environment(layout))?,
            _ => read_table(table)?,
        };
        if options.layout.is_some() && options.create {
            return Err(wrong(
                "create is not for layouts; make the table with `tollway provision aws --apply`",
            ));
        }
        Ok(options)
    }
}

impl DynamoOptions {
    /// The table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The endpoint, region and credentials of DynamoDB.
    pub fn connect(&self) -> &Connect {
        &self.connect
    }

    /// The layout of a system that already runs, if it is one.
    pub fn layout(&self) -> Option<Layout> {
        self.layout
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), DynamoUrlError> {
        match name {
            "region" => self.connect.region = Some(read_region(value)?),
            "endpoint" => self.connect.endpoint = Some(read_endpoint(value)?),
            "deadline" => {
                self.deadline = read_span(name, value, DEADLINE_MAX)?;
                if self.deadline.is_zero() {
                    return Err(wrong("deadline is above 0"));
                }
            }
            "denials" => self.denials = read_span(name, value, DENIALS_MAX)?,
            "create" => {
                self.create = match value {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(wrong("create is yes or no")),
                }
            }
            "layout" => {
                let unknown = || wrong("layout is minute or api-minute; leave it out for lines");
                self.layout = Some(Layout::named(value).ok_or_else(unknown)?);
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

fn read_table(table: &str) -> Result<String, DynamoUrlError> {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !(3..=255).contains(&table.len()) || !table.chars().all(known) {
        let rule = "the name of a table is 3 to 255 letters, digits, `_`, `-` and `.`: dynamodb://tollway";
        return Err(wrong(rule));
    }
    Ok(table.to_owned())
}

fn read_access(access: &str) -> Result<Access, DynamoUrlError> {
    match access.split_once(':') {
        Some((key, secret)) if !key.is_empty() && !secret.is_empty() => {
            Ok(Access { key: key.to_owned(), secret: secret.to_owned() })
        }
        _ => Err(wrong("before the @ come a key and its secret: dynamodb://KEY:SECRET@TABLE")),
    }
}

fn read_region(region: &str) -> Result<String, DynamoUrlError> {
    let known = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if region.is_empty() || region.len() > 64 || !region.chars().all(known) {
        return Err(wrong("region is written like eu-central-1"));
    }
    Ok(region.to_owned())
}

/// AWS's client parses it; here only its form is looked at.
fn read_endpoint(endpoint: &str) -> Result<String, DynamoUrlError> {
    let host = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"));
    match host {
        Some(host) if !host.is_empty() && host.chars().all(|c| c.is_ascii_graphic()) => {
            Ok(endpoint.to_owned())
        }
        _ => Err(wrong("endpoint is written like http://127.0.0.1:8000")),
    }
}

fn read_span(name: &str, value: &str, most: Duration) -> Result<Duration, DynamoUrlError> {
    // Lengths of time are above zero everywhere else.
    if value == "0s" {
        return Ok(Duration::ZERO);
    }
    let span = tollway_core::read_span(value).map_err(|error| wrong(&format!("{name}: {error}")))?;
    let span = Duration::from(span);
    if span > most {
        return Err(wrong(&format!("{name} is at most {}s", most.as_secs())));
    }
    Ok(span)
}

fn unknown(name: &str) -> DynamoUrlError {
    let advice = match nearest(name, PARAMETERS) {
        Some(known) => format!("did you mean {known:?}?"),
        None => format!("it may be {}", PARAMETERS.join(", ")),
    };
    // What has no `=` may be a value, even a secret one.
    let name: String = name.chars().take_while(char::is_ascii_alphabetic).take(20).collect();
    wrong(&format!("{name:?} is not a parameter of dynamodb://; {advice}"))
}

fn wrong(reason: &str) -> DynamoUrlError {
    DynamoUrlError(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<DynamoOptions, DynamoUrlError> {
        url.parse()
    }

    #[test]
    fn every_parameter_is_read() {
        let options = read(
            "dynamodb://k:s/+e@t.1-x?region=eu-central-1&endpoint=http://[::1]:8000&deadline=2s&denials=200ms&create=yes",
        );
        let options = options.unwrap();
        assert_eq!(options.table, "t.1-x");
        assert_eq!(options.connect.region.as_deref(), Some("eu-central-1"));
        assert_eq!(options.connect.endpoint.as_deref(), Some("http://[::1]:8000"));
        assert_eq!(options.connect.access, Some(Access { key: "k".to_owned(), secret: "s/+e".to_owned() }));
        assert_eq!((options.deadline, options.create), (Duration::from_secs(2), true));
        assert_eq!(options.denials, Duration::from_millis(200));
        let plain = read("dynamodb://tollway").unwrap();
        assert_eq!((plain.connect.access, plain.denials, plain.create), (None, DENIALS_MAX, false));
    }

    /// A4, P10: without a name, the documented tables.
    #[test]
    fn a_layout_has_its_documented_table() {
        let options = read("dynamodb://?layout=minute").unwrap();
        assert_eq!((options.table(), options.layout()), ("adobe-api-rate-limit", Some(Layout::Minute)));
        let options = read("dynamodb://?layout=api-minute&region=eu-west-1").unwrap();
        assert_eq!((options.table(), options.layout()), ("AdobeRateLimiter", Some(Layout::ApiMinute)));
        assert_eq!(read("dynamodb://mine?layout=minute").unwrap().table(), "mine");
    }

    #[test]
    fn wrong_urls_are_refused_and_a_secret_is_never_shown() {
        for (url, hint) in [
            ("redis://me:hunter2@tollway", "dynamodb://"),
            ("dynamodb://", "3 to 255"),
            ("dynamodb://me:hunter2@a/b", "3 to 255"),
            ("dynamodb://me@tollway", "KEY:SECRET"),
            ("dynamodb://tollway?regoin=eu", "did you mean \"region\""),
            ("dynamodb://tollway?colour=hunter2", "it may be region"),
            ("dynamodb://tollway?region=eu central", "eu-central-1"),
            ("dynamodb://tollway?endpoint=127.0.0.1", "http://"),
            ("dynamodb://tollway?deadline=0s", "above 0"),
            ("dynamodb://tollway?deadline=2h", "at most 30s"),
            ("dynamodb://tollway?denials=2s", "at most 1s"),
            ("dynamodb://tollway?create=maybe", "yes or no"),
            ("dynamodb://tollway?layout=hour", "minute or api-minute"),
            ("dynamodb://tollway?layout=minute&create=yes", "tollway provision aws --apply"),
        ] {
            let error = read(url).unwrap_err().to_string();
            assert!(error.contains(hint) && !error.contains("hunter2"), "{url}: {error}");
        }
        let options = read("dynamodb://me:hunter2@tollway").unwrap();
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
