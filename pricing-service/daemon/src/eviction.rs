//! What the slurmctld thread does to a running job that gives way, and what came of it.

use market::stamp::CheckpointSignal;
use slurm_client::ClientError;
use slurm_client::controller::{self, SignalTo};

use crate::model::EvictionRow;

/// One step of an eviction. Done twice, as after a crash in between, it tells the job twice but ends it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Act {
    pub(crate) eviction: EvictionRow,
    pub(crate) job_id: u32,
    /// As squeue writes it: `12`, `12_3`.
    pub(crate) display_id: String,
    pub(crate) step: Step,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The signal goes only to those that asked for one: its default action would kill the others.
    Warn {
        message: String,
        signal: Option<CheckpointSignal>,
    },
    /// Nobody needs the GPUs any more.
    CallOff {
        message: String,
    },
    TakeGpus {
        can_be_requeued: bool,
    },
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acted {
    pub(crate) eviction: EvictionRow,
    pub(crate) outcome: ActOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActOutcome {
    Warned,
    CalledOff,
    Requeued,
    Cancelled,
    /// slurmctld did not do it now; it is wanted again.
    Failed,
}

impl Act {
    pub(crate) fn run(&self) -> Acted {
        let outcome = self.outcome().unwrap_or_else(|error| {
            if !error.is_transient() && !error.is_finished_job() {
                tracing::warn!("job {} does not give way yet: {error}", self.display_id);
            }
            ActOutcome::Failed
        });
        Acted { eviction: self.eviction, outcome }
    }

    pub(crate) fn not_done(&self) -> Acted {
        Acted { eviction: self.eviction, outcome: ActOutcome::Failed }
    }

    fn outcome(&self) -> Result<ActOutcome, ClientError> {
        match &self.step {
            Step::Warn { message, signal } => {
                self.tell(message)?;
                if let Some(signal) = signal {
                    let to = if signal.batch_only { SignalTo::BatchShell } else { SignalTo::Steps };
                    controller::signal_job(&self.display_id, signal.number, to)?;
                }
                Ok(ActOutcome::Warned)
            }
            Step::CallOff { message } => self.tell(message).map(|()| ActOutcome::CalledOff),
            Step::TakeGpus { can_be_requeued } => self.take_gpus(*can_be_requeued),
        }
    }

    /// A job that has nowhere to read it is none the worse.
    fn tell(&self, message: &str) -> Result<(), ClientError> {
        match controller::notify_job(self.job_id, message) {
            Err(error) if error.is_transient() => Err(error),
            _ => Ok(()),
        }
    }

    fn take_gpus(&self, can_be_requeued: bool) -> Result<ActOutcome, ClientError> {
        if can_be_requeued {
            match controller::requeue_job(self.job_id) {
                Err(error) if error.is_not_requeueable() => {}
                answer => return answer.map(|()| ActOutcome::Requeued),
            }
        }
        controller::cancel_job(&self.display_id).map(|()| ActOutcome::Cancelled)
    }
}
