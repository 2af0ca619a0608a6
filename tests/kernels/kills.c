// SPDX-License-Identifier: BSD-2-Clause
/*
 * kills PID PROGRESS OUTPUT OPTIONS...: records process PID repeatedly with these options of `xprof record`. In each
 * recording, SIGKILL hits xprof, its guard (user/base/shield.h) or both, at one moment of moments[]. After each kill,
 * kills waits until all tasks of xprof have ended, runs `xprof restore` if there are breakpoints, and prints one line:
 * "MOMENT VICTIM ok", or the fault instead of ok. PROGRESS is the file of live/programs/victim.c. Each kill also writes
 * a line to the kernel's log, for the console.
 */
#include <bpf/bpf.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define XPROF "/bin/xprof"
#define MESSAGES "/tmp/kills.messages"
#define ARGS_MAX 24
#define POLL_US 300
/* Machines without hardware support are slow, and may share their CPU. */
#define PATIENCE_S 40

/* The kill comes after these events. */
static const struct moment {
	const char *name;
	unsigned int guards; /* number of guards that have started; after the request to end, if `end` is set */
	bool gone;	     /* the last of these guards has ended */
	bool recording;	     /* xprof has printed that it records */
	bool end;	     /* xprof has been asked to end */
	unsigned int delay_ms;
} moments[] = {
	{ "first-guard", .guards = 1 },
	{ "counting", .guards = 3, .gone = true, .delay_ms = 20 },
	{ "attaching", .guards = 5 },
	{ "attaching-late", .guards = 8 },
	{ "recording", .recording = true, .delay_ms = 100 },
	{ "detaching", .guards = 1, .recording = true, .end = true },
	{ "writing", .guards = 1, .gone = true, .recording = true, .end = true, .delay_ms = 5 },
};

#define MOMENTS (sizeof(moments) / sizeof(moments[0]))

enum victim { RECORDER, GUARD, BOTH, VICTIMS };

static const char *const victims[] = { "recorder", "guard", "both" };

struct run {
	pid_t pid;    /* PID of the recorder; 0: it has ended */
	pid_t guard;  /* the last guard seen */
	bool guarded; /* the last guard is alive */
	unsigned int guards;
	double begun_s;
};

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static ssize_t read_text(char *text, size_t size, const char *format, ...)
{
	char path[64];
	va_list args;
	ssize_t n;
	int fd;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return n;
}

static void look_for_guard(struct run *run)
{
	char children[256], comm[32], *next = children;
	pid_t pid;

	read_text(children, sizeof(children), "/proc/%d/task/%d/children", run->pid, run->pid);
	run->guarded = false;
	while ((pid = (pid_t)strtol(next, &next, 10)) > 0) {
		read_text(comm, sizeof(comm), "/proc/%d/comm", pid);
		if (strcmp(comm, "probes\n"))
			continue;
		run->guarded = true;
		run->guards += pid != run->guard;
		run->guard = pid;
	}
}

static bool has_ended(struct run *run)
{
	if (run->pid && waitpid(run->pid, NULL, WNOHANG) == run->pid)
		run->pid = 0;
	return !run->pid;
}

static bool is_recording(void)
{
	char text[8192];

	read_text(text, sizeof(text), MESSAGES);
	return strstr(text, "xprof: recording");
}

static void start(struct run *run, char **args)
{
	int fd = open(MESSAGES, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	*run = (struct run){ .begun_s = now_s(), .pid = fork() };
	if (fd < 0 || run->pid < 0)
		die("cannot start xprof");
	if (!run->pid) {
		dup2(fd, STDERR_FILENO);
		dup2(fd, STDOUT_FILENO);
		execv(XPROF, args);
		_exit(127);
	}
	close(fd);
}

/* Returns false if xprof ends before the moment. */
static bool wait_for(struct run *run, const struct moment *moment)
{
	bool asked = !moment->end, recording;

	while (!has_ended(run) && now_s() < run->begun_s + PATIENCE_S) {
		usleep(POLL_US);
		look_for_guard(run);
		recording = is_recording();
		if (recording && !moment->recording)
			return true; /* the moment was missed, or there are no guards */
		if (!recording && moment->recording)
			continue;
		if (!asked) {
			run->guards = 0;
			kill(run->pid, SIGINT);
			asked = true;
			continue;
		}
		if (run->guards > moment->guards ||
		    (run->guards == moment->guards && run->guarded == (moment->guards && !moment->gone))) {
			usleep(moment->delay_ms * 1000);
			return !has_ended(run);
		}
	}
	return false;
}

/* The guards and all other tasks of xprof. */
static bool any_xprof(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool found = false;

	while (proc && !found && (entry = readdir(proc))) {
		char link[300], path[64] = "";

		snprintf(link, sizeof(link), "/proc/%s/exe", entry->d_name);
		found = readlink(link, path, sizeof(path) - 1) > 0 && !strcmp(path, XPROF);
	}
	closedir(proc);
	return found;
}

/* Returns whether the code in memory differs from its file by a breakpoint. */
static unsigned int breakpoints_in(int memory, pid_t pid, unsigned long start, unsigned long end, unsigned long offset)
{
	unsigned char here[4096], there[sizeof(here)];
	unsigned int found = 0;
	char path[80];
	int file;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", pid, start, end);
	file = open(path, O_RDONLY | O_CLOEXEC);
	for (; file >= 0 && start < end; start += sizeof(here), offset += sizeof(here)) {
		ssize_t n = pread(file, there, sizeof(there), (off_t)offset);

		if (n <= 0 || pread(memory, here, (size_t)n, (off_t)start) != n)
			break;
		for (ssize_t i = 0; i < n; i++)
			found += here[i] == 0xcc && there[i] != 0xcc;
	}
	if (file >= 0)
		close(file);
	return found;
}

static unsigned int breakpoints(pid_t pid)
{
	char path[64], line[512], permissions[8];
	unsigned long start, end, offset;
	unsigned int found = 0;
	FILE *maps;
	int memory;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	memory = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (memory < 0 || !maps)
		die("cannot read the target");
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %7s %lx", &start, &end, permissions, &offset) == 4 && permissions[2] == 'x' &&
		    strchr(line, '/'))
			found += breakpoints_in(memory, pid, start, end, offset);
	fclose(maps);
	close(memory);
	return found;
}

static unsigned int bpf_objects(void)
{
	unsigned int found = 0;

	for (__u32 id = 0; !bpf_prog_get_next_id(id, &id);)
		found++;
	for (__u32 id = 0; !bpf_link_get_next_id(id, &id);)
		found++;
	return found;
}

static long progress(const char *path, long *wrong)
{
	char text[64];
	long rounds = -1;

	read_text(text, sizeof(text), "%s", path);
	sscanf(text, "%ld %ld", &rounds, wrong);
	return rounds;
}

/* Returns the number of breakpoints before the restore. */
static unsigned int restore(pid_t target)
{
	unsigned int found = breakpoints(target);
	char pid[16];
	pid_t child;
	int status;

	if (!found)
		return 0;
	snprintf(pid, sizeof(pid), "%d", target);
	child = fork();
	if (!child) {
		execl(XPROF, XPROF, "restore", "-p", pid, NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		printf(" xprof cannot restore;");
	return found;
}

/*
 * Prints " ok", or what the kill has left. The kernel frees probes and programs shortly after the last task has exited.
 */
static void check(struct run *run, pid_t target, const char *progress_path)
{
	double end_s = now_s() + PATIENCE_S;
	unsigned int found, left, objects;
	long wrong = -1, before, after;
	bool running;

	if (run->pid)
		kill(run->pid, SIGINT);
	while ((running = !has_ended(run) || any_xprof()) && now_s() < end_s)
		usleep(5000);
	while ((objects = bpf_objects()) && now_s() < end_s)
		usleep(20000);
	found = restore(target);
	left = found ? breakpoints(target) : 0;
	end_s = now_s() + PATIENCE_S;
	before = after = progress(progress_path, &wrong);
	while (after <= before && now_s() < end_s) {
		usleep(5000);
		after = progress(progress_path, &wrong);
	}
	if (running)
		printf(" xprof does not end;");
	if (left)
		printf(" %u breakpoints are left;", left);
	if (found > left)
		printf(" %u breakpoints until xprof restore;", found - left);
	if (objects)
		printf(" %u BPF programs and links are left;", objects);
	if (after <= before || wrong)
		printf(" the target: %ld rounds, then %ld, %ld wrong;", before, after, wrong);
	puts(running || found || objects || after <= before || wrong ? "" : " ok");
	fflush(stdout);
	if (running && run->pid)
		kill(run->pid, SIGKILL);
}

static void log_kill(const char *options, const struct moment *moment, enum victim victim)
{
	char line[160];
	int n = snprintf(line, sizeof(line), "<4>kills: %s: %s: %s\n", options, moment->name, victims[victim]);
	int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, line, (size_t)n) != n)
		die("/dev/kmsg");
	close(fd);
}

static void kill_at(const struct moment *moment, enum victim victim, char **argv, char **args)
{
	struct run run;
	bool reached;

	log_kill(argv[4], moment, victim);
	start(&run, args);
	reached = wait_for(&run, moment);
	look_for_guard(&run);
	if (reached && victim != RECORDER && run.guarded)
		kill(run.guard, SIGKILL);
	if (reached && victim != GUARD)
		kill(run.pid, SIGKILL);
	printf("%s %s%s", moment->name, victims[victim], reached ? "" : " (ended first)");
	check(&run, atoi(argv[1]), argv[2]);
}

int main(int argc, char **argv)
{
	char *args[ARGS_MAX] = { XPROF, "record", "-F", "199" }, output[256];
	int count = 4;

	if (argc < 5 || argc > ARGS_MAX - 8)
		return 2;
	for (int i = 4; i < argc; i++)
		args[count++] = argv[i];
	args[count++] = "-o";
	args[count++] = output;
	for (size_t i = 0; i < MOMENTS; i++) {
		/* Recordings of the whole machine attach no sleds, so they have no guard. */
		bool guarded = moments[i].guards && !moments[i].gone && strcmp(argv[4], "-a");

		for (enum victim victim = RECORDER; victim < (guarded ? VICTIMS : GUARD); victim++) {
			snprintf(output, sizeof(output), "%s-%s-%s", argv[3], moments[i].name, victims[victim]);
			kill_at(&moments[i], victim, argv, args);
		}
	}
	return 0;
}
