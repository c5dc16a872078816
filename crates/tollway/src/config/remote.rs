//! The URL of a store across a network.

use std::fmt;

use tollway_core::StoreUrlParts;

/// The URL of a store across a network, known to be right. It may hold a password, which is never shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RemoteUrl(String);

impl RemoteUrl {
    /// The URL of a Redis store; without the feature `redis` there is none.
    pub(super) fn redis(url: &str) -> Result<Self, String> {
        #[cfg(feature = "redis")]
        {
            tollway_redis::Address::parse(url).map_err(|error| error.message)?;
            Ok(Self(url.to_owned()))
        }
        #[cfg(not(feature = "redis"))]
        {
            let _ = url;
            Err(not_built("Redis", "redis"))
        }
    }

    /// The URL of a Postgres store; without the feature `postgres` there is none.
    pub(super) fn postgres(url: &str) -> Result<Self, String> {
        #[cfg(feature = "postgres")]
        {
            url.parse::<tollway_postgres::PostgresOptions>().map_err(|error| error.to_string())?;
            Ok(Self(url.to_owned()))
        }
        #[cfg(not(feature = "postgres"))]
        {
            let _ = url;
            Err(not_built("Postgres", "postgres"))
        }
    }

    /// The URL of a DynamoDB store; without the feature `dynamodb` there is none.
    pub(super) fn dynamodb(url: &str) -> Result<Self, String> {
        #[cfg(feature = "dynamodb")]
        {
            url.parse::<tollway_dynamodb::DynamoOptions>().map_err(|error| error.to_string())?;
            Ok(Self(url.to_owned()))
        }
        #[cfg(not(feature = "dynamodb"))]
        {
            let _ = url;
            Err(not_built("DynamoDB", "dynamodb"))
        }
    }

    /// All of it, for whoever connects.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

#[cfg(not(all(feature = "redis", feature = "postgres", feature = "dynamodb")))]
fn not_built(store: &str, feature: &str) -> String {
    format!("this build has no {store} store; build it with `--features {feature}`")
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parts) = StoreUrlParts::read(&self.0) else { return f.write_str("...") };
        // Parameters may hold secrets too, so they are left out.
        let StoreUrlParts { scheme, place, .. } = parts;
        match parts.user_and_password() {
            None => write!(f, "{scheme}://{place}"),
            Some((user, _)) => {
                let hidden = if user.is_empty() { "..." } else { user };
                write!(f, "{scheme}://{hidden}:...@{place}")
            }
        }
    }
}

impl fmt::Debug for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("redis://:se@cret@host/0?x=secret", "redis://...:...@host/0"),
            ("postgres://me:secret@host/db", "postgres://me:...@host/db"),
        ] {
            let url = RemoteUrl(url.to_owned());
            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("cret"));
        }
    }
}
