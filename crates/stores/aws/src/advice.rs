//! What to do about an error of AWS: the same words in every part of Tollway.

use std::env;

use aws_config::SdkConfig;

/// The right is missing that a process needs while it works.
pub const ADVICE_WORKER_RIGHTS: &str =
    "give the role the policy that `tollway provision aws --iam worker` prints";

/// Every retry fails until there are other credentials.
const ADVICE_EXPIRED: &str =
    "the session is over: log in again (`aws sso login`), or set credentials that are valid";

const ADVICE_UNKNOWN_KEY: &str = "AWS does not accept these credentials: check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, and that the clock is right";

const ADVICE_NO_CREDENTIALS: &str =
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a role";

/// The variable that names a profile.
const PROFILE: &str = "AWS_PROFILE";

/// What to do about an error code that is about the caller's credentials; none for every other code.
pub fn advice_on_credentials(code: &str) -> Option<&'static str> {
    match code {
        "ExpiredToken" | "ExpiredTokenException" | "RequestExpired" => Some(ADVICE_EXPIRED),
        "InvalidClientTokenId"
        | "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "SignatureDoesNotMatch"
        | "IncompleteSignature"
        | "MissingAuthenticationToken"
        | "MissingAuthenticationTokenException"
        | "InvalidAccessKeyId" => Some(ADVICE_UNKNOWN_KEY),
        _ => None,
    }
}

/// Whether an error code says that the role lacks a right.
pub fn lacks_right(code: &str) -> bool {
    code.contains("AccessDenied") || code.contains("NotAuthorized") || code == "AuthorizationError"
}

/// What to do if there are no credentials. A profile that does not exist is passed over by the SDK without a word.
pub fn advice_without_credentials() -> String {
    advice_for_profile(env::var(PROFILE).ok().as_deref())
}

fn advice_for_profile(profile: Option<&str>) -> String {
    match profile.filter(|profile| !profile.is_empty()) {
        Some(profile) => format!(
            "{PROFILE} is {profile:?}, which does not exist or has no credentials: `aws configure list-profiles` lists those that do"
        ),
        None => ADVICE_NO_CREDENTIALS.to_owned(),
    }
}

/// Where calls go, behind the name of what they ask for: ` at http://127.0.0.1:4566`, ` in eu-central-1`, or nothing.
pub fn place_of(config: &SdkConfig) -> String {
    match (config.endpoint_url(), config.region()) {
        (Some(endpoint), _) => format!(" at {endpoint}"),
        (None, Some(region)) => format!(" in {region}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mistake that people make gets the advice that helps, and not the advice for another.
    #[test]
    fn advice_is_about_the_mistake() {
        for (code, says) in [
            ("ExpiredTokenException", "aws sso login"),
            ("UnrecognizedClientException", "AWS_SECRET_ACCESS_KEY"),
        ] {
            assert!(advice_on_credentials(code).unwrap().contains(says), "{code}");
        }
        assert_eq!(advice_on_credentials("AccessDeniedException"), None);
        assert!(lacks_right("AccessDeniedException") && lacks_right("AuthorizationError"));
        assert!(advice_for_profile(Some("stagng")).contains("AWS_PROFILE is \"stagng\""));
        assert_eq!(advice_for_profile(Some("")), ADVICE_NO_CREDENTIALS);
    }
}
