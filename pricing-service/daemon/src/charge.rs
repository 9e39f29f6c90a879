//! Which of several controllers is in charge. The daemon acts only while it is the one on its own host: another host's
//! daemon has another ledger, and what both booked would be paid twice.

use std::path::Path;
use std::time::Duration;

use slurm_client::controller::Config;

const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";
/// slurmctld takes the file away for a moment when it writes it anew; its backups look as often
/// (src/slurmctld/heartbeat.c: `get_last_heartbeat`).
const TRIES: u32 = 3;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Why the daemon stands by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StandBy {
    #[error("the slurmctld in charge is that of {0}, not of this host")]
    Elsewhere(String),
    #[error(
        "which controller is in charge cannot be read from {file}: {reason}; quotamarketd needs StateSaveLocation as \
         slurmctld's backups do"
    )]
    Unknown { file: String, reason: String },
}

/// `None`: the controller in charge is the only one, or that of this host.
pub(crate) fn stand_by(config: &Config) -> Option<StandBy> {
    if config.controllers.len() < 2 {
        return None;
    }
    let location = config.state_save_location.as_deref().unwrap_or_default();
    let file = Path::new(location).join("heartbeat");
    let unknown = |reason: String| StandBy::Unknown { file: file.display().to_string(), reason };
    let own_name = match std::fs::read_to_string(HOST_NAME_FILE) {
        Ok(name) => name,
        Err(error) => return Some(unknown(format!("{HOST_NAME_FILE}: {error}"))),
    };
    let bytes = match read(&file) {
        Ok(bytes) => bytes,
        Err(error) => return Some(unknown(error.to_string())),
    };
    match in_charge(&bytes).and_then(|index| config.controllers.get(index)) {
        Some(name) if is_own(name, own_name.trim()) => None,
        Some(name) => Some(StandBy::Elsewhere(name.clone())),
        None => Some(unknown("it names no controller of slurm.conf".to_owned())),
    }
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut tries = 1;
    loop {
        match std::fs::read(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && tries < TRIES => {
                tries += 1;
                std::thread::sleep(TRY_AGAIN_AFTER);
            }
            outcome => return outcome,
        }
    }
}

/// Place among the controllers of slurm.conf of the one that wrote the heartbeat: two big-endian numbers of 64 bits,
/// time and place (src/slurmctld/heartbeat.c: `_heartbeat_thread`). Whoever takes charge writes it before it answers.
fn in_charge(heartbeat: &[u8]) -> Option<usize> {
    let place = heartbeat.get(8..16)?.try_into().ok()?;
    usize::try_from(u64::from_be_bytes(place)).ok()
}

/// As slurmctld finds itself among the controllers (src/slurmctld/controller.c: `_controller_index`).
fn is_own(controller: &str, own_name: &str) -> bool {
    controller == own_name || own_name.split('.').next() == Some(controller)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heartbeat(place: u64) -> Vec<u8> {
        [1_764_547_200_u64.to_be_bytes(), place.to_be_bytes()].concat()
    }

    #[test]
    fn the_heartbeat_names_the_controller() {
        assert_eq!(in_charge(&heartbeat(0)), Some(0));
        assert_eq!(in_charge(&heartbeat(3)), Some(3));
        assert_eq!(in_charge(&heartbeat(0)[..15]), None);
        assert_eq!(in_charge(b""), None);
    }

    #[test]
    fn a_host_knows_its_own_name_short_and_long() {
        assert!(is_own("ctl1", "ctl1"));
        assert!(is_own("ctl1", "ctl1.example.org"));
        assert!(is_own("ctl1.example.org", "ctl1.example.org"));
        assert!(!is_own("ctl1.example.org", "ctl1"));
        assert!(!is_own("ctl", "ctl1.example.org"));
    }
}
