//! A dashboard of CloudWatch: widgets of metrics, three in a row.

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::error::ProvideErrorMetadata;
use serde_json::{Value, json};
use tollway_aws::{Connect, connect};

use super::alarm::{MetricOf, PERIOD_SECONDS};
use super::error::{ProvisionError, failed};
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

    pub(super) async fn look(&self, to: &Connect) -> Result<State, ProvisionError> {
        let (client, region) = client(to).await;
        match client.get_dashboard().dashboard_name(&self.name).send().await {
            Ok(found) => {
                let body = found.dashboard_body().and_then(|body| serde_json::from_str::<Value>(body).ok());
                Ok(match body == Some(self.body(&region)) {
                    true => State::Ready,
                    false => State::Incomplete("its widgets are others".to_owned()),
                })
            }
            Err(error) if error.code().is_some_and(|code| code.contains("NotFound")) => Ok(State::Missing),
            Err(error) => Err(failed(&format!("looking for the dashboard {}", self.name), &error)),
        }
    }

    /// Creates it, or replaces one of its name.
    pub(super) async fn make(&self, to: &Connect) -> Result<(), ProvisionError> {
        let (client, region) = client(to).await;
        let body = self.body(&region).to_string();
        let put = client.put_dashboard().dashboard_name(&self.name).dashboard_body(body).send().await;
        put.map(drop).map_err(|error| failed(&format!("creating the dashboard {}", self.name), &error))
    }

    pub(super) async fn remove(&self, to: &Connect) -> Result<(), ProvisionError> {
        let (client, _) = client(to).await;
        let removed = client.delete_dashboards().dashboard_names(&self.name).send().await;
        removed.map(drop).map_err(|error| failed(&format!("deleting the dashboard {}", self.name), &error))
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

async fn client(to: &Connect) -> (Client, String) {
    let config = connect(to).await;
    let region = config.region().map(ToString::to_string).unwrap_or_default();
    (Client::new(&config), region)
}
