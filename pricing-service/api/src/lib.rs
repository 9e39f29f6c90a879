//! What quotamarketd, its Slurm plugins and sbid agree on: the gRPC contract and the configuration file.

pub mod config;
pub mod doctor;

/// Messages and services of `proto/quotamarket.proto`.
#[allow(missing_debug_implementations, clippy::all)]
pub mod v1 {
    tonic::include_proto!("quotamarket.v1");
}
