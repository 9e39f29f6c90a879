//! The engine driven by facts alone, as slurmctld and slurmdbd would tell them.

mod commands;
mod drain;
mod entry;
mod evictions;
mod gaps;
mod het;
mod life;
mod prices;
mod restart;
mod spot;
mod troubles;
mod views;
mod world;
