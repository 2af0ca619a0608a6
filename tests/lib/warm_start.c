// SPDX-License-Identifier: BSD-2-Clause
/*
 * Preloaded into a dynamically linked program, to load the program once and run it many times. Before main(), the
 * program waits for requests on socket 3 and forks for each request. The child uses the arguments and files of the
 * request. See warm_start.py.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOCKET 3
#define ARGS_MAX 64

typedef int main_function(int, char **, char **);

static main_function *program_main;

/* Strings, each with its terminating zero: seconds, working directory, arguments. The files are stdout and stderr. */
static char request[65536];
static int files[2];

static ssize_t receive(void)
{
	char control[CMSG_SPACE(sizeof(files))];
	struct iovec iov = { request, sizeof(request) };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	ssize_t n = recvmsg(SOCKET, &message, 0);
	struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	if (!header || header->cmsg_len != CMSG_LEN(sizeof(files)))
		return 0;
	memcpy(files, CMSG_DATA(header), sizeof(files));
	return n;
}

static int run(ssize_t size, char **environment)
{
	const char *directory = request + strlen(request) + 1;
	char *argv[ARGS_MAX + 1];
	int argc = 0;

	alarm(atoi(request));
	dup2(files[0], 1);
	dup2(files[1], 2);
	close(SOCKET);
	if (chdir(directory))
		return 127;
	for (char *arg = (char *)directory + strlen(directory) + 1; arg < request + size && argc < ARGS_MAX;
	     arg += strlen(arg) + 1)
		argv[argc++] = arg;
	argv[argc] = NULL;
	return program_main(argc, argv, environment);
}

static int serve(int argc, char **argv, char **environment)
{
	ssize_t size;

	(void)argc;
	(void)argv;
	unsetenv("LD_PRELOAD");
	while ((size = receive()) > 0) {
		int status = 0;
		pid_t child = fork();

		if (child == 0)
			exit(run(size, environment));
		close(files[0]);
		close(files[1]);
		waitpid(child, &status, 0);
		if (send(SOCKET, &status, sizeof(status), MSG_NOSIGNAL) != sizeof(status))
			break;
	}
	_exit(0);
}

int __libc_start_main(main_function *of_program, int argc, char **argv, void (*init)(void), void (*fini)(void),
		      void (*rtld_fini)(void), void *stack_end)
{
	__typeof__(&__libc_start_main) start = (__typeof__(&__libc_start_main))dlsym(RTLD_NEXT, "__libc_start_main");

	program_main = of_program;
	return start(serve, argc, argv, init, fini, rtld_fini, stack_end);
}
