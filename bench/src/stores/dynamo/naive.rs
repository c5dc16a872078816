//! The usual implementation: read the counter, compare, write it if unchanged, else retry. One client per process, without
//! the SDK's retries. It ignores the end of windows.

use anyhow::{Context, Result, bail, ensure};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use tollway_aws::{Access, Connect, connect};

use super::round::TABLE;
use crate::stores::callers::{Caller, Entrant, Stage};
use crate::stores::periods::PLENTY;

pub(super) struct Naive<const PROCESSES: usize>(Vec<Client>);

impl<const PROCESSES: usize> Entrant for Naive<PROCESSES> {
    type Caller = Client;

    async fn start(stage: &Stage) -> Result<Self> {
        let endpoint = stage.url.split("endpoint=").nth(1).and_then(|rest| rest.split('&').next());
        let access = Access { key: "test".to_owned(), secret: "test".to_owned() };
        let to =
            Connect { endpoint: endpoint.map(ToOwned::to_owned), access: Some(access), ..Connect::default() };
        let mut clients = Vec::new();
        for _ in 0..PROCESSES {
            clients.push(Client::new(&connect(&to).await));
        }
        make_counter(&clients[0], &stage.keys.keys[0]).await?;
        Ok(Self(clients))
    }

    fn caller(&self, number: usize) -> Client {
        self.0[number % PROCESSES].clone()
    }

    async fn check(&self, subject: &str, takes: u64) -> Result<()> {
        let used = read(&self.0[0], subject).await?;
        ensure!(used == takes, "{takes} takes were granted and {used} counted");
        Ok(())
    }
}

impl Caller for Client {
    async fn take(&mut self, subject: &str) -> Result<bool> {
        loop {
            let used = read(self, subject).await?;
            if used >= PLENTY {
                return Ok(false);
            }
            let written = self
                .update_item()
                .table_name(TABLE)
                .key("subject", AttributeValue::S(subject.to_owned()))
                .update_expression("SET used = :next")
                .condition_expression("used = :seen")
                .expression_attribute_values(":next", AttributeValue::N((used + 1).to_string()))
                .expression_attribute_values(":seen", AttributeValue::N(used.to_string()))
                .send()
                .await;
            match written {
                Ok(_) => return Ok(true),
                Err(error) => match error.as_service_error() {
                    Some(said) if said.is_conditional_check_failed_exception() => {}
                    _ => bail!(error),
                },
            }
        }
    }
}

async fn read(client: &Client, subject: &str) -> Result<u64> {
    let key = AttributeValue::S(subject.to_owned());
    let read = client.get_item().table_name(TABLE).consistent_read(true).key("subject", key).send().await?;
    let item = read.item.context("the counter is there")?;
    let used = item.get("used").and_then(|used| used.as_n().ok()).context("it is a number")?;
    Ok(used.parse()?)
}

async fn make_counter(client: &Client, subject: &str) -> Result<()> {
    let key = KeySchemaElement::builder().attribute_name("subject").key_type(KeyType::Hash).build()?;
    let text = AttributeDefinition::builder().attribute_name("subject");
    let text = text.attribute_type(ScalarAttributeType::S).build()?;
    let table = client.create_table().table_name(TABLE).key_schema(key).attribute_definitions(text);
    table.billing_mode(BillingMode::PayPerRequest).send().await?;
    let counter = client.put_item().table_name(TABLE).item("subject", AttributeValue::S(subject.to_owned()));
    counter.item("used", AttributeValue::N("0".to_owned())).send().await?;
    Ok(())
}
