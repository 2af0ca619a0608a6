/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pushes stored recordings as `record --push` does:
 *
 *   push_run ENGINE=URL QUEUE AUTH CONNECT_MS REQUEST_MS PAUSE_MS END_MS [NAME=VALUE ...] [/DIRECTORY ...]
 *
 * AUTH: path of a file, or - for none. Each line on standard input adds a DIRECTORY; "end" ends the pusher. SIGINT ends
 * its wait for the engine.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "push/pusher.h"

static bool is_interrupted(void)
{
	sigset_t pending;

	return !sigpending(&pending) && sigismember(&pending, SIGINT);
}

static int become_user(void)
{
	return 0;
}

int main(int argc, char **argv)
{
	struct xp_push_options options = { 0 };
	struct xp_push_config config;
	struct xp_pusher *pusher;
	char line[16];
	sigset_t signals;
	int at = 8;

	if (argc < at)
		return 2;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	options.to = argv[1];
	options.auth = strcmp(argv[3], "-") ? argv[3] : NULL;
	options.labels = (const char *const *)argv + at;
	while (at < argc && argv[at][0] != '/')
		at++;
	options.label_count = (size_t)at - 8;
	if (xp_push_config_make(&config, &options))
		return 2;
	config.times.connect_ms = (uint32_t)atoi(argv[4]);
	config.times.request_ms = (uint32_t)atoi(argv[5]);
	config.times.pause_ms = (uint32_t)atoi(argv[6]);
	config.times.end_ms = (uint32_t)atoi(argv[7]);
	if (xp_pusher_start(&pusher, &config, argv[2], become_user))
		return 1;
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n"))
		if (at < argc)
			xp_pusher_add(pusher, argv[at++]);
	xp_pusher_finish(pusher, is_interrupted);
	xp_push_config_free(&config);
	return 0;
}
