//! States and limits that slurmctld and slurmdbd share.

use slurm_sys as sys;

/// What a job is doing, or how it ended (`enum job_states` of slurm.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BaseState {
    #[default]
    Pending,
    Running,
    Suspended,
    Completed,
    Cancelled,
    Failed,
    Timeout,
    NodeFail,
    Preempted,
    BootFail,
    Deadline,
    OutOfMemory,
    /// A number that this release of Slurm does not use.
    Unknown(u32),
}

impl BaseState {
    /// From a job state without its flags.
    pub(crate) fn from_number(number: u32) -> Self {
        match number {
            sys::JOB_PENDING => Self::Pending,
            sys::JOB_RUNNING => Self::Running,
            sys::JOB_SUSPENDED => Self::Suspended,
            sys::JOB_COMPLETE => Self::Completed,
            sys::JOB_CANCELLED => Self::Cancelled,
            sys::JOB_FAILED => Self::Failed,
            sys::JOB_TIMEOUT => Self::Timeout,
            sys::JOB_NODE_FAIL => Self::NodeFail,
            sys::JOB_PREEMPTED => Self::Preempted,
            sys::JOB_BOOT_FAIL => Self::BootFail,
            sys::JOB_DEADLINE => Self::Deadline,
            sys::JOB_OOM => Self::OutOfMemory,
            other => Self::Unknown(other),
        }
    }

    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Pending => sys::JOB_PENDING,
            Self::Running => sys::JOB_RUNNING,
            Self::Suspended => sys::JOB_SUSPENDED,
            Self::Completed => sys::JOB_COMPLETE,
            Self::Cancelled => sys::JOB_CANCELLED,
            Self::Failed => sys::JOB_FAILED,
            Self::Timeout => sys::JOB_TIMEOUT,
            Self::NodeFail => sys::JOB_NODE_FAIL,
            Self::Preempted => sys::JOB_PREEMPTED,
            Self::BootFail => sys::JOB_BOOT_FAIL,
            Self::Deadline => sys::JOB_DEADLINE,
            Self::OutOfMemory => sys::JOB_OOM,
            Self::Unknown(number) => number,
        }
    }

    /// Neither pending, running nor suspended.
    pub fn is_finished(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::Suspended | Self::Unknown(_))
    }
}

/// A limit on run time, in Slurm's unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum TimeLimit {
    /// Not set here: what stands for it depends on the field.
    #[default]
    Unset,
    Minutes(u32),
    Unlimited,
}

impl TimeLimit {
    pub(crate) fn from_minutes(minutes: u32) -> Self {
        match minutes {
            sys::NO_VAL => Self::Unset,
            sys::INFINITE => Self::Unlimited,
            minutes => Self::Minutes(minutes),
        }
    }

    pub(crate) fn from_minutes16(minutes: u16) -> Self {
        match minutes {
            sys::NO_VAL16 => Self::Unset,
            sys::INFINITE16 => Self::Unlimited,
            minutes => Self::Minutes(u32::from(minutes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_base_state_has_a_name_and_keeps_its_number() {
        for number in 0..sys::JOB_END {
            let state = BaseState::from_number(number);
            assert!(!matches!(state, BaseState::Unknown(_)), "state {number} has no name");
            assert_eq!(state.number(), number);
        }
        assert_eq!(BaseState::from_number(sys::JOB_END), BaseState::Unknown(sys::JOB_END));
    }

    #[test]
    fn only_ended_states_are_finished() {
        assert!(!BaseState::Pending.is_finished());
        assert!(!BaseState::Suspended.is_finished());
        assert!(BaseState::Preempted.is_finished());
    }

    #[test]
    fn limits_know_their_sentinels() {
        assert_eq!(TimeLimit::from_minutes(60), TimeLimit::Minutes(60));
        assert_eq!(TimeLimit::from_minutes(sys::NO_VAL), TimeLimit::Unset);
        assert_eq!(TimeLimit::from_minutes(sys::INFINITE), TimeLimit::Unlimited);
        assert_eq!(TimeLimit::from_minutes16(sys::INFINITE16), TimeLimit::Unlimited);
    }
}
