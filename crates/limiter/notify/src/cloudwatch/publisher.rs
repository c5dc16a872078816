//! Sends samples to CloudWatch, one way or the other.

use std::io::{self, Write};

use tollway::metrics::Sample;
use tollway_core::Timestamp;

use crate::cloudwatch::data::Series;
use crate::cloudwatch::emf;
use crate::cloudwatch::{CloudWatchConfig, Delivery};

/// Why nothing can be sent.
#[derive(Debug)]
pub enum PublishError {
    /// No region is configured.
    NoRegion,
    /// This build cannot call CloudWatch.
    NotBuilt,
}

impl std::fmt::Display for PublishError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoRegion => {
                "[cloudwatch] needs a region: set AWS_REGION, or write `region = \"eu-central-1\"` there"
            }
            Self::NotBuilt => {
                "`send = \"put\"` of [cloudwatch] needs the AWS SDK, which this build does not have: build it with \
                 `--features aws`, or write `send = \"emf\"`"
            }
        })
    }
}

impl std::error::Error for PublishError {}

/// Sends samples to CloudWatch.
pub struct Publisher {
    config: CloudWatchConfig,
    series: Series,
    way: Way,
}

enum Way {
    Lines(Box<dyn Write + Send>),
    #[cfg(feature = "aws")]
    Calls(Box<crate::cloudwatch::put::PutClient>),
}

impl Publisher {
    /// As the config says; lines go to standard output.
    pub async fn new(config: &CloudWatchConfig) -> Result<Self, PublishError> {
        let way = match config.delivery {
            Delivery::Emf => Way::Lines(Box::new(io::stdout())),
            #[cfg(feature = "aws")]
            Delivery::Put => {
                Way::Calls(Box::new(crate::cloudwatch::put::PutClient::new(config, None).await?))
            }
            #[cfg(not(feature = "aws"))]
            Delivery::Put => return Err(PublishError::NotBuilt),
        };
        Ok(Self { config: config.clone(), series: Series::default(), way })
    }

    /// Calls CloudWatch with this key, in place of the one that every AWS tool finds.
    #[cfg(feature = "aws")]
    pub async fn with_access(
        config: &CloudWatchConfig,
        access: tollway_aws::Access,
    ) -> Result<Self, PublishError> {
        let way = Way::Calls(Box::new(crate::cloudwatch::put::PutClient::new(config, Some(access)).await?));
        Ok(Self { config: config.clone(), series: Series::default(), way })
    }

    /// Writes lines here.
    pub fn to(config: &CloudWatchConfig, output: impl Write + Send + 'static) -> Self {
        Self { config: config.clone(), series: Series::default(), way: Way::Lines(Box::new(output)) }
    }

    /// Sends what happened since the last time. Returns how many figures were lost.
    pub async fn publish(&mut self, samples: &[Sample], at: Timestamp) -> u64 {
        let before = self.series.left_out();
        let data = self.series.since_last(samples, &self.config.dimensions);
        let left_out = self.series.left_out() - before;
        let figures = u64::try_from(data.len()).unwrap_or(u64::MAX);
        let lost = match &mut self.way {
            Way::Lines(output) => {
                let lines = emf::lines(&self.config.namespace, &data, at);
                if write(output, &lines).is_ok() { 0 } else { figures }
            }
            #[cfg(feature = "aws")]
            Way::Calls(client) => client.send(data, at).await,
        };
        left_out + lost
    }

    /// How many figures wait for CloudWatch, which did not take them yet.
    pub fn waiting(&self) -> u64 {
        match &self.way {
            Way::Lines(_) => 0,
            #[cfg(feature = "aws")]
            Way::Calls(client) => client.waiting(),
        }
    }
}

/// In one write, so that no other line gets in between.
fn write(output: &mut dyn Write, lines: &[String]) -> io::Result<()> {
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    output.write_all(text.as_bytes())?;
    output.flush()
}
