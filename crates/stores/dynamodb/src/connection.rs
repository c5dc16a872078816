//! A connection to one table: its client, and what errors call it.

use std::error::Error;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use tollway_aws::{ClockCheck, Connect, check_region, connect, place_of};
use tollway_core::StoreError;

use crate::error::{Kind, meaning, no_region};

/// The client of a table.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// With table and place, for messages.
    pub(crate) service: String,
}

impl Connection {
    /// Finds region and credentials. Nothing is sent to DynamoDB yet.
    pub(crate) async fn open(to: &Connect, table: &str, check: &ClockCheck) -> Result<Self, StoreError> {
        let config = connect(to).await;
        check_region(&config).map_err(no_region)?;
        let service = format!("DynamoDB, table {table}{}", place_of(&config));
        let config = Builder::from(&config).interceptor(check.clone());
        Ok(Self { client: Client::from_conf(config.build()), service })
    }

    /// The meaning of an error that no request expects.
    pub(crate) fn failed<E>(&self, error: &SdkError<E, HttpResponse>, kind: Kind) -> StoreError
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        meaning(&self.service, error, kind)
    }
}
