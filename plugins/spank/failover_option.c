#include "failover_option.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

static const char *const words_for_off[] = { "off", "no", "none", "false", "never" };

static bool is_missing(const char *text)
{
	return !text || !strcmp(text, "(null)");
}

static bool is_word_for_off(const char *text)
{
	for (size_t i = 0; i < sizeof(words_for_off) / sizeof(*words_for_off); i++)
		if (!strcasecmp(text, words_for_off[i]))
			return true;
	return false;
}

static bool is_digits(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (!isdigit((unsigned char)*text))
			return false;
	return true;
}

static enum failover_reading read_count(const char *digits, char *value)
{
	unsigned count = 0;

	/* Stopping past the limit keeps a text of any length from overflowing the count. */
	for (; *digits && count <= FAILOVER_MAX; digits++)
		count = count * 10 + (unsigned)(*digits - '0');
	if (count == 0)
		return FAILOVER_SWITCHED_OFF;
	if (count > FAILOVER_MAX)
		return FAILOVER_TOO_MANY;
	snprintf(value, FAILOVER_VALUE_SIZE, "%u", count);
	return FAILOVER_ACCEPTED;
}

enum failover_reading failover_read(const char *text, char value[FAILOVER_VALUE_SIZE])
{
	*value = '\0';
	if (is_missing(text)) {
		snprintf(value, FAILOVER_VALUE_SIZE, "%s", FAILOVER_SITE_DEFAULT);
		return FAILOVER_ACCEPTED;
	}
	if (is_digits(text))
		return read_count(text, value);
	return is_word_for_off(text) ? FAILOVER_SWITCHED_OFF : FAILOVER_NOT_A_COUNT;
}

const char *failover_remedy(enum failover_reading reading)
{
	switch (reading) {
	case FAILOVER_ACCEPTED:
		return NULL;
	case FAILOVER_SWITCHED_OFF:
		return "to submit without failover, leave the option out";
	case FAILOVER_TOO_MANY:
		return "at most " TEXT(FAILOVER_MAX) " failovers can be asked for";
	case FAILOVER_NOT_A_COUNT:
		break;
	}
	return "write --failover, or --failover=N with N from 1 to " TEXT(FAILOVER_MAX);
}
