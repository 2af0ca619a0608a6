/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libcurl, loaded only by the processes of --push: with the 28 libraries that it needs, each start of xprof would cost
 * 40 ms of CPU time instead of 13.
 */
#ifndef XPROF_PUSH_PUSH_CURL_H
#define XPROF_PUSH_PUSH_CURL_H

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#define XP_PUSH_CURL_FUNCTIONS(X)                                                                                      \
	X(global_init)                                                                                                 \
	X(slist_append)                                                                                                \
	X(slist_free_all)                                                                                              \
	X(easy_init)                                                                                                   \
	X(easy_setopt)                                                                                                 \
	X(easy_getinfo)                                                                                                \
	X(easy_perform)                                                                                                \
	X(easy_strerror)

/* The functions, without their prefix "curl_". */
struct xp_push_curl {
#define X(name) __typeof__(&curl_##name) name;
	XP_PUSH_CURL_FUNCTIONS(X)
#undef X
};

/* Returns 0, or -ELIBACC if the library is not installed. */
int xp_push_curl_load(struct xp_push_curl *curl);

#endif
