//! A server with a dashboard for one test, on free ports; dropping it stops it.

use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use tollway::{Limiter, StoreUrl};
use tollway_dashboard::{Dashboard, DashboardBuilder};
use tollway_server::{
    ConfigWithServer, LinkToken, ListenAddress, ListenerKind, Listeners, Server, ServerConfig, TokenRight,
};

use crate::client::{Answer, Live, ask};

/// A running server.
pub(crate) struct Running {
    pub(crate) limiter: Limiter,
    pub(crate) admin: SocketAddr,
    /// `Authorization` of a link that may read, or read and write.
    pub(crate) link: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What a server is started with.
pub(crate) struct Setup {
    pub(crate) config: ServerConfig,
    pub(crate) limiter: Limiter,
    pub(crate) store: StoreUrl,
    pub(crate) link: TokenRight,
}

impl Setup {
    /// From the text of a config file. The link may read.
    pub(crate) fn of(text: &str) -> Self {
        let config = ConfigWithServer::parse(text).unwrap();
        let limiter = Limiter::builder().metrics().config(config.limits()).unwrap().build();
        Self {
            config: config.server().cloned().unwrap_or_default(),
            limiter,
            store: config.limits().store().cloned().unwrap_or_default(),
            link: TokenRight::Read,
        }
    }

    pub(crate) fn writing(self) -> Self {
        Self { link: TokenRight::Write, ..self }
    }

    pub(crate) fn start(self) -> Running {
        self.start_with(|builder| builder)
    }

    pub(crate) fn start_with(
        mut self,
        with: impl FnOnce(DashboardBuilder) -> DashboardBuilder + Send + 'static,
    ) -> Running {
        let any = || ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
        self.config.listen = any();
        self.config.admin = Some(any());
        let link = LinkToken::new(self.link).unwrap();
        let bearer = format!("authorization: Bearer {}\r\n", link.text());
        let limiter = self.limiter.clone();
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let server = Server::new(self.limiter.clone(), &self.config).await.unwrap();
                let server = server.with_link(&link).unwrap();
                let builder = Dashboard::builder(&self.limiter, "serve").store(&self.store);
                let dashboard = with(builder.changes(server.changes())).build();
                let server = server.with_admin_handler(dashboard.make_handler());
                let listeners = Listeners::bind(&self.config).await.unwrap();
                let admin = listeners.addresses().into_iter().find_map(|(kind, address)| match address {
                    ListenAddress::Tcp(address) if kind == ListenerKind::Administration => Some(address),
                    _ => None,
                });
                tell.send(admin.unwrap()).unwrap();
                tokio::select! {
                    served = server.serve(listeners, async { drop(stopped.await) }) => served.unwrap(),
                    () = dashboard.run() => {}
                }
                dashboard.close().await;
            });
        });
        let admin = told.recv().unwrap();
        Running { limiter, admin, link: bearer, stop: Some(stop), thread: Some(thread) }
    }
}

impl Running {
    pub(crate) fn of(text: &str) -> Self {
        Setup::of(text).start()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        ask(self.admin, "GET", path, &self.link, "")
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        ask(self.admin, method, path, &self.link, body)
    }

    pub(crate) fn live(&self) -> Live {
        Live::open(self.admin, &self.link)
    }

    /// Takes one permit without waiting; false: denied.
    pub(crate) fn take(&self, policy: &str, subject: &str) -> bool {
        let take = self.limiter.try_take(policy);
        let take = if subject.is_empty() { take } else { take.subject(subject) };
        take.now().unwrap().is_granted()
    }

    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}
