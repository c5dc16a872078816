//! Metrics of a function: sent after every event, because Lambda stops the process in between.

use std::sync::Arc;

use tollway::{Clock, Limiter, Name};
use tollway_cloudwatch::{CloudWatchConfig, Publisher};
use tollway_memory::WallClock;
use tollway_pipeline::run::OwnEvents;
use tollway_pipeline::run::metrics::samples_of_process;
use tollway_pipeline::run::progress::Progress;
use tollway_pipeline::{Engine, PipelineConfig};

use crate::failure::{Exit, Failure};

pub(super) struct Figures {
    publisher: Option<Publisher>,
    pipeline: String,
    stages: Vec<Name>,
    engine: Arc<dyn Engine>,
    own: OwnEvents,
    limiter: Limiter,
}

impl Figures {
    pub(super) async fn new(
        cloudwatch: Option<&CloudWatchConfig>,
        config: &PipelineConfig,
        engine: Arc<dyn Engine>,
        own: OwnEvents,
        limiter: &Limiter,
    ) -> Result<Self, Failure> {
        let publisher = match cloudwatch {
            Some(cloudwatch) => {
                let made = Publisher::new(cloudwatch).await;
                Some(made.map_err(|error| Failure::new(Exit::CONFIG, error))?)
            }
            None => None,
        };
        Ok(Self {
            publisher,
            pipeline: config.name.to_string(),
            stages: config.stage_names(),
            engine,
            own,
            limiter: limiter.clone(),
        })
    }

    pub(super) async fn publish(&mut self) {
        let Some(publisher) = &mut self.publisher else { return };
        let mut samples = self.limiter.samples().await;
        if let Ok(progress) = Progress::read(&*self.engine, &self.stages, self.limiter.clock().now()).await {
            samples.extend(samples_of_process(&self.pipeline, progress, &self.own));
        }
        let lost = publisher.publish(&samples, WallClock.now()).await;
        self.limiter.count_dropped_metrics(lost);
    }
}
