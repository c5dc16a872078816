//! AWS Systems Manager as a source: a parameter for the only limit of a policy, or one below its name for each of several.

use tollway_aws::{ParameterAddress, Parameters};
use tollway_core::Name;

use super::{Source, SourceAnswer, SourceError};

/// A parameter, or several below one name.
pub(super) struct SsmSource {
    address: ParameterAddress,
    parameters: Parameters,
}

impl SsmSource {
    pub(super) fn new(address: ParameterAddress) -> Self {
        Self { parameters: Parameters::new(address.clone()), address }
    }
}

impl Source for SsmSource {
    fn read(&self, limits: &[Name]) -> SourceAnswer {
        let parameters = self.parameters.clone();
        let limits: Vec<String> = limits.iter().map(|limit| limit.as_str().to_owned()).collect();
        Box::pin(async move {
            let read = match limits.len() {
                1 => parameters.only().await.map(|text| vec![text]),
                _ => parameters.each(&limits).await,
            };
            read.map_err(|error| SourceError(error.to_string()))
        })
    }

    fn title(&self) -> String {
        self.address.to_string()
    }
}
