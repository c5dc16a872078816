//! An axum server with a limit for each API key and one for each address: `cargo run -p tollway-tower --example axum`

use std::net::SocketAddr;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use tokio::net::TcpListener;
use tollway::Limiter;
use tollway_tower::address::AddressRules;
use tollway_tower::{RateLimitLayer, SubjectFrom};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // From a file instead: `Limiter::from_config("tollway.toml").await?`, which also says which store to share.
    let limiter = Limiter::builder()
        .policy("keys", ["5 requests / minute", "2 concurrent"])?
        .policy("visitors", ["3 requests / minute"])?
        .build();

    let key = SubjectFrom::header("x-api-key");
    let visitor = SubjectFrom::address(AddressRules::default(), |request| {
        request.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
    });

    let app = Router::new()
        .route("/orders", get(async || "your orders\n"))
        .layer(RateLimitLayer::new(limiter.policy("keys")?).subject(key))
        .merge(
            Router::new()
                .route("/", get(async || "hello\n"))
                .layer(RateLimitLayer::new(limiter.policy("visitors")?).subject(visitor)),
        );

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    eprintln!("try: for i in 1 2 3 4; do curl -i http://127.0.0.1:3000/; done");
    eprintln!(
        "and: for i in 1 2 3 4 5 6; do curl -i -H 'x-api-key: anna' http://127.0.0.1:3000/orders; done"
    );
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
