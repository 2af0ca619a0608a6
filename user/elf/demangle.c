// SPDX-License-Identifier: BSD-2-Clause
#include "elf/demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
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

/* ---- short names ---- */

#define ANONYMOUS "(anonymous namespace)"
#define OPERATOR "operator"

struct text {
	char *to;
	size_t size; /* at least 1 */
	size_t used;
};

static void put(struct text *text, const char *from, size_t bytes)
{
	for (; bytes && text->used + 1 < text->size; bytes--)
		text->to[text->used++] = *from++;
}

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

/* Length of the bracket that starts here, including its contents; the whole rest if it is never closed. */
static size_t bracket_bytes(const char *name)
{
	size_t depth = 0, at = 0;

	for (; name[at]; at++) {
		if (strchr("(<{", name[at]))
			depth++;
		else if (name[at] == '>' && at && name[at - 1] == '-')
			continue; /* "->" in a decltype */
		else if (strchr(")>}", name[at]) && !--depth)
			return at + 1;
	}
	return at;
}

/* Length of "operator()", "operator<<", "operator new" up to its template arguments or parameters. */
static size_t operator_bytes(const char *name)
{
	static const char *const symbols[] = {
		"<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "<=", ">=", "->", "&&", "||",
		"++",  "--",  "==",  "!=",  "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<",
		">",   "+",   "-",   "*",   "/",  "%",	"^",  "&",  "|",  "~",	"!",  "=",  ","
	};
	size_t at = strlen(OPERATOR);

	for (size_t i = 0; i < XP_ARRAY_SIZE(symbols); i++)
		if (begins(name + at, symbols[i]))
			return at + strlen(symbols[i]);
	return at + strcspn(name + at, "(<");
}

static bool begins_operator(const char *name, const char *whole)
{
	char after = name[strlen(OPERATOR)];

	return (name == whole || name[-1] == ':' || name[-1] == ' ') && !isalnum((unsigned char)after) && after != '_';
}

/* Copies or skips one piece. Returns its length. */
static size_t take_piece(struct text *text, const char *at, const char *whole)
{
	size_t bytes = 1;

	if (begins(at, ANONYMOUS)) {
		bytes = strlen(ANONYMOUS);
	} else if (begins(at, OPERATOR) && begins_operator(at, whole)) {
		bytes = operator_bytes(at);
		put(text, at, bytes);
		/* In "operator< <int>", the space separates the two '<'. */
		return begins(at + bytes, " <") ? bytes + 1 : bytes;
	} else if (*at == '{') {
		bytes = bracket_bytes(at);
	} else if (*at == '(' || *at == '<') {
		return bracket_bytes(at);
	} else if (*at == ' ') {
		text->used = 0; /* it was the return type */
		return bytes;
	}
	put(text, at, bytes);
	return bytes;
}

void xp_short_name(char *to, size_t to_size, const char *name)
{
	struct text text = { .to = to, .size = to_size };
	const char *at = name;
	bool done = false;

	/* C names and most Rust names have no parameters. "<T as Trait>::function" is also Rust. */
	if (!strchr(name, '(') || *name == '<') {
		snprintf(to, to_size, "%s", name);
		return;
	}
	while (*at && !done) {
		bool parameters = *at == '(' && !begins(at, ANONYMOUS);

		at += take_piece(&text, at, name);
		/* If other functions are local to this one, "::" follows. */
		done = parameters && !begins(at, "::") && text.used;
	}
	while (text.used && to[text.used - 1] == ' ')
		text.used--;
	if (begins(at, " [clone "))
		put(&text, at, strlen(at));
	to[text.used] = 0;
	if (!text.used)
		snprintf(to, to_size, "%s", name);
}
