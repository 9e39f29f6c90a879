/*
 * What differs between the versions of Slurm that the plugins are built for, and their layouts as they were checked
 * against Debian's binaries. A version that is not here needs that check first.
 */
#ifndef BID_VERSIONS_H
#define BID_VERSIONS_H

#include <stddef.h>

#include "src/slurmctld/locks.h"
#include "src/slurmctld/slurmctld.h"
#include "slurm/slurm_version.h"

#define CHECK_OFFSET(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #field " of " #type)
#define CHECK_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)

#if SLURM_VERSION_NUMBER == SLURM_VERSION_NUM(22, 5, 8)

/* priority_p_get_priority_factors_list is given sprio's message (until 23.11). */
#define BID_FACTORS_LIST_TAKES_REQUEST 1
/* Priority plugins have priority_p_recover (since 23.02) and priority_p_thread_start (since 23.11). */
#define BID_PRIORITY_IS_STARTED_IN_STEPS 0
/* What the errors of Slurm's plugin loader mean. */
#define bid_loader_strerror plugin_strerror
/* Whether a job takes its nodes for itself: whole_node is one of some values here, and a set of bits later. */
#define BID_TAKES_WHOLE_NODES(details) ((details)->whole_node == WHOLE_NODE_REQUIRED)

CHECK_SIZE(job_record_t, 1048);
CHECK_OFFSET(job_record_t, job_id, 360);
CHECK_OFFSET(job_record_t, user_id, 992);
CHECK_OFFSET(job_record_t, priority, 656);
CHECK_OFFSET(job_record_t, site_factor, 792);
CHECK_OFFSET(job_record_t, admin_comment, 16);
CHECK_OFFSET(job_record_t, comment, 144);
CHECK_OFFSET(job_record_t, job_state, 408);
CHECK_SIZE(slurmctld_lock_t, 20);
CHECK_SIZE(job_desc_msg_t, 880);
CHECK_OFFSET(job_desc_msg_t, comment, 120);
CHECK_OFFSET(job_desc_msg_t, site_factor, 588);

#elif SLURM_VERSION_NUMBER == SLURM_VERSION_NUM(24, 11, 5)

#define BID_FACTORS_LIST_TAKES_REQUEST 0
#define BID_PRIORITY_IS_STARTED_IN_STEPS 1
#define bid_loader_strerror slurm_strerror
#define BID_TAKES_WHOLE_NODES(details) (((details)->whole_node & WHOLE_NODE_REQUIRED) != 0)

CHECK_SIZE(job_record_t, 1160);
CHECK_OFFSET(job_record_t, job_id, 392);
CHECK_OFFSET(job_record_t, user_id, 1104);
CHECK_OFFSET(job_record_t, priority, 728);
CHECK_OFFSET(job_record_t, site_factor, 896);
CHECK_OFFSET(job_record_t, admin_comment, 16);
CHECK_OFFSET(job_record_t, comment, 144);
CHECK_OFFSET(job_record_t, job_state, 448);
CHECK_SIZE(slurmctld_lock_t, 20);
CHECK_SIZE(job_desc_msg_t, 912);
CHECK_OFFSET(job_desc_msg_t, comment, 120);
CHECK_OFFSET(job_desc_msg_t, site_factor, 628);

#else
#error "this version of Slurm was not checked: add its layouts here"
#endif

#endif
