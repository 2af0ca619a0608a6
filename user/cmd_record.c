/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/interrupt.h"
#include "commands.h"
#include "export/output.h"
#include "export/profiles.h"
#include "kernel/privilege.h"
#include "push/pusher.h"
#include "record/recording.h"

#define EXPORT_SECONDS 600
#define POLL_MS 100

/* Exports the recording in the formats of options->formats. */
static enum xp_exit export_formats(const struct xp_options *recorded)
{
	char *operands[] = { (char *)recorded->output_dir };
	struct xp_options options = *recorded;

	options.operands = operands;
	options.operand_count = 1;
	/* For record, these options select the target and its functions, not what to export. */
	options.pids = (struct xp_pid_list){ 0 };
	options.functions = (struct xp_text_list){ 0 };
	options.tid = 0;
	return xp_cmd_export(&options);
}

/*
 * Runs in a child. The user who ran sudo, or who has xprof's capabilities, owns the finished recording and can change
 * it. So this makes the profiles and exports with only the rights of that user.
 */
static int make_products(void *arg)
{
	const struct xp_options *options = arg;
	enum xp_exit code;
	int err;

	if (dup2(XP_CHILD_FDS, STDERR_FILENO) < 0)
		return XP_EXIT_FAILED;
	err = xp_privilege_to_user();
	if (err)
		return xp_fail(XP_EXIT_FAILED, "cannot export as the user behind sudo: %s", strerror(-err));
	signal(SIGTERM, SIG_DFL); /* end_export() sends SIGTERM */
	xp_export_file_end_by_signals();
	code = xp_export_profiles(options->output_dir) ? XP_EXIT_FAILED : XP_EXIT_OK;
	return options->formats ? (int)(export_formats(options) ?: code) : (int)code;
}

/*
 * Sends SIGTERM, so that the child removes its incomplete file. Kills the child if it is still running after POLL_MS.
 */
static void end_export(struct xp_child *child)
{
	kill(child->pid, SIGTERM);
	if (xp_child_wait(child->pid, POLL_MS) == -EAGAIN)
		xp_child_kill(child, POLL_MS);
}

static int make_products_at_the_end(const struct xp_options *options)
{
	const struct xp_child_options how = {
		.name = "xprof-export",
		.fds = { STDERR_FILENO },
		.fd_count = 1,
		.limits = { .seconds = EXPORT_SECONDS },
	};
	struct xp_child child;
	int code = xp_child_start(&child, &how, make_products, (void *)options);

	if (code)
		return xp_fail(XP_EXIT_FAILED, "cannot make the profiles: %s", strerror(-code));
	while ((code = xp_child_wait(child.pid, POLL_MS)) == -EAGAIN)
		if (xp_interrupted())
			end_export(&child);
	if (code < 0)
		xp_error("the %s ended before %s complete; `xprof recover %s` makes the profiles%s",
			 options->formats ? "export was" : "profiles were", options->formats ? "it was" : "they were",
			 options->output_dir, options->formats ? ", `xprof export` the rest" : "");
	if (options->open && !code)
		xp_view_open(options->output_dir); /* the recording is complete without a browser */
	return code ? XP_EXIT_FAILED : XP_EXIT_OK;
}

static void push(void *pusher, const char *directory)
{
	if (pusher)
		xp_pusher_add(pusher, directory);
}

/* The queue is next to the directory of the recording, because the next recording replaces that directory. */
static int start_pusher(struct xp_pusher **pusher, struct xp_push_config *config, const struct xp_options *options)
{
	const struct xp_push_options how = {
		.to = options->push,
		.auth = options->push_auth,
		.labels = options->labels.texts,
		.label_count = options->labels.count,
	};
	size_t length = strlen(options->output_dir);
	char queue[PATH_MAX];
	int err = xp_push_config_make(config, &how);

	if (err)
		return err;
	while (length > 1 && options->output_dir[length - 1] == '/')
		length--;
	if (snprintf(queue, sizeof(queue), "%.*s.push", (int)length, options->output_dir) >= (int)sizeof(queue))
		return xp_fail(-ENAMETOOLONG, "--output: the path is too long");
	return xp_pusher_start(pusher, config, queue, xp_privilege_to_user);
}

enum xp_exit xp_cmd_record(const struct xp_options *options)
{
	struct xp_push_config config = { 0 };
	struct xp_record_after after = { .products = make_products_at_the_end, .complete = push };
	struct xp_pusher *pusher = NULL;
	enum xp_exit code;
	int err = 0;

	if (options->push)
		err = start_pusher(&pusher, &config, options);
	after.arg = pusher;
	code = err == -EINVAL ? XP_EXIT_USAGE : err ? XP_EXIT_FAILED : (enum xp_exit)xp_record(options, &after);
	if (pusher)
		xp_pusher_finish(pusher, xp_interrupted);
	xp_push_config_free(&config);
	return code;
}
