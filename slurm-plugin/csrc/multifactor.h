/* Slurm's priority/multifactor, to which priority/bid hands on. Mirrored by hand in src/priority.rs. */
#ifndef BID_MULTIFACTOR_H
#define BID_MULTIFACTOR_H

#include <stdbool.h>
#include <stdint.h>

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

/* Slurm's priority_p_* of 22.05, handed on. Without multifactor: the job's present priority, 0, NULL, nothing. */
uint32_t bid_multifactor_set(uint32_t last_prio, void *record);
void bid_multifactor_reconfig(bool assoc_clear);
void bid_multifactor_set_assoc_usage(void *assoc);
double bid_multifactor_calc_fs_factor(long double usage_efctv, long double shares_norm);
void *bid_multifactor_get_priority_factors_list(void *request, uint32_t uid);
void bid_multifactor_job_end(void *record);

#endif
