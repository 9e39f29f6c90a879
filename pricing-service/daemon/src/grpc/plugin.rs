//! One stream for each plugin role: the whole snapshot, then differences, and a sign of life each second.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use market_api::v1;
use market_api::v1::plugin_server::Plugin;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::caller;
use crate::controller::ControllerPort;
use crate::doctor::Attached;
use crate::engine::Event;
use crate::publication::Publication;

const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(1);
/// Messages on their way to a plugin; beyond, the stream waits for it.
const MESSAGES_AHEAD: usize = 4;

#[derive(Debug)]
pub(crate) struct PluginService {
    publications: watch::Receiver<Arc<Publication>>,
    controller: ControllerPort,
    events: Sender<Event>,
    attached: Attached,
}

impl PluginService {
    pub(crate) fn new(
        publications: watch::Receiver<Arc<Publication>>,
        controller: ControllerPort,
        events: Sender<Event>,
        attached: Attached,
    ) -> Self {
        Self { publications, controller, events, attached }
    }
}

#[tonic::async_trait]
impl Plugin for PluginService {
    type AttachStream = Pin<Box<dyn Stream<Item = Result<v1::Update, Status>> + Send>>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::Hint>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let uid = caller(&request)?.uid;
        // SAFETY: geteuid takes nothing and cannot fail.
        let own_uid = unsafe { libc::geteuid() };
        if uid != 0 && uid != own_uid {
            return Err(Status::permission_denied("only slurmctld may attach"));
        }
        let mut hints = request.into_inner();
        let hello = match hints.message().await?.and_then(|hint| hint.hint) {
            Some(v1::hint::Hint::Hello(hello)) => hello,
            _ => return Err(Status::invalid_argument("the first hint of a stream must be hello")),
        };
        if !matches!(hello.role(), v1::Role::JobSubmit | v1::Role::Repricer) {
            return Err(Status::invalid_argument("hello names no role"));
        }
        tracing::info!(
            "plugin {} {} attached from Slurm {}",
            hello.role().as_str_name(),
            hello.plugin_version,
            hello.slurm_version
        );
        let (updates, stream) = mpsc::channel(MESSAGES_AHEAD);
        let (controller, events) = (self.controller.clone(), self.events.clone());
        tokio::spawn(async move {
            while let Ok(Some(hint)) = hints.message().await {
                match hint.hint {
                    // The engine is gone only when the process ends.
                    Some(v1::hint::Hint::ChangeRefused(refused)) => {
                        let _ = events.send(Event::ChangeRefused(refused));
                    }
                    _ => controller.read_now(),
                }
            }
        });
        let on_the_line = self.attached.add(&hello);
        let feed = feed(hello.role(), self.publications.clone(), updates);
        tokio::spawn(async move {
            feed.await;
            drop(on_the_line);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

/// Until the plugin goes.
async fn feed(
    role: v1::Role,
    mut publications: watch::Receiver<Arc<Publication>>,
    updates: mpsc::Sender<Result<v1::Update, Status>>,
) {
    let mut sent: Option<Arc<Publication>> = None;
    let mut sign_of_life = tokio::time::interval(SIGN_OF_LIFE_EVERY);
    sign_of_life.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let current = Arc::clone(&publications.borrow_and_update());
        let messages = match &sent {
            // Slurm was not read yet: the daemon lives, but a snapshot without accounts would refuse everybody.
            _ if current.rows.is_empty() => Vec::new(),
            Some(sent) if Arc::ptr_eq(sent, &current) => vec![current.unchanged()],
            sent => current.since(sent.as_deref(), role),
        };
        sent = Some(current).filter(|current| !current.rows.is_empty());
        for message in messages {
            if updates.send(Ok(message)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            changed = publications.changed() => if changed.is_err() { return },
            _ = sign_of_life.tick() => {}
        }
        if updates.is_closed() {
            return;
        }
    }
}
