/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends requests to an engine, in a child without privileges, because libcurl parses data from the network. The child
 * has only a socket. The bodies arrive as descriptors, open for reading. Landlock lets it open only files for name
 * resolution and OpenSSL's configuration, and seccomp limits its system calls. The child verifies the certificate of
 * the server, follows no redirects, reads at most 64 KiB of an answer, and uses the proxy of the environment
 * (https_proxy, http_proxy, no_proxy).
 */
#ifndef XPROF_PUSH_PUSH_SENDER_H
#define XPROF_PUSH_PUSH_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/child.h"
#include "push/push_config.h"

#define XP_PUSH_WHY_BYTES 160

/* The untrusted answer to a request. */
struct xp_push_reply {
	int32_t status;		/* HTTP status; 0: no answer, and `why` has the reason */
	uint32_t retry_after_s; /* 0: unknown */
	bool is_json;
	char why[XP_PUSH_WHY_BYTES];
};

/* Starts the child. The caller ends it with xp_child_kill(). Returns 0 or -errno. */
int xp_push_sender_start(struct xp_child *sender, const struct xp_push_config *config);
/* Sends a body; the caller keeps fd. Returns 0 or -errno. The child answers later: poll sender->fd. */
int xp_push_sender_send(const struct xp_child *sender, int fd);
/* Receives the answer. Returns 0, or -errno if the child has ended or misbehaves. */
int xp_push_sender_receive(const struct xp_child *sender, struct xp_push_reply *reply);

#endif
