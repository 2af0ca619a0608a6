// SPDX-License-Identifier: BSD-2-Clause
#include "elf/short_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

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
