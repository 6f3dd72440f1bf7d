#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONGEST_PATH 256
#define LONGEST_LINE 320
#define LONGEST_NOTE 4096

static const char *const folders[] = { "/usr/bin/", "/usr/local/bin/" };

static const struct launcher {
	const char *name;
	int own_status;
} launchers[] = {
	{ "apptainer", 255 },
	{ "singularity", 255 },
	{ "podman", 125 },
	{ "docker", 125 },
};

static const char *name_in_folder(const char *path)
{
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
		if (!strncmp(path, folders[i], strlen(folders[i])))
			return path + strlen(folders[i]);
	return "";
}

static bool names_launcher(const struct launcher *launcher, const char *program)
{
	return !strcmp(launcher->name, strchr(program, '/') ? name_in_folder(program) : program);
}

/* Whether a bare name is found in one of our folders first, along a search path as in execvp(3). */
static bool is_found_in_folder(const char *name, const char *path)
{
	char file[LONGEST_PATH];

	while (path && *path && *path != ':') {
		int length = (int)strcspn(path, ":");
		int needed = snprintf(file, sizeof(file), "%.*s/%s", length, path, name);

		if (needed >= (int)sizeof(file))
			return false;
		if (!access(file, X_OK))
			return !strcmp(name_in_folder(file), name);
		path += length;
		path += *path == ':';
	}
	return false;
}

static const struct launcher *find_launcher(const char *program, const char *path)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(*launchers); i++)
		if (names_launcher(&launchers[i], program))
			return strchr(program, '/') || is_found_in_folder(program, path) ?
				       &launchers[i] :
				       NULL;
	return NULL;
}

bool launcher_failed(int argc, char *const argv[], const char *path, int status)
{
	const struct launcher *launcher;

	if (argc < 1 || !argv || !argv[0] || !WIFEXITED(status) || WEXITSTATUS(status) == 0)
		return false;
	launcher = find_launcher(argv[0], path);
	if (!launcher)
		return false;
	if (argc > 1 && argv[1] && !strcmp(argv[1], "pull"))
		return true;
	return WEXITSTATUS(status) == launcher->own_status;
}

static int append(const char *file, const char *line, size_t length)
{
	int handle = open(file, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat about;
	int problem = 0;

	if (handle < 0)
		return errno;
	/* One line says it all: a job may start as many steps that fail as it likes. */
	if (fstat(handle, &about) || (about.st_size < LONGEST_NOTE && write(handle, line, length) < 0))
		problem = errno;
	close(handle);
	return problem;
}

int launcher_note(const char *folder, uint32_t job, uint32_t step, const char *path)
{
	char file[LONGEST_PATH], line[LONGEST_LINE];
	int length;

	snprintf(file, sizeof(file), "%s/%u", folder, job);
	if (access(file, F_OK))
		return errno;
	snprintf(file, sizeof(file), "%s/%u.launcher", folder, job);
	length = snprintf(line, sizeof(line), "%u %.200s\n", step, path);
	return append(file, line, (size_t)length);
}
