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

#pragma weak plugin_load_and_link
#pragma weak plugin_strerror
#pragma weak plugin_unload

#define CALLS_WAIT_MS 200

/* As in Slurm's slurm_priority.c, which has them in this order. */
static struct {
	uint32_t (*set)(uint32_t last_prio, void *record);
	void (*reconfig)(bool assoc_clear);
	void (*set_assoc_usage)(void *assoc);
	double (*calc_fs_factor)(long double usage_efctv, long double shares_norm);
	void *(*get_priority_factors_list)(void *request, uint32_t uid);
	void (*job_end)(void *record);
} multifactor;
static const char *const names[] = {
	"priority_p_set",
	"priority_p_reconfig",
	"priority_p_set_assoc_usage",
	"priority_p_calc_fs_factor",
	"priority_p_get_priority_factors_list",
	"priority_p_job_end",
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
	if (plugin_load_and_link == NULL || plugin_strerror == NULL || plugin_unload == NULL)
		return "Slurm's plugin loader is not in this process";
	if (kept_mapped != NULL) {
		if (!calls_end_within(0))
			return "a call into the one before has not come back";
		dlclose(kept_mapped);
		kept_mapped = NULL;
	}
	handle = plugin_load_and_link("priority/multifactor", NAME_COUNT, (const char **)names, (void **)&multifactor);
	if (handle == PLUGIN_INVALID_HANDLE)
		return plugin_strerror(errno);
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

void *bid_multifactor_get_priority_factors_list(void *request, uint32_t uid)
{
	void *list;

	if (!enter())
		return NULL;
	list = multifactor.get_priority_factors_list(request, uid);
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
