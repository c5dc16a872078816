//! A Systems Manager parameter: existing, or created with the amount in the config.

use aws_sdk_ssm::Client;
use aws_sdk_ssm::operation::get_parameter::GetParameterError;
use aws_sdk_ssm::types::{ParameterType, ResourceTypeForTagging, Tag};
use serde_json::{Value, json};
use tollway_aws::ParameterAddress;

use super::account::Account;
use super::error::ProvisionError;
use super::made_by::{TAG, TAG_VALUE, has_tag};
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
    pub(super) async fn look(&self, account: &Account) -> Result<State, ProvisionError> {
        let name = &self.address.name;
        match Client::new(&account.config).get_parameter().name(name).with_decryption(true).send().await {
            Ok(got) => {
                let value = got.parameter.and_then(|parameter| parameter.value).unwrap_or_default();
                Ok(State::ReadyWith(format!("value {value}")))
            }
            Err(error) if error.as_service_error().is_some_and(GetParameterError::is_parameter_not_found) => {
                Ok(State::Missing)
            }
            Err(error) => Err(account.failed(&format!("reading the parameter {name}"), &error)),
        }
    }

    /// Creates it. One that was created meanwhile stays unchanged.
    pub(super) async fn make(&self, account: &Account) -> Result<(), ProvisionError> {
        let name = &self.address.name;
        let request = Client::new(&account.config).put_parameter().name(name).value(&self.value);
        let request = request.description(&self.description).r#type(ParameterType::String).overwrite(false);
        let tag = Tag::builder().key(TAG).value(TAG_VALUE).build().ok();
        match request.set_tags(tag.map(|tag| vec![tag])).send().await {
            Ok(_) => Ok(()),
            Err(error) if error.as_service_error().is_some_and(|said| said.is_parameter_already_exists()) => {
                Ok(())
            }
            Err(error) => Err(account.failed(&format!("creating the parameter {name}"), &error)),
        }
    }

    pub(super) async fn is_ours(&self, account: &Account) -> Result<bool, ProvisionError> {
        let name = &self.address.name;
        let call = Client::new(&account.config).list_tags_for_resource();
        let tags = call.resource_type(ResourceTypeForTagging::Parameter).resource_id(name).send().await;
        let tags = tags
            .map_err(|error| account.failed(&format!("reading the tags of the parameter {name}"), &error))?;
        Ok(has_tag(tags.tag_list().iter().map(|tag| (tag.key(), tag.value()))))
    }

    pub(super) async fn remove(&self, account: &Account) -> Result<(), ProvisionError> {
        let name = &self.address.name;
        let removed = Client::new(&account.config).delete_parameter().name(name).send().await;
        removed.map(drop).map_err(|error| account.failed(&format!("deleting the parameter {name}"), &error))
    }
}
