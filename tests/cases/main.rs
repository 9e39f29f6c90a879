//! The promises of the market, each on a real Slurm.

mod admin;
mod changes;
mod configuration;
mod federation;
mod ids;
mod lifecycle;
mod money;
mod nodes;
mod order;
mod outages;
mod plugins;
mod priority;
mod reservations;
mod restarts;
mod runs;
mod several;
mod submissions;
mod takeover;
mod tiers;
