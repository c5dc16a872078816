//! gRPC: Envoy's request to ours and limitador, and throttlecrab's own request to throttlecrab. h2load repeats one message,
//! so all requests are for one key.

use anyhow::Result;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use prost::Message;
use tokio::runtime::Runtime;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use super::check::{Bucket, Judge, Limit};
use super::contest::{Effort, Part, contest};
use super::entrants::Entrants;
use super::http::url;
use super::load::h2load::Calls;
use crate::report::BenchReport;

/// Target: Tollway's processor time, relative to either rival's.
const WANTED_OF_RIVALS: f64 = 0.75;

/// Clients and calls in flight per client: many proxies with few calls, and few with many.
const SHAPES: [(usize, usize); 2] = [(50, 1), (8, 16)];

pub(super) const ENVOY: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const THROTTLECRAB: &str = "/throttlecrab.RateLimiter/Throttle";
const KEY: &str = "user:00000007";

pub(super) fn measure(entrants: &Entrants, effort: Effort, report: &mut BenchReport) -> Result<()> {
    let Entrants { ours, limitador, throttlecrab, .. } = entrants;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut judges = [
        Judge::new("tollway", |limit, key| ask_envoys(&runtime, ours.grpc, limit, key)),
        Judge::new("limitador", |limit, key| ask_envoys(&runtime, limitador.grpc, limit, key)),
        Judge::new("throttlecrab", |limit, key| ask_throttlecrab(&runtime, throttlecrab.grpc, limit, key)),
    ];
    judges.iter_mut().try_for_each(|judge| judge.before("grpc"))?;
    let envoys = plenty_message();
    let theirs = ThrottleRequest::new(Limit::Plenty, KEY).encode_to_vec();
    for (clients, streams) in SHAPES {
        let part = |name, pid, port, path, message: &[u8], wanted| -> Result<Part> {
            let load = Box::new(Calls::grpc(url(port, path), message, clients, streams)?);
            Ok(Part { name, pid, load, wanted })
        };
        let wanted = Some(WANTED_OF_RIVALS);
        let parts = [
            part("tollway", ours.pid(), ours.grpc, ENVOY, &envoys, None)?,
            part("limitador behind tonic", limitador.pid(), limitador.grpc, ENVOY, &envoys, wanted)?,
            part(
                "throttlecrab-server",
                throttlecrab.pid(),
                throttlecrab.grpc,
                THROTTLECRAB,
                &theirs,
                wanted,
            )?,
        ];
        contest(&format!("gRPC, {clients} connections x {streams}"), &parts, effort, report)?;
    }
    judges.iter_mut().try_for_each(|judge| judge.after(KEY))
}

/// Envoy's request to ours and limitador.
pub(super) fn plenty_message() -> Vec<u8> {
    envoys_request(Limit::Plenty, KEY).encode_to_vec()
}

fn envoys_request(limit: Limit, key: &str) -> RateLimitRequest {
    let entry = Entry { key: "user".to_owned(), value: key.to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
    RateLimitRequest { domain: limit.name().to_owned(), descriptors: vec![descriptor], hits_addend: 1 }
}

fn ask_envoys(runtime: &Runtime, port: u16, limit: Limit, key: &str) -> Result<bool> {
    runtime.block_on(async {
        let mut client = RateLimitServiceClient::connect(url(port, "")).await?;
        let answer = client.should_rate_limit(envoys_request(limit, key)).await?;
        Ok(answer.into_inner().overall_code() == Code::Ok)
    })
}

fn ask_throttlecrab(runtime: &Runtime, port: u16, limit: Limit, key: &str) -> Result<bool> {
    runtime.block_on(async {
        let mut client = Grpc::new(Endpoint::new(url(port, ""))?.connect().await?);
        client.ready().await?;
        let codec = ProstCodec::<ThrottleRequest, ThrottleResponse>::default();
        let request = Request::new(ThrottleRequest::new(limit, key));
        let answer = client.unary(request, PathAndQuery::from_static(THROTTLECRAB), codec).await?;
        Ok(answer.into_inner().allowed)
    })
}

/// throttlecrab's request, from its service definition.
#[derive(Clone, PartialEq, Message)]
struct ThrottleRequest {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int32, tag = "2")]
    max_burst: i32,
    #[prost(int32, tag = "3")]
    count_per_period: i32,
    #[prost(int32, tag = "4")]
    period: i32,
    #[prost(int32, tag = "5")]
    quantity: i32,
}

impl ThrottleRequest {
    fn new(limit: Limit, key: &str) -> Self {
        let Bucket { burst: max_burst, amount: count_per_period, period_seconds: period } = limit.bucket();
        Self { key: key.to_owned(), max_burst, count_per_period, period, quantity: 1 }
    }
}

/// The used fields of its response.
#[derive(Clone, PartialEq, Message)]
struct ThrottleResponse {
    #[prost(bool, tag = "1")]
    allowed: bool,
}
