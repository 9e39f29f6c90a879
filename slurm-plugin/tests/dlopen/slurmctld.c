/*
 * Stands for slurmctld: the symbols that the plugins look for there, over a handful of job records with the layout of
 * Slurm's own headers. The functions that start with "mock_" are for the tests.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "src/slurmctld/locks.h"
#include "src/slurmctld/slurmctld.h"

#define JOBS_MAX 1024
#define OPERATOR_UID 500

slurmctld_config_t slurmctld_config;
struct xlist *job_list;
time_t last_job_update;

static pthread_mutex_t job_lock = PTHREAD_MUTEX_INITIALIZER;
/* What site_factor_g_set and a plugin's fini contend for in Slurm. */
static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static job_record_t jobs[JOBS_MAX];
static __typeof__(*jobs[0].details) details[JOBS_MAX]; /* the type's name changes */
static slurmdb_qos_rec_t qos[JOBS_MAX];
static size_t job_count;
static uint32_t waiters, prio_calls, kicks, holds;
static void (*site_factor_set)(job_record_t *);
static uint32_t (*priority_set)(uint32_t, job_record_t *);
/* What the stand-in of priority/multifactor was asked since the test last looked, separated by "; ". */
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;
static char seen[1024], seen_before[1024];

struct mock_job {
	uint32_t job_id;
	uint32_t array_job_id;
	uint32_t state;
	uint32_t priority;
	uint32_t site_factor;
	uint32_t time_limit;
	int64_t submit_time;
	uint32_t direct_set_prio;
	uint32_t magic_is_wrong;
	uint32_t whole_node;
	const char *qos;
	const char *comment;
	const char *admin_comment;
	const char *tres_per_node;
};

void lock_slurmctld(slurmctld_lock_t levels)
{
	if (levels.job != WRITE_LOCK || levels.conf != NO_LOCK || levels.fed != NO_LOCK)
		abort();
	__atomic_add_fetch(&waiters, 1, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&job_lock);
	__atomic_sub_fetch(&waiters, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&holds, 1, __ATOMIC_SEQ_CST);
}

void unlock_slurmctld(slurmctld_lock_t levels)
{
	if (levels.job != WRITE_LOCK)
		abort();
	pthread_mutex_unlock(&job_lock);
}

job_record_t *find_job_record(uint32_t job_id)
{
	for (size_t i = 0; i < job_count; i++)
		if (jobs[i].job_id == job_id)
			return &jobs[i];
	return NULL;
}

void set_job_prio(job_record_t *job_ptr)
{
	__atomic_add_fetch(&waiters, 1, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&context_lock);
	__atomic_sub_fetch(&waiters, 1, __ATOMIC_SEQ_CST);
	if (site_factor_set != NULL)
		site_factor_set(job_ptr);
	pthread_mutex_unlock(&context_lock);
	if (priority_set != NULL)
		job_ptr->priority = priority_set(1000, job_ptr);
	else
		job_ptr->priority = job_ptr->site_factor - NICE_OFFSET + 1000;
	__atomic_add_fetch(&prio_calls, 1, __ATOMIC_SEQ_CST);
}

void queue_job_scheduler(void)
{
	/* Slurm's own takes a mutex of its own; with the job lock held it would still be too long a hold. */
	if (pthread_mutex_trylock(&job_lock) != 0)
		abort();
	pthread_mutex_unlock(&job_lock);
	__atomic_add_fetch(&kicks, 1, __ATOMIC_SEQ_CST);
}

bool validate_operator(uid_t uid)
{
	return uid == OPERATOR_UID;
}

void mock_start(void (*set)(job_record_t *))
{
	job_list = (struct xlist *)&jobs;
	site_factor_set = set;
}

void mock_start_priority(uint32_t (*set)(uint32_t, job_record_t *))
{
	job_list = (struct xlist *)&jobs;
	priority_set = set;
}

void mock_saw(const char *what)
{
	pthread_mutex_lock(&seen_lock);
	if (seen[0] != '\0')
		strncat(seen, "; ", sizeof(seen) - strlen(seen) - 1);
	strncat(seen, what, sizeof(seen) - strlen(seen) - 1);
	pthread_mutex_unlock(&seen_lock);
}

const char *mock_seen(void)
{
	pthread_mutex_lock(&seen_lock);
	strcpy(seen_before, seen);
	seen[0] = '\0';
	pthread_mutex_unlock(&seen_lock);
	return seen_before;
}

void *mock_add_job(const struct mock_job *as)
{
	size_t i = job_count++;
	jobs[i] = (job_record_t){
		.magic = as->magic_is_wrong ? 0 : JOB_MAGIC,
		.job_id = as->job_id,
		.array_job_id = as->array_job_id,
		.user_id = 1001,
		.job_state = as->state,
		.priority = as->priority,
		.site_factor = as->site_factor,
		.time_limit = as->time_limit,
		.direct_set_prio = as->direct_set_prio,
		.details = &details[i],
		.qos_ptr = &qos[i],
		.account = "vision",
		.partition = "gpu",
		.comment = (char *)as->comment,
		.admin_comment = (char *)as->admin_comment,
		.tres_per_node = (char *)as->tres_per_node,
	};
	details[i] = (__typeof__(details[0])){
		.magic = DETAILS_MAGIC, .submit_time = as->submit_time, .min_nodes = 1, .num_tasks = 1,
		.whole_node = as->whole_node,
	};
	qos[i] = (slurmdb_qos_rec_t){ .name = (char *)as->qos };
	return &jobs[i];
}

uint32_t mock_site_factor(uint32_t job_id)
{
	return find_job_record(job_id)->site_factor;
}

uint32_t mock_priority(uint32_t job_id)
{
	return find_job_record(job_id)->priority;
}

/* Whether anybody waits for a lock. */
uint32_t mock_waiters(void)
{
	return __atomic_load_n(&waiters, __ATOMIC_SEQ_CST);
}

uint32_t mock_prio_calls(void)
{
	return __atomic_load_n(&prio_calls, __ATOMIC_SEQ_CST);
}

uint32_t mock_kicks(void)
{
	return __atomic_load_n(&kicks, __ATOMIC_SEQ_CST);
}

uint32_t mock_holds(void)
{
	return __atomic_load_n(&holds, __ATOMIC_SEQ_CST);
}

uint32_t mock_announced(void)
{
	return last_job_update != 0;
}

void mock_hold_jobs(void)
{
	pthread_mutex_lock(&job_lock);
}

void mock_release_jobs(void)
{
	pthread_mutex_unlock(&job_lock);
}

void mock_hold_context(void)
{
	pthread_mutex_lock(&context_lock);
}

void mock_release_context(void)
{
	pthread_mutex_unlock(&context_lock);
}

void mock_shut_down(void)
{
	slurmctld_config.shutdown_time = 1;
}
