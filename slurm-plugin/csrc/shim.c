/*
 * The only code of this product that knows Slurm's private structs and locks.
 *
 * Every symbol of Slurm is weak here: the plugin loads in any process, also with immediate binding, and finds out at
 * run time what is there. Functions start with "bid_" and stay hidden, so that nothing interposes.
 */
#include <stdio.h>
#include <time.h>

#include "src/slurmctld/locks.h"
#include "src/slurmctld/slurmctld.h"
#include "src/slurmctld/fed_mgr.h" /* needs the other two first */

#include "shim.h"
#include "versions.h"

#pragma weak fed_mgr_fed_rec
#pragma weak slurm_conf
#pragma weak slurmctld_config
#pragma weak job_list
#pragma weak last_job_update
#pragma weak lock_slurmctld
#pragma weak unlock_slurmctld
#pragma weak find_job_record
#pragma weak set_job_prio
#pragma weak queue_job_scheduler
#pragma weak validate_operator
#pragma weak slurm_xfree

/* Names behind macros of Slurm's own headers; libslurmfull exports them under these. */
extern char *slurm_xstrdup(const char *text) __attribute__((weak));
extern void slurm_xstrcat(char **text, const char *more) __attribute__((weak));
extern void slurm_info(const char *format, ...) __attribute__((weak, format(printf, 1, 2)));
extern int slurm_error(const char *format, ...) __attribute__((weak, format(printf, 1, 2)));

int bid_inside_slurmctld(void)
{
	return lock_slurmctld != NULL && unlock_slurmctld != NULL && find_job_record != NULL &&
	       set_job_prio != NULL && queue_job_scheduler != NULL && &job_list != NULL &&
	       &last_job_update != NULL && &slurmctld_config != NULL;
}

int bid_slurmctld_shuts_down(void)
{
	return &slurmctld_config != NULL && slurmctld_config.shutdown_time != 0;
}

const char *bid_slurm_conf_path(void)
{
	return &slurm_conf != NULL ? slurm_conf.slurm_conf : NULL;
}

const char *bid_site_factor_plugin(void)
{
	return &slurm_conf != NULL ? slurm_conf.site_factor_plugin : NULL;
}

int bid_is_federated(void)
{
	return &fed_mgr_fed_rec != NULL && fed_mgr_fed_rec != NULL;
}

int bid_requeues_by_default(void)
{
	return &slurm_conf == NULL || slurm_conf.job_requeue != 0;
}

void bid_log_info(const char *line)
{
	if (slurm_info != NULL)
		slurm_info("%s", line);
	else
		fprintf(stderr, "%s\n", line);
}

void bid_log_error(const char *line)
{
	if (slurm_error != NULL)
		slurm_error("%s", line);
	else
		fprintf(stderr, "error: %s\n", line);
}

int bid_has_xmalloc(void)
{
	return slurm_xstrdup != NULL && slurm_xfree != NULL && slurm_xstrcat != NULL;
}

void bid_replace(char **field, const char *text)
{
	slurm_xfree((void **)field);
	*field = slurm_xstrdup(text);
}

void bid_append(char **field, const char *text)
{
	slurm_xstrcat(field, text);
}

int bid_is_operator(uint32_t uid)
{
	if (uid == 0)
		return 1;
	if (&slurm_conf != NULL && slurm_conf.slurm_user_id == uid)
		return 1;
	return validate_operator != NULL && validate_operator(uid);
}

/* A record that Slurm still counts as one, with its details; NULL for anything else. */
static job_record_t *whole(void *record)
{
	job_record_t *job = record;
	if (job == NULL || job->magic != JOB_MAGIC)
		return NULL;
	if (job->details == NULL || job->details->magic != DETAILS_MAGIC)
		return NULL;
	return job;
}

int bid_read_job(void *record, struct bid_job *out)
{
	const job_record_t *job = whole(record);
	if (job == NULL)
		return 0;
	*out = (struct bid_job){
		.job_id = job->job_id,
		.array_job_id = job->array_job_id,
		.user_id = job->user_id,
		.pending = IS_JOB_PENDING(job),
		.submit_time = job->details->submit_time,
		.time_limit = job->time_limit,
		.min_nodes = job->details->min_nodes,
		.max_nodes = job->details->max_nodes,
		.min_cpus = job->details->min_cpus,
		.num_tasks = job->details->num_tasks,
		.whole_nodes = BID_TAKES_WHOLE_NODES(job->details),
		.array_tasks = job->array_recs != NULL ? job->array_recs->task_cnt : 0,
		.array_throttle = job->array_recs != NULL ? job->array_recs->max_run_tasks : 0,
		.account = job->account,
		.partition = job->partition,
		.qos = job->qos_ptr != NULL ? job->qos_ptr->name : NULL,
		.comment = job->comment,
		.admin_comment = job->admin_comment,
		.tres_per_job = job->tres_per_job,
		.tres_per_node = job->tres_per_node,
		.tres_per_socket = job->tres_per_socket,
		.tres_per_task = job->tres_per_task,
	};
	return 1;
}

uint32_t bid_present_priority(const void *record)
{
	const job_record_t *job = record;
	return job != NULL && job->magic == JOB_MAGIC ? job->priority : 0;
}

void bid_set_site_factor(void *record, uint32_t site_factor)
{
	job_record_t *job = record;
	job->site_factor = site_factor;
}

/* Held jobs have priority 0, and set_job_prio would release them; a priority set by hand is an operator's override. */
static int may_be_repriced(const job_record_t *job, const struct bid_factor *item)
{
	return IS_JOB_PENDING(job) && job->details->submit_time == item->submit_time && job->priority != 0 &&
	       job->priority != NO_VAL && !job->direct_set_prio && job->site_factor != item->site_factor;
}

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

long bid_reprice(const struct bid_factor *items, size_t count, const uint32_t *stop, uint64_t *held_ns)
{
	const slurmctld_lock_t locks = { .job = WRITE_LOCK, .node = READ_LOCK, .part = READ_LOCK };
	long changed = 0;
	uint64_t began_ns;

	lock_slurmctld(locks);
	began_ns = monotonic_ns();
	for (size_t i = 0; i < count && job_list != NULL; i++) {
		/* At shutdown the priority plugin frees what set_job_prio reads, before it tells us to stop. */
		if (slurmctld_config.shutdown_time != 0 || __atomic_load_n(stop, __ATOMIC_ACQUIRE) != 0)
			break;
		job_record_t *job = whole(find_job_record(items[i].job_id));
		if (job == NULL || !may_be_repriced(job, &items[i]))
			continue;
		job->site_factor = items[i].site_factor;
		set_job_prio(job);
		changed++;
	}
	*held_ns = monotonic_ns() - began_ns;
	unlock_slurmctld(locks);
	return changed;
}

void bid_announce_repricing(void)
{
	const slurmctld_lock_t locks = { .job = WRITE_LOCK };

	lock_slurmctld(locks);
	last_job_update = time(NULL);
	unlock_slurmctld(locks);
	queue_job_scheduler();
}
