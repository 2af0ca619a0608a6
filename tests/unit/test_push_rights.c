/* SPDX-License-Identifier: BSD-2-Clause */
/* The privileges of the process that communicates with the network. */
#include "push/push_rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

enum { FINE = 42 };

/* Runs a check in a process without privileges. */
static void assert_fine(int (*check)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		alarm(20);
		_exit(xp_push_rights_drop() ? 1 : check());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), FINE);
}

static bool fails(long result, int with)
{
	return result < 0 && errno == with;
}

static void *resolve(void *done)
{
	struct addrinfo *found = NULL;

	*(bool *)done = !getaddrinfo("localhost", "80", NULL, &found) && found;
	return NULL;
}

static int resolves_names_in_a_thread(void)
{
	pthread_t thread;
	bool done = false;

	if (pthread_create(&thread, NULL, resolve, &done) || pthread_join(thread, NULL))
		return 1;
	return done ? FINE : 2;
}

static int has_no_other_system_calls(void)
{
	static char *const argv[] = { "/bin/true", NULL };

	if (!fails(fork(), EPERM) || !fails(execv(argv[0], argv), EPERM) || !fails(kill(getppid(), 0), EPERM))
		return 1;
	if (!fails(socket(AF_UNIX, SOCK_STREAM, 0), EPERM) || !fails(socket(AF_PACKET, SOCK_RAW, 0), EPERM))
		return 2;
	if (!fails(open("/etc/hosts", O_RDWR), EPERM) || !fails(open("/tmp/x", O_WRONLY | O_CREAT, 0600), EPERM) ||
	    !fails(unlink("/etc/hosts"), EPERM) || !fails(open("/tmp", O_TMPFILE | O_RDWR, 0600), EPERM))
		return 3;
	if (!fails(syscall(SYS_ptrace, 0, 0, 0, 0), EPERM) || !fails(syscall(SYS_bpf, 0, 0, 0), EPERM))
		return 4;
	return socket(AF_INET, SOCK_STREAM, 0) >= 0 ? FINE : 5;
}

static int opens_no_other_files(void)
{
	if (!fails(open("/etc/passwd", O_RDONLY), EACCES) || !fails(open("/proc/self/environ", O_RDONLY), EACCES) ||
	    !fails(open("/tmp", O_RDONLY | O_DIRECTORY), EACCES))
		return 1;
	return open("/etc/hosts", O_RDONLY) >= 0 ? FINE : 2;
}

TEST(names)
{
	assert_fine(resolves_names_in_a_thread);
}

TEST(system_calls)
{
	assert_fine(has_no_other_system_calls);
}

TEST(files)
{
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1)
		skip(); /* the kernel has no Landlock */
	assert_fine(opens_no_other_files);
}
