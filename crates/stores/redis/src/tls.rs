//! TLS, if it is built in: certificates from files, and the ring provider.

#[cfg(feature = "tls")]
pub(crate) use built_in::{client, sentinel};
#[cfg(not(feature = "tls"))]
pub(crate) use left_out::{client, sentinel};

#[cfg(feature = "tls")]
mod built_in {
    use std::path::Path;

    use redis::sentinel::SentinelClientBuilder;
    use redis::{Client, ClientTlsConfig, ConnectionInfo, RedisResult, TlsCertificates, TlsMode};

    use crate::address::Address;

    pub(crate) fn client(info: ConnectionInfo, address: &Address) -> RedisResult<Client> {
        if address.tls { Client::build_with_tls(info, certificates(address)?) } else { Client::open(info) }
    }

    pub(crate) fn sentinel(
        builder: SentinelClientBuilder,
        address: &Address,
    ) -> RedisResult<SentinelClientBuilder> {
        if !address.tls {
            return Ok(builder);
        }
        let certificates = certificates(address)?;
        let builder = builder
            .set_client_to_sentinel_tls_mode(TlsMode::Secure)
            .set_client_to_redis_tls_mode(TlsMode::Secure);
        Ok(builder
            .set_client_to_sentinel_certificates(certificates.clone())
            .set_client_to_redis_certificates(certificates))
    }

    fn certificates(address: &Address) -> RedisResult<TlsCertificates> {
        // Another part of the program may have chosen one already; that one is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let read = |path: &Path| std::fs::read(path).map_err(|error| named(path, &error));
        let files = &address.files;
        let root_cert = files.ca.as_deref().map(read).transpose()?;
        let client_tls = match (&files.cert, &files.key) {
            (Some(cert), Some(key)) => {
                Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? })
            }
            (None, None) => None,
            _ => return Err(std::io::Error::other("`cert` and `key` go together").into()),
        };
        Ok(TlsCertificates { client_tls, root_cert })
    }

    fn named(path: &Path, error: &std::io::Error) -> std::io::Error {
        std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    }
}

#[cfg(not(feature = "tls"))]
mod left_out {
    use redis::sentinel::SentinelClientBuilder;
    use redis::{Client, ConnectionInfo, RedisResult};

    use crate::address::Address;

    pub(crate) fn client(info: ConnectionInfo, _: &Address) -> RedisResult<Client> {
        Client::open(info)
    }

    pub(crate) fn sentinel(
        builder: SentinelClientBuilder,
        _: &Address,
    ) -> RedisResult<SentinelClientBuilder> {
        Ok(builder)
    }
}
