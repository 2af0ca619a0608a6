// SPDX-License-Identifier: BSD-2-Clause
#include "push/push_loop.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd_message.h"
#include "base/file_name.h"
#include "base/own_file.h"
#include "base/owner_rights.h"
#include "base/trusted_dir.h"
#include "base/util.h"
#include "format/manifest_reader.h"
#include "push/push_curl.h"
#include "push/push_pack.h"
#include "push/push_queue.h"
#include "push/push_sender.h"

/* ---- the manifest ---- */

static int write_manifest(void *text, int fd)
{
	return xp_write_all(fd, text, strlen(text)) ?: xp_write_all(fd, "\n", 1);
}

static int replace(int dir_fd, json_t *push)
{
	json_t *manifest;
	char *text = NULL;
	int err = xp_manifest_load(&manifest, dir_fd, XP_MANIFEST_NAME);

	if (!err && json_object_set(manifest, "push", push))
		err = -EBADMSG;
	if (!err) {
		text = json_dumps(manifest, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
		err = text ? xp_log_file_make(dir_fd, XP_MANIFEST_NAME, write_manifest, text) : -ENOMEM;
	}
	free(text);
	json_decref(manifest);
	return err;
}

/*
 * Sets the member "push" in the manifest of a recording: the engine, its URL, and the counts of this run so far. A
 * manifest that cannot be replaced stays as it is.
 */
static void note_counts(const char *directory, const struct xp_push_config *config, const struct xp_push_counts *counts)
{
	json_t *push = json_pack("{sssssIsIsI}", "engine", xp_push_engine_name(config->engine), "url", config->base,
				 "pushed", (json_int_t)counts->pushed, "queued", (json_int_t)counts->queued, "dropped",
				 (json_int_t)(counts->dropped + counts->unstored));
	int dir_fd = xp_own_links_dir_open(directory), err = dir_fd < 0 ? dir_fd : 0, own_err;
	struct stat st;

	if (!err) {
		err = fstat(dir_fd, &st) ? -errno : xp_owner_rights_take(&st);
		err = err ?: replace(dir_fd, push);
		own_err = xp_owner_rights_return();
		err = err ?: own_err;
		close(dir_fd);
	}
	json_decref(push);
	if (err)
		xp_debug("%s: cannot add the counts of --push to manifest.json: %s", directory, strerror(-err));
}

/* ---- the loop ---- */

#define PACK_SECONDS 600
#define TICK_MS 100	     /* while waiting for the end */
#define IDLE_MS 60000	     /* interval for checking the age of the queue */
#define SENDER_EXTRA_MS 5000 /* added to the deadline of the request */
#define REAP_MS 1000
#define SAID_MAX 8
#define SAID_NS (3600 * XP_NS_PER_S)

struct loop {
	const struct xp_push_loop_options *options;
	const struct xp_push_times *times;
	int channel;
	bool is_ending;	 /* there are no more recordings */
	bool has_failed; /* since the end began, a request has failed */
	uint64_t end_ns;
	struct xp_push_queue queue;
	struct xp_child packer;
	char recording[PATH_MAX]; /* the newest */
	struct xp_child sender;
	bool is_sending;
	char sent[XP_PUSH_FILE_BYTES]; /* the file that is being sent */
	size_t at;		       /* index in the queue of the next file, or of the file that is being sent */
	uint64_t deadline_ns;	       /* deadline of the answer */
	uint64_t next_ns;	       /* earliest time of the next request */
	unsigned int failures;	       /* number of failures in a row */
	int said[SAID_MAX];	       /* statuses that were reported since said_ns */
	uint64_t said_ns;
	size_t said_count;
};

/* ---- failures ---- */

static const char *explain(int status)
{
	switch (status) {
	case 401:
	case 403:
		return "the engine rejects the user; check --push-auth";
	case 404:
	case 405:
		return "there is no such engine at this URL";
	case 413:
		return "the profile is too large for the engine";
	case 429:
		return "the engine limits the rate";
	default:
		return status < 200   ? "that is not an answer"
		       : status < 300 ? "the answer is not JSON, so this is not the engine"
		       : status < 400 ? "xprof follows no redirects; give the new URL"
		       : status < 500 ? "the engine rejects the profile"
				      : "the engine has failed";
	}
}

/* Reports each status once per hour: an engine may be down for days. */
static void say(struct loop *loop, const struct xp_push_reply *reply)
{
	const struct xp_push_config *config = loop->options->config;
	uint64_t now_ns = xp_now_ns();

	if (now_ns - loop->said_ns > SAID_NS) {
		loop->said_ns = now_ns;
		loop->said_count = 0;
	}

	for (size_t i = 0; i < loop->said_count; i++)
		if (loop->said[i] == reply->status)
			return;
	if (loop->said_count == SAID_MAX)
		return;
	loop->said[loop->said_count++] = reply->status;
	if (reply->status)
		xp_warn("cannot push to %s at %s: status %d: %s", xp_push_engine_name(config->engine), config->base,
			reply->status, explain(reply->status));
	else
		xp_warn("cannot push to %s at %s: %s", xp_push_engine_name(config->engine), config->base, reply->why);
}

/* Returns a random time between half and all of ns, so that the machines of a fleet do not retry simultaneously. */
static uint64_t jitter(uint64_t ns)
{
	uint32_t random = 0;

	(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
	return ns / 2 + (ns / 2 >> 16) * (random & 0xffff);
}

static void pause_sending(struct loop *loop, uint32_t retry_after_s)
{
	uint64_t max_ns = (uint64_t)loop->times->pause_max_ms * 1000000;
	uint64_t ns = (uint64_t)loop->times->pause_ms * 1000000 << XP_MIN(loop->failures, 20u);

	loop->failures++;
	loop->has_failed = true;
	loop->at++;
	ns = retry_after_s ? XP_MIN(retry_after_s * XP_NS_PER_S, max_ns) : jitter(XP_MIN(ns, max_ns));
	loop->next_ns = xp_now_ns() + ns;
}

/* ---- requests ---- */

static void end_sender(struct loop *loop)
{
	if (loop->sender.pid)
		xp_child_kill(&loop->sender, REAP_MS);
	loop->sender = (struct xp_child){ .fd = -1 };
	loop->is_sending = false;
}

static void handle_reply(struct loop *loop, const struct xp_push_reply *reply)
{
	int status = reply->status;
	bool is_pushed = status >= 200 && status < 300 && reply->is_json;
	bool is_useless = status == 400 || status == 413 || status == 415 || status == 422;

	if (!is_pushed)
		say(loop, reply);
	if (!is_pushed && !is_useless) {
		pause_sending(loop, status == 429 || status >= 500 ? reply->retry_after_s : 0);
		return;
	}
	++*(is_pushed ? &loop->options->counts->pushed : &loop->options->counts->dropped);
	xp_push_queue_remove(&loop->queue, loop->sent);
	loop->failures = 0;
}

static void receive_reply(struct loop *loop)
{
	struct xp_push_reply reply = { 0 };

	loop->is_sending = false;
	if (xp_push_sender_receive(&loop->sender, &reply)) {
		end_sender(loop);
		reply = (struct xp_push_reply){ .why = "its child ended; run xprof with -v" };
	}
	handle_reply(loop, &reply);
}

/* Kills a sender that hangs, for example in the resolver. */
static void check_deadline(struct loop *loop, uint64_t now_ns)
{
	const struct xp_push_reply late = { .why = "timeout" };

	if (!loop->is_sending || now_ns < loop->deadline_ns)
		return;
	end_sender(loop);
	handle_reply(loop, &late);
}

static void scan(struct loop *loop)
{
	struct xp_push_counts *counts = loop->options->counts;

	xp_push_queue_scan(&loop->queue, &counts->dropped);
	counts->queued = loop->queue.count;
	loop->at = 0;
}

static int send_body(struct loop *loop)
{
	int fd = xp_push_queue_take(&loop->queue, loop->sent), err = fd < 0 ? fd : 0;

	if (!err && !loop->sender.pid)
		err = xp_push_sender_start(&loop->sender, loop->options->config);
	if (!err)
		err = xp_push_sender_send(&loop->sender, fd);
	if (fd >= 0)
		close(fd);
	return err;
}

static void send_next(struct loop *loop, uint64_t now_ns)
{
	int err;

	if (loop->is_sending || now_ns < loop->next_ns)
		return;
	if (loop->at >= loop->queue.count)
		scan(loop);
	if (!loop->queue.count)
		return;
	strcpy(loop->sent, loop->queue.files[loop->at].name);
	err = send_body(loop);
	if (err) {
		xp_debug("cannot send a profile: %s", strerror(-err));
		end_sender(loop);
		pause_sending(loop, 0);
		return;
	}
	loop->is_sending = true;
	loop->deadline_ns = now_ns + (loop->times->request_ms + SENDER_EXTRA_MS) * 1000000ull;
}

/* ---- recordings ---- */

static int pack(void *arg)
{
	const struct loop *loop = arg;
	struct xp_push_counts *counts = loop->options->counts;

	dup2(XP_CHILD_FDS, STDERR_FILENO);
	xp_push_config_forget(loop->options->config);
	unsetenv("DEBUGINFOD_URLS");
	if (xp_log_level == XP_LOG_NORMAL)
		xp_log_level = XP_LOG_QUIET; /* record has printed the warnings of this recording */
	return xp_push_pack(loop->recording, XP_CHILD_FDS + 1, loop->options->config, &counts->unstored) ? 1 : 0;
}

static void start_packing(struct loop *loop)
{
	const struct xp_child_options options = {
		.name = "xprof-pack",
		.channel = XP_CHILD_PIPE,
		.fds = { STDERR_FILENO, loop->queue.fd },
		.fd_count = 2,
		.limits = { .seconds = PACK_SECONDS },
	};
	int err = xp_child_start(&loop->packer, &options, pack, loop);

	if (err)
		xp_error("cannot make profiles of %s: %s", loop->recording, strerror(-err));
}

static void end_packing(struct loop *loop)
{
	int code = xp_child_wait(loop->packer.pid, REAP_MS);

	if (code < 0)
		xp_error("making the profiles of %s was interrupted; they are not pushed", loop->recording);
	if (code == -EAGAIN)
		xp_child_kill(&loop->packer, REAP_MS);
	else
		close(loop->packer.fd);
	loop->packer = (struct xp_child){ .fd = -1 };
	scan(loop);
	note_counts(loop->recording, loop->options->config, loop->options->counts);
}

static void receive_recording(struct loop *loop)
{
	int fd = -1;
	ssize_t got = xp_fd_message_receive(loop->channel, loop->recording, sizeof(loop->recording) - 1, &fd);

	if (fd >= 0)
		close(fd);
	if (got <= 0) {
		loop->is_ending = true;
		loop->has_failed = false;
		loop->next_ns = 0;
		return;
	}
	loop->recording[got] = 0;
	start_packing(loop);
}

/* ---- the loop ---- */

static bool is_done(struct loop *loop, uint64_t now_ns)
{
	if (loop->options->counts->stop)
		return true;
	if (!loop->is_ending || loop->packer.pid)
		return false;
	if (!loop->end_ns)
		loop->end_ns = now_ns + (uint64_t)loop->times->end_ms * 1000000;
	return (!loop->is_sending && !loop->queue.count) || loop->has_failed || now_ns >= loop->end_ns;
}

static int wait_ms(const struct loop *loop, uint64_t now_ns)
{
	uint64_t next_ns = loop->is_sending ? loop->deadline_ns : loop->queue.count ? loop->next_ns : UINT64_MAX;

	if (loop->is_ending)
		return TICK_MS;
	if (next_ns <= now_ns)
		return 0;
	return (int)XP_MIN((next_ns - now_ns) / 1000000 + 1, (uint64_t)IDLE_MS);
}

static void step(struct loop *loop)
{
	uint64_t now_ns = xp_now_ns();
	struct pollfd fds[] = {
		{ .fd = loop->is_ending || loop->packer.pid ? -1 : loop->channel, .events = POLLIN },
		{ .fd = loop->packer.pid ? loop->packer.fd : -1, .events = POLLIN },
		{ .fd = loop->is_sending ? loop->sender.fd : -1, .events = POLLIN },
	};

	if (poll(fds, XP_ARRAY_SIZE(fds), wait_ms(loop, now_ns)) > 0) {
		if (fds[0].revents)
			receive_recording(loop);
		if (fds[1].revents)
			end_packing(loop);
		if (fds[2].revents)
			receive_reply(loop);
	}
	now_ns = xp_now_ns();
	check_deadline(loop, now_ns);
	if (!is_done(loop, now_ns))
		send_next(loop, now_ns);
}

int xp_push_loop(int channel, const struct xp_push_loop_options *options)
{
	struct loop loop = {
		.options = options,
		.times = &options->config->times,
		.channel = channel,
		.packer = { .fd = -1 },
		.sender = { .fd = -1 },
	};
	struct xp_push_curl curl;
	int err;

	signal(SIGPIPE, SIG_IGN); /* the reader of the messages may have exited */
	err = xp_push_curl_load(&curl) ?: xp_push_queue_open(&loop.queue, options->queue, options->config->engine);

	if (xp_fd_message_send(channel, &err, sizeof(err), -1) < 0 || err)
		return 1;
	scan(&loop);
	while (!is_done(&loop, xp_now_ns()))
		step(&loop);
	end_sender(&loop);
	if (loop.packer.pid)
		xp_child_kill(&loop.packer, REAP_MS);
	scan(&loop);
	if (*loop.recording)
		note_counts(loop.recording, options->config, options->counts);
	xp_push_queue_close(&loop.queue, options->queue);
	return 0;
}
