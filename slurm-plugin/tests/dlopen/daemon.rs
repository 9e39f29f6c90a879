//! A daemon that says what a test wants it to say.

use std::fs;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use market_api::v1::plugin_server::{Plugin, PluginServer};
use market_api::v1::{self, hint, item};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

/// How often it speaks; the protocol asks for once a second.
const HEARTBEAT: Duration = Duration::from_millis(50);

/// What is sent as a whole to whoever attaches, and anew whenever it changes. `None`: frozen, not a word.
type Said = Option<Vec<v1::Item>>;

/// Serves until it is dropped.
pub(crate) struct Daemon {
    _runtime: Runtime,
    said: watch::Sender<Said>,
    hints: Arc<Mutex<Vec<v1::Hint>>>,
}

impl Daemon {
    pub(crate) fn start(socket: &Path, rows: Vec<v1::Item>) -> Self {
        let _ = fs::remove_file(socket);
        let runtime = Runtime::new().expect("a runtime");
        let (said, _) = watch::channel(Some(rows));
        let hints = Arc::new(Mutex::new(Vec::new()));
        let service = Service { said: said.subscribe(), hints: Arc::clone(&hints) };
        let guard = runtime.enter();
        let listener = UnixListener::bind(socket).expect("a socket");
        drop(guard);
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(PluginServer::new(service))
                .serve_with_incoming(UnixListenerStream::new(listener)),
        );
        Self { _runtime: runtime, said, hints }
    }

    pub(crate) fn say(&self, rows: Vec<v1::Item>) {
        self.said.send_replace(Some(rows));
    }

    /// Keeps its connections and says nothing.
    pub(crate) fn freeze(&self) {
        self.said.send_replace(None);
    }

    /// The roles and versions that said hello.
    pub(crate) fn hellos(&self) -> Vec<v1::Hello> {
        self.hints(|hint| match hint {
            hint::Hint::Hello(hello) => Some(hello),
            _ => None,
        })
    }

    pub(crate) fn submitted(&self) -> Vec<String> {
        self.hints(|hint| match hint {
            hint::Hint::Submitted(submitted) => Some(submitted.uuid),
            _ => None,
        })
    }

    fn hints<T>(&self, wanted: impl Fn(hint::Hint) -> Option<T>) -> Vec<T> {
        let hints = self.hints.lock().expect("no panic");
        hints.iter().filter_map(|hint| hint.hint.clone().and_then(&wanted)).collect()
    }
}

struct Service {
    said: watch::Receiver<Said>,
    hints: Arc<Mutex<Vec<v1::Hint>>>,
}

#[tonic::async_trait]
impl Plugin for Service {
    type AttachStream = Pin<Box<dyn Stream<Item = Result<v1::Update, Status>> + Send>>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::Hint>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let hints = Arc::clone(&self.hints);
        let mut incoming = request.into_inner();
        tokio::spawn(async move {
            while let Some(Ok(hint)) = incoming.next().await {
                hints.lock().expect("no panic").push(hint);
            }
        });
        let (sender, receiver) = mpsc::channel(8);
        tokio::spawn(speak(self.said.clone(), sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

async fn speak(mut said: watch::Receiver<Said>, sender: mpsc::Sender<Result<v1::Update, Status>>) {
    said.mark_changed();
    loop {
        let is_new = said.has_changed().unwrap_or(false);
        let rows = said.borrow_and_update().clone();
        let updates = match rows {
            None => Vec::new(),
            Some(_) if !is_new => vec![v1::Update::default()],
            // In pieces, as the real one does.
            Some(rows) => {
                let mut updates = vec![v1::Update { reset: true, ..v1::Update::default() }];
                updates.extend(
                    rows.chunks(2).map(|rows| v1::Update { upsert: rows.to_vec(), ..v1::Update::default() }),
                );
                updates.push(v1::Update {
                    commit: true,
                    read_began_monotonic_ns: 1,
                    ..v1::Update::default()
                });
                updates
            }
        };
        for update in updates {
            if sender.send(Ok(update)).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(HEARTBEAT).await;
    }
}

pub(crate) fn row(item: item::Item) -> v1::Item {
    v1::Item { item: Some(item) }
}

/// One pool, one partition, and alice, who pays from vision; a second of silence is an outage.
pub(crate) fn market(free_su: i64, known: &[String]) -> Vec<v1::Item> {
    let settings =
        v1::Settings { stale_after_ms: 1_000, over_time_limit_s: Some(0), ..v1::Settings::default() };
    let pool =
        v1::PoolTerms { name: "a100".into(), reserve_usu: 250_000, rho0_usu: 250_000, node_gpus_max: 8 };
    let partition = v1::PartitionTerms {
        name: "gpu".into(),
        is_default: true,
        pools: vec!["a100".into()],
        default_time_min: Some(60),
        ..v1::PartitionTerms::default()
    };
    let account = |name: &str, free_su| v1::AccountTerms { name: name.into(), free_usu: free_su * 1_000_000 };
    let association = |account: &str| v1::AssociationTerms {
        key: Some(v1::AssociationKey { account: account.into(), uid: 1001, partition: String::new() }),
        ..v1::AssociationTerms::default()
    };
    let user = v1::UserTerms { uid: 1001, name: "alice".into(), default_account: "vision".into() };
    let mut rows = vec![
        row(item::Item::Settings(settings)),
        row(item::Item::Pool(pool)),
        row(item::Item::Partition(partition)),
        row(item::Item::Account(account("vision", free_su))),
        row(item::Item::Account(account("probe", 1_000_000))),
        row(item::Item::Association(association("vision"))),
        row(item::Item::Association(association("probe"))),
        row(item::Item::User(user)),
    ];
    rows.extend(known.iter().map(|uuid| row(item::Item::KnownJob(v1::KnownJob { uuid: uuid.clone() }))));
    rows
}

/// One factor for each of the jobs, submitted in second 7.
pub(crate) fn factors(job_ids: impl IntoIterator<Item = u32>, factor: u32) -> Vec<v1::Item> {
    let job = |job_id| Some(v1::JobKey { job_id, submit_s: 7 });
    job_ids
        .into_iter()
        .map(|job_id| row(item::Item::Factor(v1::Factor { job: job(job_id), factor })))
        .collect()
}
