/*
 * What a user may write after --failover, and what it means. Knows nothing of Slurm.
 */
#ifndef FAILOVER_OPTION_H
#define FAILOVER_OPTION_H

#include <stddef.h>

/* The largest N that anyone may ask for. A site's own limit, which is lower, is in its settings. */
#define FAILOVER_MAX 1000

/* What is handed on for a bare --failover: failover is on, with the site's default for N. */
#define FAILOVER_SITE_DEFAULT "default"

/* Room for the longest value that is handed on, with its terminating zero. */
#define FAILOVER_VALUE_SIZE sizeof(FAILOVER_SITE_DEFAULT)

enum failover_reading {
	FAILOVER_ACCEPTED,
	FAILOVER_SWITCHED_OFF, /* 0, off, no, ...: there is no way to write "off" but leaving it out */
	FAILOVER_TOO_MANY,     /* a whole number above FAILOVER_MAX */
	FAILOVER_NOT_A_COUNT   /* anything else */
};

/*
 * Read TEXT, the part after "--failover=". A missing text (NULL, or "(null)", which is how Slurm
 * spells an option without a value) means the site's default. When the text is accepted, VALUE
 * holds "default" or the number without leading zeros; otherwise VALUE is the empty string.
 */
enum failover_reading failover_read(const char *text, char value[FAILOVER_VALUE_SIZE]);

/* What is wrong with a text that was not accepted and what to write instead; NULL if accepted. */
const char *failover_remedy(enum failover_reading reading);

#endif
