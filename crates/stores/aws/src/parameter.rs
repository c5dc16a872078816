//! Parameters of AWS Systems Manager: read, one or several below one name.

use std::collections::HashMap;
use std::env;
use std::fmt;
use std::sync::Arc;

use aws_sdk_ssm::Client;
use aws_sdk_ssm::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ssm::operation::get_parameter::GetParameterError;
use tokio::sync::OnceCell;
use tollway_core::{Fingerprint, nearest};

use crate::advice::{
    ADVICE_WORKER_RIGHTS, advice_on_credentials, advice_without_credentials, lacks_right, place_of,
};
use crate::causes::{lacks_credentials, with_causes};
use crate::{Access, Connect, check_region, connect};

/// The environment variable that names the parameter where an address does not.
pub const PARAMETER_VARIABLE: &str = "ADOBE_API_RPM_PARAM";

/// The default parameter.
pub const PARAMETER_DEFAULT: &str = "/pdf-processing/adobe-api-rpm";

/// The longest name of a parameter, with its path, that AWS has.
const NAME_BYTES_MAX: usize = 1_011;

/// Parameters are listed ten at a time; a name with more below it is probably a mistake.
const PAGES_MAX: usize = 10;

/// The keys of an address's query.
const KEYS: [&str; 3] = ["region", "endpoint", "access"];

/// Besides the access key, these decide which AWS account is asked.
const ACCOUNT_VARIABLES: [&str; 4] =
    ["AWS_ROLE_ARN", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"];

/// Where a parameter is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterAddress {
    /// Its name, with its path.
    pub name: String,
    /// The way there.
    pub connect: Connect,
}

/// Why a text is no address of a parameter.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParameterAddressError(String);

tollway_core::debug_as_display!(ParameterAddressError);

impl ParameterAddress {
    /// Reads `NAME?region=...&endpoint=...&access=KEY:SECRET`; the last is for emulators, where it is no secret. Without a
    /// name it is what `$ADOBE_API_RPM_PARAM` names, else `/pdf-processing/adobe-api-rpm`.
    pub fn parse(text: &str) -> Result<Self, ParameterAddressError> {
        let (name, query) = text.split_once('?').unwrap_or((text, ""));
        let name = if name.is_empty() { name_of_environment() } else { name.to_owned() };
        check_name(&name)?;
        let mut connect = Connect::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                _ if value.is_empty() => return Err(wrong(format!("{key:?} has no value"))),
                "region" => connect.region = Some(value.to_owned()),
                "endpoint" => connect.endpoint = Some(value.to_owned()),
                "access" => connect.access = Some(read_access(value)?),
                _ => return Err(wrong(unknown_key(key))),
            }
        }
        Ok(Self { name, connect })
    }

    /// What tells the parameter from others of its name, on one line: region, endpoint, and what is known of the AWS
    /// account without asking AWS: the id of the access key (as a hash), role, profile and credential files, as the address
    /// or the environment gives them. A credential file that changes to another account is not noticed.
    pub fn identity(&self) -> String {
        self.identity_in(|name| env::var(name).ok())
    }

    fn identity_in(&self, variable: impl Fn(&str) -> Option<String>) -> String {
        let first = |given: Option<&String>, variables: &[&str]| {
            let found = || variables.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
            given.cloned().or_else(found).unwrap_or_default()
        };
        let region = first(self.connect.region.as_ref(), &["AWS_REGION", "AWS_DEFAULT_REGION"]);
        let endpoint = first(self.connect.endpoint.as_ref(), &["AWS_ENDPOINT_URL_SSM", "AWS_ENDPOINT_URL"]);
        let key = first(self.connect.access.as_ref().map(|access| &access.key), &["AWS_ACCESS_KEY_ID"]);
        let account = ACCOUNT_VARIABLES.map(|name| first(None, &[name]));
        let account = account.iter().fold(Fingerprint::new().text(&key), |hash, part| hash.text(part));
        format!("{self} {region:?} {endpoint:?} {:016x}", account.finish())
    }

    /// The name of the parameter of one of several limits.
    pub fn below(&self, limit: &str) -> String {
        format!("{}/{limit}", self.name.trim_end_matches('/'))
    }
}

fn name_of_environment() -> String {
    env::var(PARAMETER_VARIABLE)
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| PARAMETER_DEFAULT.to_owned())
}

fn check_name(name: &str) -> Result<(), ParameterAddressError> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.-/:".contains(letter);
    if name.len() > NAME_BYTES_MAX {
        return Err(wrong(format!("a parameter's name has at most {NAME_BYTES_MAX} letters")));
    }
    match name.chars().find(|letter| !allowed(*letter)) {
        Some(letter) => Err(wrong(format!(
            "{letter:?} cannot be part of a parameter's name; it has letters, digits, `_`, `.`, `-` and `/`"
        ))),
        None => Ok(()),
    }
}

fn read_access(text: &str) -> Result<Access, ParameterAddressError> {
    let (key, secret) =
        text.split_once(':').ok_or_else(|| wrong("access is written KEY:SECRET".to_owned()))?;
    Ok(Access { key: key.to_owned(), secret: secret.to_owned() })
}

fn unknown_key(key: &str) -> String {
    match nearest(key, KEYS) {
        Some(meant) => format!("{key:?} is not a setting of ssm:; did you mean {meant:?}?"),
        None => format!("{key:?} is not a setting of ssm:; there are {}", KEYS.join(", ")),
    }
}

fn wrong(message: String) -> ParameterAddressError {
    ParameterAddressError(message)
}

impl fmt::Display for ParameterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ssm:{}", self.name)
    }
}

/// Why parameters could not be read or written.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParameterError(String);

tollway_core::debug_as_display!(ParameterError);

/// Parameters at one address. Cheap to clone; connects when it is first used.
#[derive(Clone, Debug)]
pub struct Parameters {
    address: ParameterAddress,
    client: Arc<OnceCell<Client>>,
    /// Where calls go, once they are sent.
    place: Arc<OnceCell<String>>,
}

impl Parameters {
    /// Those at this address.
    pub fn new(address: ParameterAddress) -> Self {
        Self { address, client: Arc::default(), place: Arc::default() }
    }

    /// The client, connected.
    pub async fn client(&self) -> Result<&Client, ParameterError> {
        let connect = || async {
            let config = connect(&self.address.connect).await;
            check_region(&config).map_err(|error| ParameterError(format!("SSM: {error}")))?;
            let _ = self.place.set(place_of(&config));
            Ok(Client::new(&config))
        };
        self.client.get_or_try_init(connect).await
    }

    /// The value of the parameter itself; nothing if there is none.
    pub async fn only(&self) -> Result<Option<String>, ParameterError> {
        let client = self.client().await?;
        let got = client.get_parameter().name(&self.address.name).with_decryption(true).send().await;
        match got {
            Ok(got) => Ok(got.parameter.and_then(|parameter| parameter.value)),
            Err(error) if error.as_service_error().is_some_and(GetParameterError::is_parameter_not_found) => {
                Ok(None)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// The values of the parameters of these names below it, in order; nothing where there is none.
    pub async fn each(&self, names: &[String]) -> Result<Vec<Option<String>>, ParameterError> {
        let client = self.client().await?;
        let mut values = HashMap::new();
        let mut next = None;
        for _ in 0..PAGES_MAX {
            let page = client.get_parameters_by_path().path(&self.address.name).with_decryption(true);
            let page = page.set_next_token(next).send().await;
            let page = page.map_err(|error| self.failed(&error))?;
            let read = page.parameters.unwrap_or_default().into_iter();
            values.extend(read.filter_map(|parameter| Some((parameter.name?, parameter.value?))));
            next = page.next_token;
            if next.is_none() {
                break;
            }
        }
        Ok(names.iter().map(|name| values.remove(&self.address.below(name))).collect())
    }

    /// The error in a sentence: the answer of AWS, or why there is none, and what to do about it.
    fn failed<E, R>(&self, error: &SdkError<E, R>) -> ParameterError
    where
        E: std::error::Error + ProvideErrorMetadata + 'static,
        R: fmt::Debug + 'static,
    {
        let name = &self.address.name;
        let place = self.place.get().map_or("", String::as_str);
        if lacks_credentials(error) {
            let advice = advice_without_credentials();
            return ParameterError(format!(
                "SSM{place} was not asked for {name:?}: no credentials; {advice}"
            ));
        }
        let Some(code) = error.code() else {
            let why = with_causes(error);
            return ParameterError(format!("SSM{place} could not be reached to read {name:?}: {why}"));
        };
        let said = error.message().unwrap_or("no more was said");
        let advice = advice_on_credentials(code).or(lacks_right(code).then_some(ADVICE_WORKER_RIGHTS));
        let advice = advice.map(|advice| format!("; {advice}")).unwrap_or_default();
        ParameterError(format!("SSM{place} did not read {name:?}: {code}: {said}{advice}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_name_region_and_endpoint() {
        let text = "/a/b?region=eu-west-1&endpoint=http://127.0.0.1:1&access=me:secret";
        let address = ParameterAddress::parse(text).unwrap();
        let Connect { region, endpoint, access, .. } = &address.connect;
        assert_eq!((address.name.as_str(), region.as_deref()), ("/a/b", Some("eu-west-1")));
        assert_eq!(endpoint.as_deref(), Some("http://127.0.0.1:1"));
        assert_eq!(access.as_ref().unwrap().secret, "secret");
        assert!(!format!("{address} {address:?}").contains("secret"));
        assert_eq!(
            (address.to_string(), address.below("rpm")),
            ("ssm:/a/b".to_owned(), "/a/b/rpm".to_owned())
        );
    }

    #[test]
    fn equal_names_in_other_regions_are_other_parameters() {
        let identity = |text: &str| ParameterAddress::parse(text).unwrap().identity();
        assert_eq!(identity("/a?region=eu-west-1"), identity("/a?region=eu-west-1"));
        assert_ne!(identity("/a?region=eu-west-1"), identity("/a?region=eu-west-2"));
        let endpoint = identity("/a?region=eu-west-1&endpoint=http://127.0.0.1:1");
        assert_ne!(endpoint, identity("/a?region=eu-west-1&endpoint=http://127.0.0.1:2"));
    }

    /// A3: a command with the keys of another account does not go by this account's amount.
    #[test]
    fn equal_names_in_other_accounts_are_other_parameters() {
        let with = |text: &str, name: &str, value: &str| {
            let variable = |asked: &str| (asked == name).then(|| value.to_owned());
            ParameterAddress::parse(text).unwrap().identity_in(variable)
        };
        let without = with("/a", "", "");
        assert_eq!(without, with("/a", "AWS_ACCESS_KEY_ID", ""), "an empty variable is one that is not set");
        for name in [&["AWS_ACCESS_KEY_ID"][..], &ACCOUNT_VARIABLES].concat() {
            let [one, other] = ["first", "second"].map(|value| with("/a", name, value));
            assert!(without != one && one != other, "{name}: {one}, {other}");
        }
        let [one, other] =
            ["/a?access=first:secret", "/a?access=second:secret"].map(|text| with(text, "", ""));
        assert_ne!(one, other);
        assert_eq!(one, with("/a", "AWS_ACCESS_KEY_ID", "first"), "the same key");
        assert_eq!(
            one,
            with("/a?access=first:secret", "AWS_ACCESS_KEY_ID", "second"),
            "the address overrides it"
        );
        assert!(!one.contains("first") && !one.contains("secret"), "{one}");
    }

    /// A4: the documented default name.
    #[test]
    fn the_default_name_is_the_documented_one() {
        assert_eq!(ParameterAddress::parse("").unwrap().name, PARAMETER_DEFAULT);
        assert_eq!(ParameterAddress::parse("?region=x").unwrap().name, "/pdf-processing/adobe-api-rpm");
    }

    #[test]
    fn invalid_addresses_are_refused_with_a_reason() {
        for (text, wrong) in [
            ("/a b", "' ' cannot be part of a parameter's name"),
            ("/a?regoin=x", "did you mean \"region\"?"),
            ("/a?colour=x", "there are region, endpoint, access"),
            ("/a?region", "\"region\" has no value"),
        ] {
            let error = ParameterAddress::parse(text).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
