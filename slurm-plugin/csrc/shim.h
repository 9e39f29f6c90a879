/* What the Rust side sees of Slurm. Mirrored by hand in src/host.rs; the assertions in both keep them equal. */
#ifndef BID_SHIM_H
#define BID_SHIM_H

#include <stddef.h>
#include <stdint.h>

/* A job record as plain data. The texts belong to the record: read them before the callback returns. */
struct bid_job {
	uint32_t job_id;
	uint32_t array_job_id; /* 0: no array */
	uint32_t user_id;
	uint32_t pending;
	int64_t submit_time;
	uint32_t time_limit; /* minutes, INFINITE, or NO_VAL */
	uint32_t min_nodes;
	uint32_t max_nodes; /* 0: not given */
	uint32_t min_cpus;
	uint32_t num_tasks;
	uint32_t whole_nodes; /* takes its nodes for itself, with all that is in them */
	uint32_t array_tasks; /* 0: does not stand for the pending tasks of an array */
	uint32_t array_throttle; /* 0: none */
	const char *account;
	const char *partition;
	const char *qos;
	const char *comment;
	const char *admin_comment;
	const char *tres_per_job;
	const char *tres_per_node;
	const char *tres_per_socket;
	const char *tres_per_task;
};
_Static_assert(sizeof(struct bid_job) == 128, "struct bid_job is mirrored in host.rs");

struct bid_factor {
	uint32_t job_id;
	uint32_t site_factor; /* NICE_OFFSET included */
	int64_t submit_time;
};
_Static_assert(sizeof(struct bid_factor) == 16, "struct bid_factor is mirrored in host.rs");

/* Whether this process is slurmctld, with all that repricing needs. */
int bid_inside_slurmctld(void);
/* A hint without a lock: slurmctld sets its time of shutdown once. */
int bid_slurmctld_shuts_down(void);
/* NULL outside of Slurm's daemons. */
const char *bid_slurm_conf_path(void);
/* PrioritySiteFactorPlugin; NULL where no slurm.conf was read. */
const char *bid_site_factor_plugin(void);
/* Whether the cluster is in a federation; a hint without a lock. */
int bid_is_federated(void);
/* JobRequeue; true where no slurm.conf was read, as Slurm's own default. */
int bid_requeues_by_default(void);
void bid_log_info(const char *line);
void bid_log_error(const char *line);

/* Without it bid_replace and bid_append must not be called. */
int bid_has_xmalloc(void);
void bid_replace(char **field, const char *text);
void bid_append(char **field, const char *text);

/* Operator, SlurmUser or root. Takes the association manager's read lock for a moment. */
int bid_is_operator(uint32_t uid);

/* 0, with *out untouched, for a record that is not whole. The caller holds the job lock. */
int bid_read_job(void *record, struct bid_job *out);
/* 0 for what is no record. The caller holds the job lock. */
uint32_t bid_present_priority(const void *record);
/* The record was whole, and the caller holds the job write lock. */
void bid_set_site_factor(void *record, uint32_t site_factor);

/*
 * Under the job write lock, taken here: gives each pending job that still is the one meant its factor, where that
 * differs. Returns how many changed; *held_ns is how long the lock was held. Ends early when *stop is not 0 or slurmctld is shutting down.
 * Calls back into site_factor_p_set: no lock of the plugin may be held. Only inside slurmctld.
 */
long bid_reprice(const struct bid_factor *items, size_t count, const uint32_t *stop, uint64_t *held_ns);
/* Once after a round that changed something: clients see new priorities, the scheduler runs soon. */
void bid_announce_repricing(void);

#endif
