//! What the gateway prints at its start: where it listens, its store, and a variable for each api.

use serde_json::{Map, Value, json};
use tollway::{Limiter, StoreError, StoreUrl};
use tollway_gateway::exports;
use tollway_server::{Listeners, ServerConfig};

use super::env::address;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{BAD, FAINT, STRONG};

pub(super) fn print(
    listeners: &Listeners,
    config: &ServerConfig,
    limiter: &Limiter,
    store: &StoreUrl,
    unreachable: Option<&StoreError>,
    context: &Context,
) -> Result<(), Failure> {
    let output = context.output();
    let mut addresses = listeners.addresses().into_iter().map(|(_, address)| address);
    let (listen, admin) = (addresses.next(), addresses.next());
    let url = listen.as_ref().and_then(|listen| address(listen, config.tls.is_some()));
    let apis = limiter.apis();
    if output.is_json() {
        let urls = apis.iter().filter_map(|api| {
            let url = url.as_ref()?;
            Some((api.name().to_string(), Value::from(format!("{url}/{}", api.name()))))
        });
        let mut message = json!({
            "listen": listen.map(|listen| listen.to_string()),
            "store": store.to_string(),
            "apis": urls.collect::<Map<_, _>>(),
        });
        if let Some(admin) = &admin {
            message["admin"] = admin.to_string().into();
        }
        if let Some(error) = unreachable {
            message["store_error"] = error.to_string().into();
        }
        output.json(&message)?;
    } else if !output.is_quiet() {
        if let Some(listen) = &listen {
            let place = url.clone().unwrap_or_else(|| listen.to_string());
            output.line(format_args!("{:9} {STRONG}{place}{STRONG:#}", "gateway"))?;
        }
        if let Some(admin) = &admin {
            let place = address(admin, config.tls.is_some()).unwrap_or_else(|| admin.to_string());
            output.line(format_args!("{:9} {STRONG}{place}{STRONG:#}", "admin"))?;
        }
        output.line(format_args!("{:9} {FAINT}{store}{FAINT:#}", "store"))?;
        if let Some(error) = unreachable {
            output.sentence(&format!("{:10}", ""), BAD, &error.to_string())?;
        }
        for api in apis.iter() {
            for export in url.iter().flat_map(|url| exports(api, url)) {
                output.line(format_args!("{export}"))?;
            }
        }
    }
    output.flush()
}
