/* Calls what Rust cannot call: with arguments that no double can hold. */
double call_fs_factor(double (*calc_fs_factor)(long double, long double), double usage, double shares)
{
	return calc_fs_factor((long double)usage / 3, (long double)shares / 7);
}

/* The difference of two numbers that are one and the same as doubles: 2^-60. */
double call_with_close_numbers(double (*calc_fs_factor)(long double, long double))
{
	return calc_fs_factor(1.0L + 0x1p-60L, 1.0L);
}
