//! The daemon's side of the plugins' streams: the whole snapshot once, then a commit every few milliseconds.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use market_api::v1::plugin_server::{Plugin, PluginServer};
use market_api::v1::{Hint, Item, Update};
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

/// Rows of one message.
const ROWS: usize = 500;
/// A benchmark submits in a second what a cluster does in a day: its tentative escrows must end as soon.
const COMMIT_EVERY: Duration = Duration::from_millis(20);

/// Serves until it is dropped.
#[derive(Debug)]
pub(crate) struct Service {
    _runtime: Runtime,
}

impl Service {
    pub(crate) fn start(socket: &Path, rows: Vec<Item>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let guard = runtime.enter();
        let listener = UnixListener::bind(socket).expect("a socket");
        drop(guard);
        let server =
            tonic::transport::Server::builder().add_service(PluginServer::new(Market { rows: rows.into() }));
        runtime.spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
        Self { _runtime: runtime }
    }
}

struct Market {
    rows: Arc<[Item]>,
}

#[tonic::async_trait]
impl Plugin for Market {
    type AttachStream = Pin<Box<dyn Stream<Item = Result<Update, Status>> + Send>>;

    async fn attach(
        &self,
        request: Request<Streaming<Hint>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let mut hints = request.into_inner();
        tokio::spawn(async move { while let Some(Ok(_)) = hints.next().await {} });
        let (sender, receiver) = mpsc::channel(8);
        tokio::spawn(speak(Arc::clone(&self.rows), sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

async fn speak(rows: Arc<[Item]>, sender: mpsc::Sender<Result<Update, Status>>) {
    let reset = Update { reset: true, ..Update::default() };
    let chunks = rows.chunks(ROWS).map(|rows| Update { upsert: rows.to_vec(), ..Update::default() });
    for update in std::iter::once(reset).chain(chunks) {
        if sender.send(Ok(update)).await.is_err() {
            return;
        }
    }
    // A read that began at the end of time: whatever is submitted has lapsed by then.
    let commit = Update { commit: true, read_began_monotonic_ns: u64::MAX, ..Update::default() };
    while sender.send(Ok(commit.clone())).await.is_ok() {
        tokio::time::sleep(COMMIT_EVERY).await;
    }
}
