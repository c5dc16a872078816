//! A Systems Manager parameter: existing, or created with the amount in the config.

use aws_sdk_ssm::types::ParameterType;
use serde_json::{Value, json};
use tollway_aws::{ParameterAddress, ParameterError, Parameters};

use super::error::{DENIED, ProvisionError, failed};
use super::report::State;

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

impl ParameterSpec {
    /// Its properties in a template.
    pub(super) fn properties(&self) -> Value {
        json!({
            "Name": self.address.name,
            "Type": "String",
            "Value": self.value,
            "Description": self.description,
        })
    }

    /// The value of an existing one stays as it is.
    pub(super) async fn look(&self) -> Result<State, ProvisionError> {
        match Parameters::new(self.address.clone()).only().await {
            Ok(Some(value)) => Ok(State::ReadyWith(value)),
            Ok(None) => Ok(State::Missing),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// Creates it. One that was created meanwhile stays unchanged.
    pub(super) async fn make(&self) -> Result<(), ProvisionError> {
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

    pub(super) async fn remove(&self) -> Result<(), ProvisionError> {
        let parameters = Parameters::new(self.address.clone());
        let client = parameters.client().await.map_err(|error| unreadable(&error))?;
        let removed = client.delete_parameter().name(&self.address.name).send().await;
        removed
            .map(drop)
            .map_err(|error| failed(&format!("deleting the parameter {}", self.address.name), &error))
    }
}

fn unreadable(error: &ParameterError) -> ProvisionError {
    ProvisionError { message: error.to_string(), advice: DENIED.to_owned() }
}
