// SPDX-License-Identifier: BSD-2-Clause
#include "push/push_curl.h"

#include <dlfcn.h>
#include <errno.h>

int xp_push_curl_load(struct xp_push_curl *curl)
{
	void *library = dlopen("libcurl.so.4", RTLD_NOW);

	if (!library)
		return -ELIBACC;
#define X(name)                                                                                                        \
	curl->name = (__typeof__(curl->name))dlsym(library, "curl_" #name);                                            \
	if (!curl->name)                                                                                               \
		return -ELIBACC;
	XP_PUSH_CURL_FUNCTIONS(X)
#undef X
	return 0;
}
