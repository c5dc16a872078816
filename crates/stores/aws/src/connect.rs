//! The way to AWS: region, endpoint and credentials, given or found in the environment.

use std::fmt;
use std::time::Duration;

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

/// A connection is there within this time, or the endpoint is out of reach: AWS takes a few milliseconds.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// An emulator has no regions, but every signature names one.
const REGION_OF_EMULATORS: &str = "us-east-1";

/// The endpoint, region and credentials of AWS. What is not given is found as every AWS tool finds it: in the environment, in the
/// profile, or in the role of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connect {
    /// The region: `eu-central-1`.
    pub region: Option<String>,
    /// Another place than AWS's own, for emulators and private endpoints: `http://127.0.0.1:8000`.
    pub endpoint: Option<String>,
    /// The credentials.
    pub access: Option<Access>,
    /// A request is answered within this time, or it has failed.
    pub timeout: Option<Duration>,
}

/// A key of AWS and its secret, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    /// The key's id.
    pub key: String,
    /// Its secret.
    pub secret: String,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("key", &self.key).finish_non_exhaustive()
    }
}

/// No region is configured.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no region; set AWS_REGION, or write region=eu-central-1 behind the question mark of the URL")]
pub struct NoRegion;

tollway_core::debug_as_display!(NoRegion);

/// Whether a request can be sent at all: the SDK only notices when it is too late to say so in words.
pub fn check_region(config: &SdkConfig) -> Result<(), NoRegion> {
    config.region().map(drop).ok_or(NoRegion)
}

/// What every client of AWS is made of. Nothing is sent yet, but to find the region and the credentials.
pub async fn connect(to: &Connect) -> SdkConfig {
    let client = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let mut timeouts = TimeoutConfig::builder().connect_timeout(CONNECT_WITHIN);
    timeouts.set_operation_attempt_timeout(to.timeout);
    let mut config = aws_config::defaults(BehaviorVersion::latest())
        .http_client(client)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts.build());
    if let Some(endpoint) = &to.endpoint {
        // Not the whole default chain: its builder has no HTTP client for the machine's metadata here, and panics.
        let region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new());
        config = config.endpoint_url(endpoint).region(region.or_else(Region::new(REGION_OF_EMULATORS)));
    }
    if let Some(region) = &to.region {
        config = config.region(Region::new(region.clone()));
    }
    if let Some(Access { key, secret }) = &to.access {
        config = config.credentials_provider(Credentials::new(key, secret, None, None, "given"));
    }
    config.load().await
}
