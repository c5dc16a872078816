//! limitador's library behind Envoy's rate limit service, served by plain tonic.
//!
//! Handles requests like limitador's own server: values by descriptor and name, a response with the code and no headers.
//! limitador's server runs on one thread; this one uses all cores.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use limitador::RateLimiter;
use limitador::limit::{Context, Limit};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::process::Process;

/// Room for more counters than there are keys.
const COUNTERS_MAX: u64 = 1_000_000;
const HOUR_SECONDS: u64 = 3_600;
const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;

pub(in crate::server) struct Limitador {
    process: Process,
    pub(in crate::server) grpc: u16,
}

impl Limitador {
    pub(in crate::server) fn start() -> Result<Self> {
        let (process, ports) = Process::serve("limitador")?;
        Ok(Self { process, grpc: *ports.first().context("a port")? })
    }

    pub(in crate::server) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// The server process.
pub(in crate::server) fn serve() -> Result<()> {
    let limiter = RateLimiter::new(COUNTERS_MAX);
    for (domain, amount, seconds) in [("plenty", 1_000_000_000, HOUR_SECONDS), ("two", 2, DAY_SECONDS)] {
        let variable = "descriptors[0].user".try_into().context("an expression")?;
        limiter.add_limit(Limit::new(domain, amount, seconds, vec![], vec![variable]));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let incoming =
            TcpIncoming::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?.with_nodelay(Some(true));
        println!("{}", incoming.local_addr()?.port());
        let service = RateLimitServiceServer::new(Service(limiter));
        Ok(Server::builder().add_service(service).serve_with_incoming(incoming).await?)
    })
}

struct Service(RateLimiter);

#[tonic::async_trait]
impl RateLimitService for Service {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let RateLimitRequest { domain, descriptors, hits_addend } = request.into_inner();
        let values = descriptors.into_iter().map(|descriptor| {
            let entries = descriptor.entries.into_iter();
            entries.map(|entry| (entry.key, entry.value)).collect::<HashMap<_, _>>()
        });
        let mut context = Context::default();
        context.list_binding("descriptors".to_owned(), values.collect());
        let hits = u64::from(hits_addend.max(1));
        let checked = self.0.check_rate_limited_and_update(&domain.into(), &context, hits);
        let limited = checked.map_err(|error| Status::unavailable(error.to_string()))?.limited;
        let code = if limited { Code::OverLimit } else { Code::Ok };
        Ok(Response::new(RateLimitResponse { overall_code: code.into(), ..RateLimitResponse::default() }))
    }
}
