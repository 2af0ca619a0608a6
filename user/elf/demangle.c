// SPDX-License-Identifier: BSD-2-Clause
#include "elf/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include "base/util.h"

/* The demangler's stack use grows with the length of the name. */
#define SYMBOL_BYTES_MAX 16384

struct output {
	char text[XP_DEMANGLED_BYTES_MAX];
	size_t used;
	jmp_buf full;
};

/*
 * With back-references, a name of a hundred bytes can stand for more text than fits in memory. The demanglers cannot be
 * asked to stop, so this callback leaves them with longjmp() once the buffer is full. They own no memory at this point
 * except the few bytes of a Rust identifier in Punycode.
 */
static void receive(const char *text, size_t bytes, void *arg)
{
	struct output *output = arg;
	size_t fitting = XP_MIN(bytes, sizeof(output->text) - output->used);

	if (fitting)
		memcpy(output->text + output->used, text, fitting);
	output->used += fitting;
	if (fitting < bytes)
		longjmp(output->full, 1);
}

/* Rust first: its legacy names are also valid C++ names, with a hash at the end. */
static bool demangle(struct output *output, const char *symbol)
{
	if (setjmp(output->full)) {
		memset(output->text + output->used - 3, '.', 3);
		return true;
	}
	output->used = 0;
	if (rust_demangle_callback(symbol, DMGL_PARAMS, receive, output))
		return true;
	output->used = 0;
	return cplus_demangle_v3_callback(symbol, DMGL_PARAMS | DMGL_ANSI, receive, output);
}

char *xp_demangle(const char *symbol)
{
	struct output output;

	if (symbol[0] != '_' || strnlen(symbol, SYMBOL_BYTES_MAX) == SYMBOL_BYTES_MAX || !demangle(&output, symbol))
		return NULL;
	return strndup(output.text, output.used);
}
