/*
 * Stands for slurmctld: the symbols that the plugins under measurement look for there, over as little as they need.
 * Debian's job_submit_lua.so walks the lists of partitions, jobs and reservations; those of jobs and reservations are
 * empty, which is the best case for it. Functions that start with "bench_" are for the benchmark.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/common/list.h"
#include "src/slurmctld/locks.h"
#include "src/slurmctld/slurmctld.h"

slurmctld_config_t slurmctld_config;
struct xlist *job_list, *part_list, *resv_list;
time_t last_job_update, last_resv_update;
void *acct_db_conn;
uint16_t accounting_enforce;

static pthread_mutex_t job_lock = PTHREAD_MUTEX_INITIALIZER;

void lock_slurmctld(slurmctld_lock_t levels)
{
	(void)levels;
	pthread_mutex_lock(&job_lock);
}

void unlock_slurmctld(slurmctld_lock_t levels)
{
	(void)levels;
	pthread_mutex_unlock(&job_lock);
}

job_record_t *find_job_record(uint32_t job_id)
{
	(void)job_id;
	return NULL;
}

void set_job_prio(job_record_t *job_ptr)
{
	(void)job_ptr;
}

void queue_job_scheduler(void)
{
}

bool validate_operator(uid_t uid)
{
	(void)uid;
	return false;
}

buf_t *get_job_script(const job_record_t *job_ptr)
{
	(void)job_ptr;
	return NULL;
}

void bench_set_up(uint32_t partitions)
{
	job_list = list_create(NULL);
	resv_list = list_create(NULL);
	part_list = list_create(NULL);
	for (uint32_t i = 0; i < partitions; i++) {
		part_record_t *part = calloc(1, sizeof(*part));
		char name[16];
		snprintf(name, sizeof(name), "part%02u", i);
		part->name = strdup(name);
		list_append(part_list, part);
	}
}

/* A job that has been pending since `submit_time`, as site_factor_p_set sees it. */
void *bench_pending_job(uint32_t job_id, int64_t submit_time, const char *comment)
{
	job_record_t *job = calloc(1, sizeof(*job));
	job->magic = JOB_MAGIC;
	job->job_id = job_id;
	job->user_id = 10000 + job_id % 2000;
	job->job_state = JOB_PENDING;
	job->priority = 1000;
	job->site_factor = NICE_OFFSET;
	job->time_limit = 240;
	job->details = calloc(1, sizeof(*job->details));
	job->details->magic = DETAILS_MAGIC;
	job->details->submit_time = submit_time;
	job->details->min_nodes = 1;
	job->details->num_tasks = 8;
	job->account = strdup("account007");
	job->partition = strdup("part00");
	job->comment = strdup(comment);
	job->admin_comment = strdup("bid:0d9f4f5e-8f5c-4e0a-9a39-0b1f3a2c4d5e 3.5 tier=standard");
	job->tres_per_node = strdup("gres:gpu:h100:8");
	return job;
}

uint32_t bench_site_factor(const void *record)
{
	const job_record_t *job = record;
	return job->site_factor;
}
