//! A source as a config file names it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tollway_core::nearest;

use super::Source;

/// Where a policy's amounts are kept: `ssm:NAME`, a parameter of AWS Systems Manager. It needs the feature `aws`.
///
/// A query may set `region` and `endpoint`, as in `ssm:/pdf-processing/adobe-api-rpm?region=eu-west-1`;
/// else the environment does. Without a name it is that of `$ADOBE_API_RPM_PARAM`, else `/pdf-processing/adobe-api-rpm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceUrl(
    #[cfg(feature = "aws")] tollway_aws::ParameterAddress,
    #[cfg(not(feature = "aws"))] std::convert::Infallible,
);

/// A text that is not a source of this version.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceUrlError(String);

tollway_core::debug_as_display!(SourceUrlError);

impl SourceUrl {
    /// Nothing is read yet.
    pub(crate) fn open(&self) -> Arc<dyn Source> {
        #[cfg(feature = "aws")]
        return Arc::new(super::ssm::SsmSource::new(self.0.clone()));
        #[cfg(not(feature = "aws"))]
        match self.0 {}
    }

    /// What tells it from other sources, also from one of the same name in another region or account.
    pub(crate) fn identity(&self) -> String {
        #[cfg(feature = "aws")]
        return self.0.identity();
        #[cfg(not(feature = "aws"))]
        match self.0 {}
    }

    /// The parameter of AWS Systems Manager that it is.
    #[cfg(feature = "aws")]
    pub fn parameter(&self) -> &tollway_aws::ParameterAddress {
        &self.0
    }
}

impl fmt::Display for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(feature = "aws")]
        return self.0.fmt(f);
        #[cfg(not(feature = "aws"))]
        {
            let _ = f;
            match self.0 {}
        }
    }
}

impl FromStr for SourceUrl {
    type Err = SourceUrlError;

    fn from_str(url: &str) -> Result<Self, SourceUrlError> {
        let wrong = |message: String| Err(SourceUrlError(message));
        match url.split_once(':') {
            Some(("ssm", address)) => read_ssm(address),
            Some((scheme, _)) if nearest(scheme, ["ssm"]).is_some() => {
                wrong(format!("{scheme:?} is not a source; did you mean \"ssm\"?"))
            }
            _ => wrong("a source is a URL; write it like ssm:/pdf-processing/adobe-api-rpm".to_owned()),
        }
    }
}

#[cfg(feature = "aws")]
fn read_ssm(address: &str) -> Result<SourceUrl, SourceUrlError> {
    let parsed = tollway_aws::ParameterAddress::parse(address);
    parsed.map(SourceUrl).map_err(|error| SourceUrlError(error.to_string()))
}

#[cfg(not(feature = "aws"))]
fn read_ssm(_: &str) -> Result<SourceUrl, SourceUrlError> {
    Err(SourceUrlError("this build reads no parameters of AWS; build it with `--features aws`".to_owned()))
}
