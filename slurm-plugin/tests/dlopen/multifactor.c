/*
 * Stands for Slurm's priority/multifactor: tells the stand-in of slurmctld what it is asked. A copy that was shut down
 * once stays so, as with Slurm's own.
 */
#include <stdio.h>
#include <string.h>

#include "versions.h"

const char plugin_name[] = "stands for priority/multifactor";
const char plugin_type[] = "priority/multifactor";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

extern void mock_saw(const char *what);
extern void mock_hold_jobs(void);
extern void mock_release_jobs(void);

static bool was_shut_down;

int init(void)
{
	mock_saw(was_shut_down ? "init after shutdown" : "init");
	return 0;
}

int fini(void)
{
	was_shut_down = true;
	mock_saw("fini");
	return 0;
}

uint32_t priority_p_set(uint32_t last_prio, job_record_t *job_ptr)
{
	return job_ptr->site_factor - NICE_OFFSET + last_prio;
}

void priority_p_reconfig(bool assoc_clear)
{
	mock_saw(assoc_clear ? "reconfig, clearing" : "reconfig");
}

void priority_p_set_assoc_usage(const char *name)
{
	mock_saw(name);
}

double priority_p_calc_fs_factor(long double usage_efctv, long double shares_norm)
{
	return usage_efctv - shares_norm;
}

/* Waits for a lock, as Slurm's own does. The list is as many bytes from nowhere as the uid. */
static void *factors_list(uid_t uid)
{
	char line[32];

	snprintf(line, sizeof(line), "list for %u", uid);
	mock_saw(line);
	mock_hold_jobs();
	mock_release_jobs();
	return (void *)(uintptr_t)uid;
}

#if BID_FACTORS_LIST_TAKES_REQUEST
void *priority_p_get_priority_factors_list(void *request, uid_t uid)
{
	return strcmp(request, "request") == 0 ? factors_list(uid) : NULL;
}
#else
void *priority_p_get_priority_factors_list(uid_t uid)
{
	return factors_list(uid);
}
#endif

void priority_p_job_end(job_record_t *job_ptr)
{
	char line[32];

	snprintf(line, sizeof(line), "end of %u", job_ptr->job_id);
	mock_saw(line);
}

#if BID_PRIORITY_IS_STARTED_IN_STEPS
uint32_t priority_p_recover(uint32_t prio_boost)
{
	mock_saw("recover");
	return prio_boost + 1;
}

void priority_p_thread_start(void)
{
	mock_saw("start of the thread");
}
#endif
