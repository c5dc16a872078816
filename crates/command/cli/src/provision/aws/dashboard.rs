//! A dashboard of CloudWatch: widgets of metrics, three in a row.

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::error::ProvideErrorMetadata;
use serde_json::{Value, json};

use super::account::Account;
use super::alarm::{MetricOf, PERIOD_SECONDS};
use super::error::ProvisionError;
use super::made_by::LINE;
use super::report::State;

/// A dashboard is 24 columns wide.
const WIDGET_WIDTH: usize = 8;
const WIDGETS_IN_A_ROW: usize = 3;
const WIDGET_HEIGHT: usize = 6;

/// The region, in a template.
const REGION_OF_TEMPLATE: &str = "${AWS::Region}";

/// A needed dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DashboardSpec {
    pub(super) name: String,
    pub(super) widgets: Vec<Widget>,
}

/// A graph of some metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Widget {
    pub(super) title: String,
    pub(super) metrics: Vec<MetricOf>,
}

impl DashboardSpec {
    pub(super) fn details(&self) -> String {
        format!("{} widgets", self.widgets.len())
    }

    /// Its properties in a template.
    pub(super) fn properties(&self) -> Value {
        let body = self.body(REGION_OF_TEMPLATE).to_string();
        json!({ "DashboardName": self.name, "DashboardBody": { "Fn::Sub": body } })
    }

    pub(super) async fn look(&self, account: &Account) -> Result<State, ProvisionError> {
        let Some(mut found) = self.find(account).await? else { return Ok(State::Missing) };
        take_line(&mut found);
        Ok(match found == self.body(&account.region()) {
            true => State::Ready,
            false => State::Incomplete("its widgets are others".to_owned()),
        })
    }

    async fn find(&self, account: &Account) -> Result<Option<Value>, ProvisionError> {
        match Client::new(&account.config).get_dashboard().dashboard_name(&self.name).send().await {
            Ok(found) => {
                let body = found.dashboard_body().and_then(|body| serde_json::from_str::<Value>(body).ok());
                Ok(Some(body.unwrap_or_default()))
            }
            Err(error) if error.code().is_some_and(|code| code.contains("NotFound")) => Ok(None),
            Err(error) => Err(account.failed(&format!("looking for the dashboard {}", self.name), &error)),
        }
    }

    pub(super) async fn is_ours(&self, account: &Account) -> Result<bool, ProvisionError> {
        Ok(self.find(account).await?.is_some_and(|mut body| take_line(&mut body)))
    }

    /// Creates it, or replaces one of its name, which stays what it was: made by us, or not.
    pub(super) async fn make(&self, account: &Account) -> Result<(), ProvisionError> {
        let ours = self.find(account).await?.is_none_or(|mut found| take_line(&mut found));
        let mut body = self.body(&account.region());
        if ours && let Some(widgets) = body["widgets"].as_array_mut() {
            widgets.push(line_widget(self.widgets.len()));
        }
        let client = Client::new(&account.config);
        let put = client.put_dashboard().dashboard_name(&self.name).dashboard_body(body.to_string());
        let put = put.send().await;
        put.map(drop)
            .map_err(|error| account.failed(&format!("creating the dashboard {}", self.name), &error))
    }

    pub(super) async fn remove(&self, account: &Account) -> Result<(), ProvisionError> {
        let client = Client::new(&account.config);
        let removed = client.delete_dashboards().dashboard_names(&self.name).send().await;
        removed
            .map(drop)
            .map_err(|error| account.failed(&format!("deleting the dashboard {}", self.name), &error))
    }

    fn body(&self, region: &str) -> Value {
        let widgets: Vec<Value> =
            self.widgets.iter().enumerate().map(|(index, widget)| widget.json(index, region)).collect();
        json!({ "widgets": widgets })
    }
}

impl Widget {
    fn json(&self, index: usize, region: &str) -> Value {
        json!({
            "type": "metric",
            "x": index % WIDGETS_IN_A_ROW * WIDGET_WIDTH,
            "y": index / WIDGETS_IN_A_ROW * WIDGET_HEIGHT,
            "width": WIDGET_WIDTH,
            "height": WIDGET_HEIGHT,
            "properties": {
                "title": self.title,
                "view": "timeSeries",
                "region": region,
                "period": PERIOD_SECONDS,
                "metrics": self.metrics.iter().map(line).collect::<Vec<Value>>(),
            },
        })
    }
}

/// `["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "q", {"stat": "Maximum"}]`.
fn line(metric: &MetricOf) -> Value {
    let mut line = vec![json!(metric.namespace), json!(metric.name)];
    line.extend(metric.dimensions.iter().flat_map(|(name, value)| [json!(name), json!(value)]));
    line.push(json!({ "stat": metric.statistic }));
    line.into()
}

/// A text below the graphs.
fn line_widget(graphs: usize) -> Value {
    json!({
        "type": "text",
        "x": 0,
        "y": graphs.div_ceil(WIDGETS_IN_A_ROW) * WIDGET_HEIGHT,
        "width": WIDGET_WIDTH * WIDGETS_IN_A_ROW,
        "height": 1,
        "properties": { "markdown": LINE },
    })
}

/// Takes our line out of a body. Whether it was there.
fn take_line(body: &mut Value) -> bool {
    let Some(widgets) = body["widgets"].as_array_mut() else { return false };
    let before = widgets.len();
    widgets.retain(|widget| widget["properties"]["markdown"] != LINE);
    widgets.len() < before
}
