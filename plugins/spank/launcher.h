/*
 * Which tasks are container launchers that ended by themselves, and the note that says so. Knows
 * nothing of Slurm.
 */
#ifndef LAUNCHER_H
#define LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether a task was a container launcher that failed before a program of the user's ran, as far as
 * its exit status tells: apptainer and singularity end with 255 then, podman and docker with 125
 * (podman-run(1), docker-run(1)), and a "pull" runs no program at all. Such a launcher is one of a
 * site's own programs, named by its full path or found along PATH, the task's own search path: what a
 * user calls so is none. STATUS is that of wait(2).
 */
bool launcher_failed(int argc, char *const argv[], const char *path, int status);

/*
 * Append "STEP PATH" to FOLDER/JOB.launcher, a file for root alone, if FOLDER/JOB is there: only a
 * job that is flagged for failover has one. A file of some KiB grows no more. Returns 0, or the
 * errno of what stood in the way.
 */
int launcher_note(const char *folder, uint32_t job, uint32_t step, const char *path);

#endif
