/* Slurm's priority/multifactor, to which priority/bid hands on. Mirrored by hand in src/priority.rs. */
#ifndef BID_MULTIFACTOR_H
#define BID_MULTIFACTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "versions.h"

/*
 * Loads it as Slurm would, its init included; NULL, or why that cannot be. Whoever calls holds no lock of the plugin,
 * and neither this nor unload runs twice at once: Slurm sees to that for init and fini.
 */
const char *bid_multifactor_load(void);
/*
 * Ends and unloads it. Calls that are under way get 200 ms to come back; if one does not, its code stays mapped.
 * Harmless if it is not loaded.
 */
void bid_multifactor_unload(void);

/* Slurm's priority_p_*, handed on. Without multifactor: the job's present priority, 0, NULL, nothing. */
uint32_t bid_multifactor_set(uint32_t last_prio, void *record);
void bid_multifactor_reconfig(bool assoc_clear);
void bid_multifactor_set_assoc_usage(void *assoc);
void bid_multifactor_job_end(void *record);
/* Nobody calls these two where Slurm's priority plugins have none: see versions.h. */
uint32_t bid_multifactor_recover(uint32_t prio_boost);
void bid_multifactor_thread_start(void);
/* The arguments of these two Rust cannot know or has no type for; it jumps here with whatever Slurm passed. */
double bid_multifactor_calc_fs_factor(long double usage_efctv, long double shares_norm);
#if BID_FACTORS_LIST_TAKES_REQUEST
void *bid_multifactor_get_priority_factors_list(void *request, uid_t uid);
#else
void *bid_multifactor_get_priority_factors_list(uid_t uid);
#endif

#endif
