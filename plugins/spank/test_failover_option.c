/* Tests of the option parser; run by `make check`, which needs no Slurm. */
#include <stdio.h>
#include <string.h>

#include "failover_option.h"

struct expectation {
	const char *text;
	enum failover_reading reading;
	const char *value;
};

static const struct expectation expectations[] = {
	{ NULL, FAILOVER_ACCEPTED, "default" },
	{ "(null)", FAILOVER_ACCEPTED, "default" },
	{ "1", FAILOVER_ACCEPTED, "1" },
	{ "3", FAILOVER_ACCEPTED, "3" },
	{ "007", FAILOVER_ACCEPTED, "7" },
	{ "1000", FAILOVER_ACCEPTED, "1000" },
	{ "000000000000000000000000000012", FAILOVER_ACCEPTED, "12" },
	{ "0", FAILOVER_SWITCHED_OFF, "" },
	{ "000", FAILOVER_SWITCHED_OFF, "" },
	{ "off", FAILOVER_SWITCHED_OFF, "" },
	{ "OFF", FAILOVER_SWITCHED_OFF, "" },
	{ "no", FAILOVER_SWITCHED_OFF, "" },
	{ "false", FAILOVER_SWITCHED_OFF, "" },
	{ "1001", FAILOVER_TOO_MANY, "" },
	{ "4294967297", FAILOVER_TOO_MANY, "" },
	{ "18446744073709551617", FAILOVER_TOO_MANY, "" },
	{ "99999999999999999999999999999999999999999999", FAILOVER_TOO_MANY, "" },
	{ "", FAILOVER_NOT_A_COUNT, "" },
	{ "-1", FAILOVER_NOT_A_COUNT, "" },
	{ "+1", FAILOVER_NOT_A_COUNT, "" },
	{ " 1", FAILOVER_NOT_A_COUNT, "" },
	{ "1 ", FAILOVER_NOT_A_COUNT, "" },
	{ "1.5", FAILOVER_NOT_A_COUNT, "" },
	{ "1e3", FAILOVER_NOT_A_COUNT, "" },
	{ "0x10", FAILOVER_NOT_A_COUNT, "" },
	{ "3,4", FAILOVER_NOT_A_COUNT, "" },
	{ "on", FAILOVER_NOT_A_COUNT, "" },
	{ "default", FAILOVER_NOT_A_COUNT, "" },
	{ "three", FAILOVER_NOT_A_COUNT, "" },
	{ "3\n", FAILOVER_NOT_A_COUNT, "" },
	{ "\xc2\xb3", FAILOVER_NOT_A_COUNT, "" },
};

static int meets(const struct expectation *expected)
{
	char value[FAILOVER_VALUE_SIZE] = "stale";
	enum failover_reading reading = failover_read(expected->text, value);
	const char *remedy = failover_remedy(reading);

	if (reading == expected->reading && !strcmp(value, expected->value) &&
	    (reading == FAILOVER_ACCEPTED) == (remedy == NULL))
		return 1;
	fprintf(stderr, "\"%s\": read as %d \"%s\" (remedy: %s), expected %d \"%s\"\n",
		expected->text ? expected->text : "NULL", (int)reading, value,
		remedy ? remedy : "none", (int)expected->reading, expected->value);
	return 0;
}

int main(void)
{
	size_t count = sizeof(expectations) / sizeof(*expectations), met = 0;

	for (size_t i = 0; i < count; i++)
		met += (size_t)meets(&expectations[i]);
	printf("%zu of %zu texts are read as expected\n", met, count);
	return met == count ? 0 : 1;
}
