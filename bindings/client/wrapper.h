/* What the client calls: Slurm's public headers, and the few exported functions that they leave out. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>

/* src/common/slurm_protocol_defs.h: frees what slurm_get_statistics() gives. */
extern void slurm_free_stats_response_msg(stats_info_response_msg_t *msg);

/* src/common/bitstring.h: the only way to read a bitstr_t (tasks of an array, QOS that may be preempted). */
extern int64_t slurm_bit_size(bitstr_t *bits);
extern int slurm_bit_test(bitstr_t *bits, int64_t bit);
