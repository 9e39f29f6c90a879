//! The engine driven by facts alone, as slurmctld and slurmdbd would tell them.

mod commands;
mod life;
mod restart;
mod world;
