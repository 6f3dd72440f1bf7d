/*
 * sbatch --failover[=N]: lets a user flag a batch job for failover after a hardware fault; and the
 * witness of a container launcher that failed by itself.
 *
 * The flag travels in the job control environment, where Slurm's prologs and epilogs find it as
 * SPANK_FAILOVER=N, also after a requeue and after a restart of slurmctld: reading it costs no RPC.
 * This is the only file that knows spank.h.
 */
#define _GNU_SOURCE /* program_invocation_short_name */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/spank.h>

#include "failover_option.h"
#include "launcher.h"

SPANK_PLUGIN(failover, 1)

#define JOB_CONTROL_NAME "FAILOVER"

#define LONGEST_SEARCH_PATH 4096

/*
 * sbatch and salloc leave this in the environment of what they start, and every sbatch, salloc and
 * srun in there takes it for an option of its own (spank_process_env_options() in Slurm).
 */
#define INHERITED_OPTION "SLURM_SPANK__SLURM_SPANK_OPTION_failover_failover"

/* Where the node's hooks keep a file for each flagged job (node/attempts.py). */
#define FLAGGED_JOBS "/run/slurm-failover"

/* What the user asked for: empty for nothing, else what failover_read() made of it. */
static char wanted[FAILOVER_VALUE_SIZE];

static int take_option(int val, const char *text, int remote)
{
	enum failover_reading reading;

	(void)val;
	if (remote)
		return ESPANK_SUCCESS;
	reading = failover_read(text, wanted);
	if (reading == FAILOVER_ACCEPTED)
		return ESPANK_SUCCESS;
	slurm_error("--failover=%.40s: %s", text, failover_remedy(reading));
	return ESPANK_BAD_ARG;
}

static char option_name[] = "failover";
static char option_argument[] = "N";
static char option_usage[] =
	"after a hardware fault run the batch job again on other nodes, up to N times";

static struct spank_option failover_option = {
	option_name, option_argument, option_usage, 2 /* optional argument */, 0, take_option,
};

static bool at_submission(void)
{
	spank_context_t context = spank_context();

	return context == S_CTX_ALLOCATOR || context == S_CTX_LOCAL;
}

/*
 * Slurm has one context for sbatch and salloc. A site may have renamed the real sbatch behind a
 * wrapper, so whatever is not salloc is taken for sbatch.
 */
static bool submits_a_batch_job(void)
{
	return spank_context() == S_CTX_ALLOCATOR &&
	       strncmp(program_invocation_short_name, "salloc", strlen("salloc")) != 0;
}

/* A static option table would reach srun only: sbatch and salloc need the call from here. */
int slurm_spank_init(spank_t spank, int argc, char *argv[])
{
	(void)argc;
	(void)argv;
	if (at_submission())
		unsetenv(INHERITED_OPTION);
	return spank_option_register(spank, &failover_option) == ESPANK_SUCCESS ? 0 : -1;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char *argv[])
{
	(void)argc;
	(void)argv;
	if (!at_submission() || !*wanted)
		return 0;
	if (!submits_a_batch_job()) {
		slurm_spank_log("--failover has no effect here: "
				"only batch jobs, submitted with sbatch, are failed over");
		return 0;
	}
	if (spank_job_control_setenv(spank, JOB_CONTROL_NAME, wanted, 1) == ESPANK_SUCCESS)
		return 0;
	slurm_error("--failover: the job could not be flagged for failover");
	return -1;
}

/*
 * As root in slurmstepd, when the status of a task is known. Whether it was the image that could not
 * be fetched stands in the job's log; that a launcher of the site's ended by itself stands here,
 * where no user writes.
 */
int slurm_spank_task_exit(spank_t spank, int argc, char *argv[])
{
	int task_argc = 0, status = 0;
	uint32_t job = 0, step = 0;
	char **task_argv = NULL;
	char path[LONGEST_SEARCH_PATH] = "";

	(void)argc;
	(void)argv;
	if (spank_get_item(spank, S_JOB_ARGV, &task_argc, &task_argv) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_TASK_EXIT_STATUS, &status) != ESPANK_SUCCESS)
		return 0;
	/* A longer search path than that is none: the launcher then has to be named in full. */
	if (spank_getenv(spank, "PATH", path, sizeof(path)) != ESPANK_SUCCESS)
		*path = '\0';
	if (!launcher_failed(task_argc, task_argv, path, status) ||
	    spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
		return 0;
	(void)launcher_note(FLAGGED_JOBS, job, step, task_argv[0]);
	return 0;
}
