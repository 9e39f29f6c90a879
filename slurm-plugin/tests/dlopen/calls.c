/* Calls what Rust cannot call: with arguments that no double can hold, or that differ between versions of Slurm. */
#include "versions.h"

double call_fs_factor(double (*calc_fs_factor)(long double, long double), double usage, double shares)
{
	return calc_fs_factor((long double)usage / 3, (long double)shares / 7);
}

/* The difference of two numbers that are one and the same as doubles: 2^-60. */
double call_with_close_numbers(double (*calc_fs_factor)(long double, long double))
{
	return calc_fs_factor(1.0L + 0x1p-60L, 1.0L);
}

#if BID_FACTORS_LIST_TAKES_REQUEST
void *call_factors_list(void *(*get_priority_factors_list)(void *, uid_t), uid_t uid)
{
	return get_priority_factors_list("request", uid);
}
#else
void *call_factors_list(void *(*get_priority_factors_list)(uid_t), uid_t uid)
{
	return get_priority_factors_list(uid);
}
#endif
