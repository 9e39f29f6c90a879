/*
 * Slurm's own priority/multifactor behind priority/bid: loaded and unloaded by Slurm's loader, with its path list,
 * version check, init and fini. It must really be unloaded, because what its fini sets is never reset.
 *
 * Slurm calls from many threads and goes on calling after fini. A call is counted, not locked out: nothing waits for
 * us, and nothing is unmapped below a call.
 */
#include <dlfcn.h>
#include <errno.h>
#include <time.h>

#include "src/common/plugin.h"

#include "multifactor.h"
#include "shim.h"
#include "versions.h"

#pragma weak plugin_load_and_link
#pragma weak plugin_strerror
#pragma weak plugin_unload
#pragma weak slurm_strerror

#define CALLS_WAIT_MS 200

/* As in Slurm's own loader of priority plugins (src/interfaces/priority.c, earlier src/common/slurm_priority.c). */
static struct {
	uint32_t (*set)(uint32_t last_prio, void *record);
	void (*reconfig)(bool assoc_clear);
	void (*set_assoc_usage)(void *assoc);
	double (*calc_fs_factor)(long double usage_efctv, long double shares_norm);
#if BID_FACTORS_LIST_TAKES_REQUEST
	void *(*get_priority_factors_list)(void *request, uid_t uid);
#else
	void *(*get_priority_factors_list)(uid_t uid);
#endif
	void (*job_end)(void *record);
#if BID_PRIORITY_IS_STARTED_IN_STEPS
	uint32_t (*recover)(uint32_t prio_boost);
	void (*thread_start)(void);
#endif
} multifactor;
static const char *const names[] = {
	"priority_p_set",
	"priority_p_reconfig",
	"priority_p_set_assoc_usage",
	"priority_p_calc_fs_factor",
	"priority_p_get_priority_factors_list",
	"priority_p_job_end",
#if BID_PRIORITY_IS_STARTED_IN_STEPS
	"priority_p_recover",
	"priority_p_thread_start",
#endif
};
#define NAME_COUNT ((int)(sizeof(names) / sizeof(names[0])))
_Static_assert(sizeof(multifactor) == sizeof(names), "one function for each name");

static plugin_handle_t handle;
static void *kept_mapped;
static bool is_loaded;
static uint32_t calls;

static void leave(void)
{
	__atomic_sub_fetch(&calls, 1, __ATOMIC_SEQ_CST);
}

/* Counted first and looked up second, while unload closes first and counts second: one of the two sees the other. */
static bool enter(void)
{
	__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&is_loaded, __ATOMIC_SEQ_CST))
		return true;
	leave();
	return false;
}

static bool calls_end_within(int milliseconds)
{
	const struct timespec pause = { .tv_nsec = 1000 * 1000 };

	while (__atomic_load_n(&calls, __ATOMIC_SEQ_CST) != 0) {
		if (milliseconds-- <= 0)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

const char *bid_multifactor_load(void)
{
	if (plugin_load_and_link == NULL || bid_loader_strerror == NULL || plugin_unload == NULL)
		return "Slurm's plugin loader is not in this process";
	if (kept_mapped != NULL) {
		if (!calls_end_within(0))
			return "a call into the one before has not come back";
		dlclose(kept_mapped);
		kept_mapped = NULL;
	}
	handle = plugin_load_and_link("priority/multifactor", NAME_COUNT, (const char **)names, (void **)&multifactor);
	if (handle == PLUGIN_INVALID_HANDLE)
		return bid_loader_strerror(errno);
	__atomic_store_n(&is_loaded, true, __ATOMIC_SEQ_CST);
	return NULL;
}

void bid_multifactor_unload(void)
{
	Dl_info file;

	if (!__atomic_exchange_n(&is_loaded, false, __ATOMIC_SEQ_CST))
		return;
	if (!calls_end_within(CALLS_WAIT_MS) && dladdr((void *)multifactor.set, &file) != 0)
		kept_mapped = dlopen(file.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	plugin_unload(handle);
}

uint32_t bid_multifactor_set(uint32_t last_prio, void *record)
{
	uint32_t priority;

	if (!enter())
		return bid_present_priority(record);
	priority = multifactor.set(last_prio, record);
	leave();
	return priority;
}

void bid_multifactor_reconfig(bool assoc_clear)
{
	if (!enter())
		return;
	multifactor.reconfig(assoc_clear);
	leave();
}

void bid_multifactor_set_assoc_usage(void *assoc)
{
	if (!enter())
		return;
	multifactor.set_assoc_usage(assoc);
	leave();
}

double bid_multifactor_calc_fs_factor(long double usage_efctv, long double shares_norm)
{
	double factor;

	if (!enter())
		return 0.0;
	factor = multifactor.calc_fs_factor(usage_efctv, shares_norm);
	leave();
	return factor;
}

#if BID_FACTORS_LIST_TAKES_REQUEST
void *bid_multifactor_get_priority_factors_list(void *request, uid_t uid)
#else
void *bid_multifactor_get_priority_factors_list(uid_t uid)
#endif
{
	void *list;

	if (!enter())
		return NULL;
#if BID_FACTORS_LIST_TAKES_REQUEST
	list = multifactor.get_priority_factors_list(request, uid);
#else
	list = multifactor.get_priority_factors_list(uid);
#endif
	leave();
	return list;
}

void bid_multifactor_job_end(void *record)
{
	if (!enter())
		return;
	multifactor.job_end(record);
	leave();
}

#if BID_PRIORITY_IS_STARTED_IN_STEPS

uint32_t bid_multifactor_recover(uint32_t prio_boost)
{
	uint32_t boost;

	if (!enter())
		return 0;
	boost = multifactor.recover(prio_boost);
	leave();
	return boost;
}

void bid_multifactor_thread_start(void)
{
	if (!enter())
		return;
	multifactor.thread_start();
	leave();
}

#else

uint32_t bid_multifactor_recover(uint32_t prio_boost)
{
	(void)prio_boost;
	return 0;
}

void bid_multifactor_thread_start(void)
{
}

#endif
