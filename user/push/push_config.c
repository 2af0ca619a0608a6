// SPDX-License-Identifier: BSD-2-Clause
#include "push/push_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_view.h"
#include "base/util.h"
#include "push/base64.h"
#include "push/push_labels.h"

#define AUTH_BYTES_MAX 8192
#define AUTHORITIES_BYTES_MAX (4u << 20)

static const struct {
	const char *name;
	const char *path; /* appended to the path of the given URL */
} engines[XP_PUSH_ENGINES] = {
	[XP_PUSH_PYROSCOPE] = { "pyroscope", "/push.v1.PusherService/Push" },
	[XP_PUSH_PARCA] = { "parca", "/api/profiles/writeraw" },
};

const char *xp_push_engine_name(enum xp_push_engine engine)
{
	return engines[engine].name;
}

/* ---- --push ---- */

static int refuse_url(const char *to, const char *why)
{
	return xp_fail(-EINVAL,
		       "--push takes an engine and its URL, such as pyroscope=https://HOST:4040 or "
		       "parca=https://HOST:7070, not '%s': %s",
		       to, why);
}

/* Skips a host name, an address, or an IPv6 address in brackets; and a port. Returns the rest, or NULL. */
static const char *skip_host(const char *at)
{
	size_t length = *at == '[' ? strspn(at + 1, "0123456789abcdefABCDEF:.") + 1
				   : strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._");
	size_t digits;

	if (*at == '[' && at[length++] != ']')
		return NULL;
	if (!length || at[0] == '-')
		return NULL;
	at += length;
	if (*at != ':')
		return at;
	digits = strspn(at + 1, "0123456789");
	if (!digits || digits > 5 || atoi(at + 1) < 1 || atoi(at + 1) > 65535)
		return NULL;
	return at + 1 + digits;
}

static const char *find_fault(const char *url)
{
	const char *at = !strncmp(url, "https://", 8) ? url + 8 : !strncmp(url, "http://", 7) ? url + 7 : NULL;

	if (!at)
		return "it begins with neither http:// nor https://";
	if (strchr(at, '@'))
		return "other users can read the command line; put user and password into the file of --push-auth";
	at = skip_host(at);
	if (!at || (*at && *at != '/'))
		return "the host or port is invalid";
	for (; *at; at++)
		if (*at <= ' ' || *at == 0x7f || strchr("?#\"<>\\^`{|}", *at))
			return "it must end with the path, and have no special characters";
	return NULL;
}

static int set_url(struct xp_push_config *config, const char *to, const char *url)
{
	const char *fault = find_fault(url);
	size_t length = strlen(url);

	if (fault)
		return refuse_url(strchr(to, '@') ? "..." : to, fault);
	while (url[length - 1] == '/')
		length--;
	config->base = strndup(url, length);
	if (!config->base || asprintf(&config->url, "%s%s", config->base, engines[config->engine].path) < 0) {
		config->url = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int set_engine(struct xp_push_config *config, const char *to)
{
	for (unsigned int i = 0; i < XP_PUSH_ENGINES; i++) {
		size_t length = strlen(engines[i].name);

		if (strncmp(to, engines[i].name, length) || to[length] != '=')
			continue;
		config->engine = (enum xp_push_engine)i;
		return set_url(config, to, to + length + 1);
	}
	return refuse_url(to, "it begins with neither pyroscope= nor parca=");
}

/* ---- files ---- */

/* Reads a regular file. Returns its text, which the caller frees, and its status. NULL: errno has the reason. */
static char *read_file(const char *path, size_t bytes_max, struct stat *st)
{
	int fd = xp_file_open_regular(AT_FDCWD, path);
	char *text = NULL;
	ssize_t got = -1;

	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	if (!fstat(fd, st))
		text = calloc(1, bytes_max + 1);
	if (text)
		got = pread(fd, text, bytes_max + 1, 0);
	if (text && got > (ssize_t)bytes_max) {
		errno = EFBIG;
		got = -1;
	}
	if (got < 0) {
		free(text);
		text = NULL;
	}
	close(fd);
	return text;
}

static void erase(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
}

/* Makes the header from "bearer TOKEN" or "USER:PASSWORD". */
static int make_header(struct xp_push_config *config, const char *path, const char *line)
{
	bool is_bearer = !strncasecmp(line, "bearer ", 7);
	char *basic = NULL;
	int length;

	if (config->authorization)
		return xp_fail(-EINVAL, "--push-auth: %s contains two secrets", path);
	if (is_bearer ? !line[7 + strspn(line + 7, " ")] : !strchr(line, ':'))
		return xp_fail(-EINVAL, "--push-auth: %s must contain 'bearer TOKEN' or 'USER:PASSWORD'", path);
	if (!is_bearer && !(basic = xp_base64(line, strlen(line))))
		return -ENOMEM;
	length = asprintf(&config->authorization, "Authorization: %s %s", is_bearer ? "Bearer" : "Basic",
			  is_bearer ? line + 7 : basic);
	erase(basic);
	free(basic);
	if (length >= 0)
		return 0;
	config->authorization = NULL;
	return -ENOMEM;
}

/* Parses a line: the secret, or "tenant NAME". */
static int take_line(struct xp_push_config *config, const char *path, const char *line)
{
	for (const char *at = line; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			return xp_fail(-EINVAL, "--push-auth: %s contains a control character", path);
	if (strncasecmp(line, "tenant ", 7))
		return make_header(config, path, line);
	free(config->tenant);
	if (asprintf(&config->tenant, "X-Scope-OrgID: %s", line + 7) >= 0)
		return 0;
	config->tenant = NULL;
	return -ENOMEM;
}

static int take_lines(struct xp_push_config *config, const char *path, char *text)
{
	char *rest, *line = strtok_r(text, "\r\n", &rest);
	int err = line ? 0 : xp_fail(-EINVAL, "--push-auth: %s is empty", path);

	for (; !err && line; line = strtok_r(NULL, "\r\n", &rest))
		err = take_line(config, path, line);
	return err;
}

static int set_auth(struct xp_push_config *config, const char *path)
{
	struct stat st;
	char *text = read_file(path, AUTH_BYTES_MAX, &st);
	int err;

	if (!text)
		return xp_fail(-EINVAL, "--push-auth: cannot read %s: %s", path, strerror(errno));
	if (st.st_mode & (S_IRWXG | S_IRWXO)) {
		err = xp_fail(-EINVAL, "--push-auth: other users can access %s (mode %04o); run chmod 600", path,
			      (unsigned int)st.st_mode & 07777);
	} else {
		err = take_lines(config, path, text);
	}
	explicit_bzero(text, AUTH_BYTES_MAX + 1);
	free(text);
	if (!err && config->authorization && !strncmp(config->base, "http:", 5))
		xp_warn("--push-auth sends the secret without encryption, because the URL is not https");
	return err;
}

/* SSL_CERT_FILE: as for OpenSSL and Go. */
static int set_authorities(struct xp_push_config *config)
{
	const char *path = getenv("SSL_CERT_FILE");
	struct stat st;

	if (!path || !*path)
		return 0;
	config->authorities = read_file(path, AUTHORITIES_BYTES_MAX, &st);
	if (!config->authorities)
		return xp_fail(-EINVAL, "SSL_CERT_FILE: cannot read %s: %s", path, strerror(errno));
	config->authorities_bytes = strlen(config->authorities);
	return 0;
}

/* ---- --label ---- */

static int add_label(struct xp_push_config *config, const char *text)
{
	const char *equals = strchr(text, '='), *fault;
	struct xp_push_label *label = &config->labels[config->label_count];

	if (config->label_count == XP_PUSH_LABELS_MAX)
		return xp_fail(-EINVAL, "--label can be used at most %d times", XP_PUSH_LABELS_MAX);
	fault = equals ? xp_push_label_fault(text, (size_t)(equals - text), equals + 1) : "it has no '='";
	if (fault)
		return xp_fail(-EINVAL, "--label takes NAME=VALUE, such as region=eu-1, not '%s': %s", text, fault);
	*label = (struct xp_push_label){ strndup(text, (size_t)(equals - text)), strdup(equals + 1) };
	config->label_count++;
	if (!label->name || !label->value)
		return -ENOMEM;
	for (size_t i = 0; i + 1 < config->label_count; i++)
		if (!strcmp(config->labels[i].name, label->name))
			return xp_fail(-EINVAL, "--label has two values for '%s'", label->name);
	return 0;
}

const char *xp_push_config_label(const struct xp_push_config *config, const char *name)
{
	for (size_t i = 0; i < config->label_count; i++)
		if (!strcmp(config->labels[i].name, name))
			return config->labels[i].value;
	return NULL;
}

int xp_push_config_make(struct xp_push_config *config, const struct xp_push_options *options)
{
	int err;

	*config = (struct xp_push_config){
		.times = {
			.connect_ms = 5000,
			.request_ms = 30000,
			.pause_ms = 1000,
			.pause_max_ms = 300000,
			.end_ms = 10000,
		},
	};
	err = set_engine(config, options->to);
	for (size_t i = 0; !err && i < options->label_count; i++)
		err = add_label(config, options->labels[i]);
	if (!err && options->auth)
		err = set_auth(config, options->auth);
	return err ?: set_authorities(config);
}

void xp_push_config_forget(struct xp_push_config *config)
{
	erase(config->authorization);
	free(config->authorization);
	config->authorization = NULL;
}

void xp_push_config_free(struct xp_push_config *config)
{
	xp_push_config_forget(config);
	for (size_t i = 0; i < config->label_count; i++) {
		free(config->labels[i].name);
		free(config->labels[i].value);
	}
	free(config->tenant);
	free(config->base);
	free(config->url);
	free(config->authorities);
	*config = (struct xp_push_config){ 0 };
}
