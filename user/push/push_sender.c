// SPDX-License-Identifier: BSD-2-Clause
#include "push/push_sender.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd_message.h"
#include "base/util.h"
#include "push/push_curl.h"
#include "push/push_rights.h"

#define ANSWER_BYTES_MAX (64u << 10)
#define DATA_BYTES_MAX ((rlim_t)256 << 20)

struct sender {
	struct xp_push_curl curl;
	CURL *handle;
};

/* One request. */
struct exchange {
	int fd;
	uint64_t answer_bytes;
};

/* ---- the child ---- */

static size_t read_body(char *to, size_t size, size_t count, void *arg)
{
	const struct exchange *exchange = arg;
	ssize_t got = read(exchange->fd, to, size * count);

	return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

/* libcurl sends a body again if the server has closed the connection of an earlier request. */
static int rewind_body(void *arg, curl_off_t offset, int origin)
{
	const struct exchange *exchange = arg;

	return lseek(exchange->fd, offset, origin) < 0 ? CURL_SEEKFUNC_FAIL : CURL_SEEKFUNC_OK;
}

/* Ignores the answer, because the status is sufficient. A server that sends more than this is not an engine. */
static size_t ignore_answer(char *data, size_t size, size_t count, void *arg)
{
	struct exchange *exchange = arg;

	(void)data;
	exchange->answer_bytes += size * count;
	return exchange->answer_bytes > ANSWER_BYTES_MAX ? 0 : size * count;
}

static struct curl_slist *make_headers(const struct xp_push_curl *curl, const struct xp_push_config *config)
{
	struct curl_slist *headers = curl->slist_append(NULL, "Content-Type: application/json"), *more = headers;

	if (more && config->engine == XP_PUSH_PYROSCOPE)
		more = curl->slist_append(headers, "Connect-Protocol-Version: 1");
	if (more && config->authorization)
		more = curl->slist_append(headers, config->authorization);
	if (more && config->tenant)
		more = curl->slist_append(headers, config->tenant);
	if (more)
		return headers;
	curl->slist_free_all(headers);
	return NULL;
}

static CURLcode set_up(const struct sender *sender, const struct xp_push_config *config, struct curl_slist *headers)
{
	struct curl_blob authorities = { config->authorities, config->authorities_bytes, CURL_BLOB_NOCOPY };
	__typeof__(sender->curl.easy_setopt) set = sender->curl.easy_setopt;
	CURL *handle = sender->handle;
	CURLcode code = set(handle, CURLOPT_URL, config->url);

	code = code ?: set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
	code = code ?: set(handle, CURLOPT_FOLLOWLOCATION, 0L);
	code = code ?: set(handle, CURLOPT_SSL_VERIFYPEER, 1L);
	code = code ?: set(handle, CURLOPT_SSL_VERIFYHOST, 2L);
	code = code ?: set(handle, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	code = code ?: set(handle, CURLOPT_NOSIGNAL, 1L);
	code = code ?: set(handle, CURLOPT_QUICK_EXIT, 1L);
	code = code ?: set(handle, CURLOPT_CONNECTTIMEOUT_MS, (long)config->times.connect_ms);
	code = code ?: set(handle, CURLOPT_TIMEOUT_MS, (long)config->times.request_ms);
	code = code ?: set(handle, CURLOPT_USERAGENT, "xprof/" XPROF_VERSION);
	code = code ?: set(handle, CURLOPT_HTTPHEADER, headers);
	code = code ?: set(handle, CURLOPT_POST, 1L);
	code = code ?: set(handle, CURLOPT_READFUNCTION, read_body);
	code = code ?: set(handle, CURLOPT_SEEKFUNCTION, rewind_body);
	code = code ?: set(handle, CURLOPT_WRITEFUNCTION, ignore_answer);
	if (config->authorities)
		code = code ?: set(handle, CURLOPT_CAINFO_BLOB, &authorities);
	return code;
}

static CURLcode set_body(const struct sender *sender, struct exchange *exchange, char *why)
{
	__typeof__(sender->curl.easy_setopt) set = sender->curl.easy_setopt;
	CURL *handle = sender->handle;
	struct stat st;
	CURLcode code = fstat(exchange->fd, &st) ? CURLE_READ_ERROR : CURLE_OK;

	code = code ?: set(handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)st.st_size);
	code = code ?: set(handle, CURLOPT_READDATA, exchange);
	code = code ?: set(handle, CURLOPT_SEEKDATA, exchange);
	code = code ?: set(handle, CURLOPT_WRITEDATA, exchange);
	return code ?: set(handle, CURLOPT_ERRORBUFFER, why);
}

/* The status counts even if the rest of the answer is missing or too long, but a success must be complete. */
static void exchange_one(const struct sender *sender, int fd, struct xp_push_reply *reply)
{
	const struct xp_push_curl *curl = &sender->curl;
	struct exchange exchange = { .fd = fd };
	char why[CURL_ERROR_SIZE] = "";
	CURLcode code = set_body(sender, &exchange, why);
	curl_off_t retry_after_s = 0;
	char *type = NULL;
	long status = 0;

	code = code ?: curl->easy_perform(sender->handle);
	curl->easy_getinfo(sender->handle, CURLINFO_RESPONSE_CODE, &status);
	curl->easy_getinfo(sender->handle, CURLINFO_RETRY_AFTER, &retry_after_s);
	if (!code && !curl->easy_getinfo(sender->handle, CURLINFO_CONTENT_TYPE, &type) && type)
		reply->is_json = !strncasecmp(type, "application/json", strlen("application/json"));
	reply->status = code && status < 300 ? 0 : (int32_t)status;
	reply->retry_after_s = (uint32_t)XP_MIN(XP_MAX(retry_after_s, (curl_off_t)0), (curl_off_t)UINT32_MAX);
	snprintf(reply->why, sizeof(reply->why), "%s", *why ? why : curl->easy_strerror(code));
	curl->easy_setopt(sender->handle, CURLOPT_ERRORBUFFER, NULL);
}

static int serve(const struct sender *sender)
{
	struct xp_push_reply reply;
	char request;
	int fd;

	while (xp_fd_message_receive(XP_CHILD_CHANNEL, &request, sizeof(request), &fd) > 0) {
		memset(&reply, 0, sizeof(reply));
		exchange_one(sender, fd, &reply);
		if (fd >= 0)
			close(fd);
		if (xp_fd_message_send(XP_CHILD_CHANNEL, &reply, sizeof(reply), -1) < 0)
			return 1;
	}
	return 0;
}

static int run(void *arg)
{
	const struct xp_push_config *config = arg;
	struct curl_slist *headers;
	struct sender sender;

	signal(SIGPIPE, SIG_IGN);
	if (xp_push_curl_load(&sender.curl) || sender.curl.global_init(CURL_GLOBAL_DEFAULT))
		return 1;
	headers = make_headers(&sender.curl, config);
	sender.handle = sender.curl.easy_init();
	if (!headers || !sender.handle || set_up(&sender, config, headers) || xp_push_rights_drop())
		return 1;
	return serve(&sender);
}

/* ---- the caller ---- */

int xp_push_sender_start(struct xp_child *sender, const struct xp_push_config *config)
{
	const struct xp_child_options options = {
		.name = "xprof-push",
		.channel = XP_CHILD_SOCKET,
		.drops_privileges = true,
		.is_oom_victim = true,
		.limits = { .data_bytes = DATA_BYTES_MAX },
	};

	return xp_child_start(sender, &options, run, (void *)config);
}

int xp_push_sender_send(const struct xp_child *sender, int fd)
{
	ssize_t sent = xp_fd_message_send(sender->fd, "", 1, fd);

	return sent < 0 ? (int)sent : 0;
}

int xp_push_sender_receive(const struct xp_child *sender, struct xp_push_reply *reply)
{
	int fd = -1;
	ssize_t got = xp_fd_message_receive(sender->fd, reply, sizeof(*reply), &fd);

	if (fd >= 0)
		close(fd);
	if (got != sizeof(*reply))
		return got < 0 ? (int)got : -EIO;
	reply->why[sizeof(reply->why) - 1] = 0;
	return 0;
}
