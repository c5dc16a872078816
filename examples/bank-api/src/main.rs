//! The API of a bank, with limits for each consumer and for anonymous callers: `cargo run -p bank-api`
//!
//! `people` lists its consumers and their records, `show` example calls for every header and message.

mod people;
mod show;

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use axum::routing::get;
use tokio::net::TcpListener;
use tollway::Limiter;
use tollway_consumers::{ANONYMOUS_POLICY, ConfigWithConsumers, Gate, Who, open_records};
use tollway_tower::ConsumersLayer;
use tollway_tower::address::AddressRules;

/// Relative to this example, whatever the working directory.
const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tollway.toml");

/// The default listen address; the first argument overrides it.
const LISTEN: &str = "127.0.0.1:3000";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limits = limits(&ConfigWithConsumers::load(CONFIG)?).await?;
    let app = Router::new()
        .route("/accounts", get(async || "your accounts\n"))
        .route("/branches", get(async || "all branches\n"))
        .layer(limits);
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or(LISTEN)).await?;
    show::print(listener.local_addr()?)?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// The layer that limits consumers by their records and other callers by address.
async fn limits(config: &ConfigWithConsumers) -> Result<ConsumersLayer, Box<dyn Error>> {
    let consumers = config.consumers().ok_or("the config has no section [consumers]")?;
    let records = open_records(&consumers.records.connection_url()?)?;
    people::fill(&*records).await?;
    let limiter = Limiter::builder().config(config.limits())?.build();
    let gate = Arc::new(Gate::new(limiter.clone(), records, consumers)?);
    let anonymous = limiter.policy(ANONYMOUS_POLICY)?;
    Ok(ConsumersLayer::new(gate, Who::new(&consumers.who)?).anonymous(
        anonymous,
        AddressRules::default(),
        peer,
    ))
}

/// The peer address of the connection, from axum.
fn peer(request: &Parts) -> Option<IpAddr> {
    request.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
}
