// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the command line: words, each followed by a zero byte. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

#include "base/util.h"
#include "options.h"

#define WORDS_MAX 64

/* stderr can be assigned with glibc; the fuzzer's messages keep their stream. */
static void be_silent(void)
{
	static FILE *nowhere;

	if (!nowhere)
		nowhere = stderr = fopen("/dev/null", "w");
	CHECK(nowhere);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *argv[WORDS_MAX + 2] = { "xprof" }, *text = malloc(size + 1);
	struct xp_options options;
	int argc = 1, err;

	CHECK(text);
	memcpy(text, data, size);
	text[size] = 0;
	for (size_t at = 0; at < size && argc <= WORDS_MAX; at += strlen(text + at) + 1)
		argv[argc++] = text + at;
	be_silent();
	memset(&options, 0xff, sizeof(options));
	err = xp_options_parse(&options, argc, argv);
	CHECK(!err || err == -EINVAL);
	if (!err)
		CHECK(options.command < XP_COMMANDS);
	xp_options_free(&options);
	free(text);
	return 0;
}
