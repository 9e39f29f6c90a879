//! A market of a large site, as the daemon would publish it, and jobs of its users.

use market_api::v1::item::Item as Row;
use market_api::v1::{self, Item};

pub(crate) const ACCOUNTS: u32 = 500;
pub(crate) const USERS: u32 = 2_000;
pub(crate) const PARTITIONS: u32 = 20;
pub(crate) const PENDING_JOBS: u32 = 10_000;
pub(crate) const FIRST_UID: u32 = 10_000;
/// When the pending jobs were submitted.
pub(crate) const SUBMITTED_S: i64 = 1_790_000_000;
const MODELS: [&str; 8] = ["a100", "a30", "b200", "h100", "h200", "l40s", "mi300x", "v100"];
const SU: i64 = 1_000_000;

pub(crate) fn account(user: u32) -> String {
    format!("account{:03}", user % ACCOUNTS)
}

pub(crate) fn partition(number: u32) -> String {
    format!("part{number:02}")
}

pub(crate) fn rows() -> Vec<Item> {
    let settings =
        v1::Settings { stale_after_ms: 60_000, over_time_limit_s: Some(0), ..v1::Settings::default() };
    let users = (0..USERS).flat_map(|number| {
        let uid = FIRST_UID + number;
        let user = v1::UserTerms { uid, name: format!("user{number:04}"), default_account: account(number) };
        // Everybody is in two projects.
        let associations = [account(number), account(number + 1)].map(|account| v1::AssociationTerms {
            key: Some(v1::AssociationKey { account, uid, partition: String::new() }),
            default_qos: "normal".into(),
            qos: ["free", "normal", "standard"].map(String::from).to_vec(),
        });
        std::iter::once(Row::User(user)).chain(associations.map(Row::Association))
    });
    let accounts = (0..ACCOUNTS)
        .map(|number| Row::Account(v1::AccountTerms { name: account(number), free_usu: 1_000_000_000 * SU }));
    let jobs = (1..=PENDING_JOBS).flat_map(|job_id| {
        let job = Some(v1::JobKey { job_id, submit_s: SUBMITTED_S });
        let uuid = format!("{job_id:08x}-8f5c-4e0a-9a39-0b1f3a2c4d5e");
        [Row::Factor(v1::Factor { job, factor: 65_537 }), Row::KnownJob(v1::KnownJob { uuid })]
    });
    let pools = MODELS.iter().map(|model| Row::Pool(pool(model)));
    let partitions = (0..PARTITIONS).map(|number| Row::Partition(partition_terms(number)));
    let rows = std::iter::once(Row::Settings(settings)).chain(pools).chain(partitions);
    rows.chain(accounts).chain(users).chain(jobs).map(|row| Item { item: Some(row) }).collect()
}

fn pool(model: &str) -> v1::PoolTerms {
    v1::PoolTerms { name: model.into(), reserve_usu: SU / 4, rho0_usu: SU / 4, node_gpus_max: 8 }
}

/// The first has everything and is the default; the others have up to three models each.
fn partition_terms(number: u32) -> v1::PartitionTerms {
    let has = |model: usize| number == 0 || model as u32 % 4 == number % 4 || model as u32 == number % 8;
    let pools = MODELS.iter().enumerate().filter(|(model, _)| has(*model)).map(|(_, name)| (*name).into());
    v1::PartitionTerms {
        name: partition(number),
        is_default: number == 0,
        pools: pools.collect(),
        default_time_min: Some(60),
        max_time_min: Some(7 * 24 * 60),
        gpu_nodes: 64,
        ..v1::PartitionTerms::default()
    }
}
