/* Tests of what counts as a failed launcher; run by `make check`, which needs no Slurm. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

#define EXIT(code) ((code) << 8)
#define KILLED 9

struct expectation {
	const char *argv[3];
	int status;
	bool failed;
};

static const struct expectation expectations[] = {
	{ { "/usr/bin/apptainer", "exec" }, EXIT(255), true },
	{ { "/usr/bin/singularity", "run" }, EXIT(255), true },
	{ { "/usr/local/bin/apptainer", "exec" }, EXIT(255), true },
	{ { "/usr/bin/podman", "run" }, EXIT(125), true },
	{ { "/usr/bin/docker", "run" }, EXIT(125), true },
	{ { "/usr/bin/docker", "pull" }, EXIT(1), true },
	{ { "/usr/bin/podman" }, EXIT(125), true },
	{ { "/usr/bin/apptainer", "exec" }, EXIT(0), false },
	{ { "/usr/bin/apptainer", "exec" }, EXIT(1), false },
	{ { "/usr/bin/apptainer", "exec" }, EXIT(125), false },
	{ { "/usr/bin/podman", "run" }, EXIT(255), false },
	{ { "/usr/bin/docker", "pull" }, EXIT(0), false },
	{ { "/usr/bin/docker", "pull" }, KILLED, false },
	{ { "/usr/bin/apptainer", "exec" }, KILLED, false },
	{ { "apptainer", "exec" }, EXIT(255), false },
	{ { "./apptainer", "exec" }, EXIT(255), false },
	{ { "/home/alice/bin/apptainer", "exec" }, EXIT(255), false },
	{ { "/usr/bin/../../home/alice/apptainer", "exec" }, EXIT(255), false },
	{ { "/usr/bin/apptainer2", "exec" }, EXIT(255), false },
	{ { "/usr/bin/python3", "pull" }, EXIT(255), false },
	{ { "", "pull" }, EXIT(255), false },
	{ { NULL }, EXIT(255), false },
};

static int meets(const struct expectation *expected)
{
	char *argv[3];
	int argc = 0;

	for (int i = 0; i < 3; i++) {
		argv[i] = expected->argv[i] ? strdup(expected->argv[i]) : NULL;
		argc += argv[i] != NULL;
	}
	bool failed = launcher_failed(argc, argv, "", expected->status);
	if (failed != expected->failed)
		fprintf(stderr, "%s %s, status %x: read as %d\n", argv[0] ? argv[0] : "NULL",
			argv[1] ? argv[1] : "", (unsigned)expected->status, failed);
	for (int i = 0; i < 3; i++)
		free(argv[i]);
	return failed == expected->failed;
}

static int a_bare_name_is_looked_for_as_exec_does(void)
{
	char folder[] = "/tmp/launcher-XXXXXX", file[64], path[128];
	char name[] = "apptainer", word[] = "exec";
	char *const argv[] = { name, word, NULL };
	bool is_right;

	if (!mkdtemp(folder))
		return 0;
	snprintf(file, sizeof(file), "%s/apptainer", folder);
	fclose(fopen(file, "w"));
	chmod(file, 0755);
	snprintf(path, sizeof(path), "%s:/usr/bin", folder);
	is_right = !launcher_failed(2, argv, path, EXIT(255)) &&
		   !launcher_failed(2, argv, ":/usr/bin", EXIT(255)) &&
		   !launcher_failed(2, argv, "", EXIT(255)) &&
		   !launcher_failed(2, argv, NULL, EXIT(255));
	unlink(file);
	rmdir(folder);
	return is_right;
}

static int notes_only_a_flagged_job(void)
{
	char folder[] = "/tmp/launcher-XXXXXX", file[64], text[128] = "";
	FILE *opened;
	int is_right;

	if (!mkdtemp(folder))
		return 0;
	is_right = launcher_note(folder, 7, 0, "/usr/bin/podman") == ENOENT;
	snprintf(file, sizeof(file), "%s/7", folder);
	opened = fopen(file, "w");
	is_right = is_right && opened && !fclose(opened);
	is_right = is_right && !launcher_note(folder, 7, 0, "/usr/bin/podman") &&
		   !launcher_note(folder, 7, 1, "/usr/bin/docker");
	unlink(file);
	snprintf(file, sizeof(file), "%s/7.launcher", folder);
	opened = fopen(file, "r");
	is_right = is_right && opened && fread(text, 1, sizeof(text) - 1, opened) > 0 &&
		   !strcmp(text, "0 /usr/bin/podman\n1 /usr/bin/docker\n");
	if (opened)
		fclose(opened);
	unlink(file);
	rmdir(folder);
	return is_right;
}

int main(void)
{
	size_t count = sizeof(expectations) / sizeof(*expectations) + 2, met = 0;

	for (size_t i = 0; i + 2 < count; i++)
		met += (size_t)meets(&expectations[i]);
	met += (size_t)a_bare_name_is_looked_for_as_exec_does();
	met += (size_t)notes_only_a_flagged_job();
	printf("%zu of %zu launchers are judged as expected\n", met, count);
	return met == count ? 0 : 1;
}
