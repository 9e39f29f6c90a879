/* Slurm's public headers, in the one order that compiles. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>
