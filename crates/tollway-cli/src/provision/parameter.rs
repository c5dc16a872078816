//! A Systems Manager parameter: existing, or created with the amount in the config.

use aws_sdk_ssm::types::ParameterType;
use tollway_aws::{ParameterAddress, ParameterError, Parameters};

use super::error::{ProvisionError, failed};

/// A parameter that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterSpec {
    /// Its address.
    pub(crate) address: ParameterAddress,
    /// Its initial value.
    pub(crate) value: String,
    /// Its description in the console.
    pub(crate) description: String,
}

/// The state of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParameterFound {
    /// It does not exist.
    Missing,
    /// It exists; its value stays unchanged.
    Ready {
        /// The value.
        value: String,
    },
}

impl ParameterSpec {
    /// Looks up its state.
    pub(crate) async fn look(&self) -> Result<ParameterFound, ProvisionError> {
        match Parameters::new(self.address.clone()).only().await {
            Ok(Some(value)) => Ok(ParameterFound::Ready { value }),
            Ok(None) => Ok(ParameterFound::Missing),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// Creates it if it is missing. One that was created meanwhile stays unchanged.
    pub(crate) async fn make(&self, found: &ParameterFound) -> Result<(), ProvisionError> {
        if *found != ParameterFound::Missing {
            return Ok(());
        }
        let parameters = Parameters::new(self.address.clone());
        let client = parameters.client().await.map_err(|error| unreadable(&error))?;
        let request = client.put_parameter().name(&self.address.name).value(&self.value);
        let request = request.description(&self.description).r#type(ParameterType::String).overwrite(false);
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) if error.as_service_error().is_some_and(|said| said.is_parameter_already_exists()) => {
                Ok(())
            }
            Err(error) => {
                let what = format!("creating the parameter {}", self.address.name);
                Err(failed(&what, &error))
            }
        }
    }
}

fn unreadable(error: &ParameterError) -> ProvisionError {
    let advice = "give your role the policy `operator` that --plan prints".to_owned();
    ProvisionError { message: error.to_string(), advice }
}
