/* SPDX-License-Identifier: BSD-2-Clause */
/* The checked values of --push, --push-auth and --label. */
#ifndef XPROF_PUSH_PUSH_CONFIG_H
#define XPROF_PUSH_PUSH_CONFIG_H

#include <stddef.h>
#include <stdint.h>

enum xp_push_engine { XP_PUSH_PYROSCOPE, XP_PUSH_PARCA, XP_PUSH_ENGINES };

/* "pyroscope" or "parca". */
const char *xp_push_engine_name(enum xp_push_engine engine);

struct xp_push_options {
	const char *to;		   /* ENGINE=URL */
	const char *auth;	   /* path of a file; NULL: none */
	const char *const *labels; /* NAME=VALUE */
	size_t label_count;
};

struct xp_push_label {
	char *name, *value;
};

#define XP_PUSH_LABELS_MAX 16

/* Deadlines and pauses. Tests shorten them. */
struct xp_push_times {
	uint32_t connect_ms;
	uint32_t request_ms; /* for a whole request, including the name lookup and the connection */
	uint32_t pause_ms;   /* after the first failure; doubled after each further failure */
	uint32_t pause_max_ms;
	uint32_t end_ms; /* for the queue, after the last recording */
};

struct xp_push_config {
	enum xp_push_engine engine;
	char *base;	     /* the URL from the command line, for messages */
	char *url;	     /* URL of requests */
	char *authorization; /* the HTTP header with the secret; NULL: none */
	char *tenant;	     /* the HTTP header with the tenant; NULL: none */
	struct xp_push_label labels[XP_PUSH_LABELS_MAX];
	size_t label_count;
	char *authorities; /* CA certificates (PEM) that replace those of the system; NULL: none */
	size_t authorities_bytes;
	struct xp_push_times times;
};

/*
 * Checks the options and reads the files. Prints what is wrong. The caller calls xp_push_config_free(), also after an
 * error. Returns 0, -EINVAL, or -ENOMEM.
 */
int xp_push_config_make(struct xp_push_config *config, const struct xp_push_options *options);
/* Erases the secret from the memory of this process. */
void xp_push_config_forget(struct xp_push_config *config);
void xp_push_config_free(struct xp_push_config *config);

/* Returns the value of a label that the user gave, or NULL. */
const char *xp_push_config_label(const struct xp_push_config *config, const char *name);

#endif
