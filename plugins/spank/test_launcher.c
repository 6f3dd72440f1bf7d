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

static bool make_file(const char *file)
{
	FILE *opened = fopen(file, "w");

	return opened && !fclose(opened);
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
	is_right = make_file(file) && !chmod(file, 0755);
	snprintf(path, sizeof(path), "%s:/usr/bin", folder);
	is_right = is_right && !launcher_failed(2, argv, path, EXIT(255)) &&
		   !launcher_failed(2, argv, ":/usr/bin", EXIT(255)) &&
		   !launcher_failed(2, argv, "", EXIT(255)) &&
		   !launcher_failed(2, argv, NULL, EXIT(255));
	unlink(file);
	rmdir(folder);
	return is_right;
}

/* The bytes of a file, as many as fit into TEXT; an empty text where it can not be read. */
static size_t read_file(const char *file, char *text, size_t size)
{
	FILE *opened = fopen(file, "r");
	size_t length = opened ? fread(text, 1, size - 1, opened) : 0;

	text[length] = '\0';
	if (opened)
		fclose(opened);
	return length;
}

static int notes_only_a_flagged_job(void)
{
	char folder[] = "/tmp/launcher-XXXXXX", job[64], note[64], text[128];
	bool is_right;

	if (!mkdtemp(folder))
		return 0;
	snprintf(job, sizeof(job), "%s/7", folder);
	snprintf(note, sizeof(note), "%s/7.launcher", folder);
	is_right = launcher_note(folder, 7, 0, "/usr/bin/podman") == ENOENT && make_file(job) &&
		   !launcher_note(folder, 7, 0, "/usr/bin/podman") &&
		   !launcher_note(folder, 7, 1, "/usr/bin/docker");
	read_file(note, text, sizeof(text));
	is_right = is_right && !strcmp(text, "0 /usr/bin/podman\n1 /usr/bin/docker\n");
	unlink(note);
	unlink(job);
	rmdir(folder);
	return is_right;
}

static int a_note_does_not_grow_for_ever(void)
{
	char folder[] = "/tmp/launcher-XXXXXX", job[64], note[64], text[8192];
	bool is_right;

	if (!mkdtemp(folder))
		return 0;
	snprintf(job, sizeof(job), "%s/7", folder);
	snprintf(note, sizeof(note), "%s/7.launcher", folder);
	is_right = make_file(job);
	for (unsigned step = 0; step < 1000; step++)
		is_right = !launcher_note(folder, 7, step, "/usr/bin/podman") && is_right;
	size_t length = read_file(note, text, sizeof(text));
	is_right = is_right && length > 1000 && length < 5000;
	unlink(note);
	unlink(job);
	rmdir(folder);
	return is_right;
}

static int a_link_in_place_of_a_note_is_not_followed(void)
{
	char folder[] = "/tmp/launcher-XXXXXX", job[64], note[64], text[16];
	bool is_right;

	if (!mkdtemp(folder))
		return 0;
	snprintf(job, sizeof(job), "%s/7", folder);
	snprintf(note, sizeof(note), "%s/7.launcher", folder);
	is_right = make_file(job) && !symlink(job, note) &&
		   launcher_note(folder, 7, 0, "/usr/bin/podman") == ELOOP &&
		   !read_file(job, text, sizeof(text));
	unlink(note);
	unlink(job);
	rmdir(folder);
	return is_right;
}

static int (*const stories[])(void) = {
	a_bare_name_is_looked_for_as_exec_does,
	notes_only_a_flagged_job,
	a_note_does_not_grow_for_ever,
	a_link_in_place_of_a_note_is_not_followed,
};

int main(void)
{
	const size_t known = sizeof(expectations) / sizeof(*expectations);
	const size_t told = sizeof(stories) / sizeof(*stories);
	size_t met = 0;

	for (size_t i = 0; i < known; i++)
		met += (size_t)meets(&expectations[i]);
	for (size_t i = 0; i < told; i++)
		met += (size_t)stories[i]();
	printf("%zu of %zu launchers are judged as expected\n", met, known + told);
	return met == known + told ? 0 : 1;
}
