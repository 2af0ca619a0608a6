// SPDX-License-Identifier: BSD-2-Clause
#include "elf/demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* Limit for mangled names: the demangler's stack use grows with their length. */
#define SYMBOL_BYTES_MAX 16384

struct output {
	char text[XP_DEMANGLED_BYTES_MAX];
	size_t used;
	jmp_buf full;
};

/*
 * Receives demangled text. A name of a hundred bytes with back-references can expand to more text than memory can hold.
 * The demanglers cannot be stopped, so this callback leaves them with longjmp() when the buffer is full. They own no
 * memory at that point, except a few bytes for a Rust identifier in Punycode.
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

/* Tries Rust first: its legacy names are also valid C++ names, with a hash at the end. */
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

/* ---- short names ---- */

#define ANONYMOUS "(anonymous namespace)"
#define OPERATOR "operator"
#define DECLTYPE "decltype"
#define BRACKETS_MAX 256 /* limit of nested brackets */

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

static bool ends(const char *whole, const char *at, const char *with)
{
	size_t bytes = strlen(with);

	return (size_t)(at - whole) >= bytes && !memcmp(at - bytes, with, bytes);
}

/*
 * Returns the length of an operator's name, such as "operator()" or "operator new", without template arguments and
 * parameters.
 */
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
	char after;

	if (!begins(name, OPERATOR) || (name != whole && name[-1] != ':' && name[-1] != ' '))
		return false;
	after = name[strlen(OPERATOR)];
	return !isalnum((unsigned char)after) && after != '_';
}

/* Returns whether '>' closes the innermost bracket. It may also be part of "->", or an operator in parentheses. */
static bool closes_angle(const char *at, char open)
{
	return open == '<' && at[-1] != '-';
}

/*
 * Returns the length of the bracket that starts here, with its contents, or the length of the rest if it is not closed.
 */
static size_t bracket_bytes(const char *name, const char *whole)
{
	char open[BRACKETS_MAX];
	size_t depth = 0, at = 0;

	while (name[at] && depth < sizeof(open)) {
		if (begins_operator(name + at, whole)) {
			at += operator_bytes(name + at);
			continue;
		}
		if (strchr("(<{", name[at])) {
			open[depth++] = name[at];
		} else if (name[at] == '>') {
			depth -= closes_angle(name + at, open[depth - 1]);
		} else if (name[at] == ')' || name[at] == '}') {
			/* The open '<' were comparisons or shifts, not brackets. */
			while (depth > 1 && open[depth - 1] == '<')
				depth--;
			depth--;
		}
		at++;
		if (!depth)
			return at;
	}
	return at + strlen(name + at);
}

/* Copies or skips one piece other than parentheses. Returns its length. */
static size_t take_piece(struct text *text, const char *at, const char *whole)
{
	size_t bytes = 1;

	if (begins_operator(at, whole)) {
		bytes = operator_bytes(at);
		put(text, at, bytes);
		/* In "operator< <int>", the space separates the two '<'. */
		return begins(at + bytes, " <") ? bytes + 1 : bytes;
	} else if (*at == '{') {
		bytes = bracket_bytes(at, whole);
	} else if (*at == '<') {
		return bracket_bytes(at, whole);
	} else if (*at == ' ') {
		text->used = 0; /* the text so far was the return type */
		return bytes;
	}
	put(text, at, bytes);
	return bytes;
}

/* Skips the qualifiers that may follow the parameters of a method. In a name without spaces, '_' replaces them. */
static const char *skip_qualifiers(const char *at)
{
	static const char *const qualifiers[] = { "const", "volatile", "&&", "&", "noexcept" };
	bool more = true;

	while (more && (*at == ' ' || *at == '_')) {
		more = false;
		for (size_t i = 0; !more && i < XP_ARRAY_SIZE(qualifiers); i++) {
			more = begins(at + 1, qualifiers[i]);
			if (more)
				at += 1 + strlen(qualifiers[i]);
		}
	}
	return at;
}

/*
 * Returns whether this text can follow the parameters and qualifiers of a C++ function. "::" precedes a local function.
 */
static bool follows_parameters(const char *at)
{
	return !*at || begins(at, "::") || begins(at, " [clone ") || begins(at, " requires ");
}

/*
 * Shortens the name of a C++ function. Returns false if the name is not one. A C++ name has a list of parameters, and
 * only certain text after it. Names of other languages contain parentheses elsewhere: "regexp.(*Regexp).Match" in Go,
 * "(i32, u8)" in Rust, "to!(int)" in D.
 */
static bool shorten(struct text *text, const char *name)
{
	const char *at = name;
	bool declarator = false; /* the function returns a pointer to a function, or a reference to an array */

	for (;;) {
		if (begins(at, ANONYMOUS)) {
			put(text, at, strlen(ANONYMOUS));
			at += strlen(ANONYMOUS);
		} else if (*at == '(' && (ends(name, at, DECLTYPE " ") || ends(name, at, DECLTYPE))) {
			at += bracket_bytes(at, name);
		} else if (*at == '(' && at > name && at[-1] == ' ' && (at[1] == '*' || at[1] == '&')) {
			at += 2; /* "bool (*f(int))(char)" */
			declarator = true;
		} else if (*at == '(') {
			const char *after = skip_qualifiers(at + bracket_bytes(at, name));

			if (!text->used || ends(name, at, "!") || begins(at, "(.text"))
				return false;
			at = after;
			if (!follows_parameters(at) && !(declarator && *at == ')'))
				return false;
			if (!begins(at, "::"))
				break;
		} else if (*at) {
			at += take_piece(text, at, name);
		} else {
			return false;
		}
	}
	if (begins(at, " [clone "))
		put(text, at, strlen(at));
	return true;
}

void xp_short_name(char *to, size_t to_size, const char *name)
{
	struct text text = { .to = to, .size = to_size };

	/* "<T as Trait>::function" is Rust, "-[NSString(Path) stem]" is Objective-C. */
	if (strchr("<-+", *name) || !shorten(&text, name))
		snprintf(to, to_size, "%s", name);
	else
		to[text.used] = 0;
}

/* ---- manglings that libiberty does not know ---- */

#define NEWER_BYTES_MAX 1024

/*
 * Returns the length of the digits and capitals that number a substitution ("S1_"), a parameter ("T0_") or a size
 * ("DB77_").
 */
static size_t number_bytes(const char *at)
{
	size_t bytes = strspn(at, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	return at[bytes] == '_' ? bytes + 1 : 0;
}

/* Returns the length of a token: an identifier, a literal such as "Lin1E", or letters with their number. */
static size_t token_bytes(const char *at)
{
	size_t digits = strspn(at, "0123456789"), bytes;

	if (digits) {
		bytes = digits < 5 ? digits + strtoul(at, NULL, 10) : digits;
		return strnlen(at, bytes);
	}
	if (*at == 'L' && islower((unsigned char)at[1])) {
		bytes = 2 + strspn(at + 2, "n0123456789");
		return at[bytes] == 'E' ? bytes + 1 : 1;
	}
	if ((*at == 'S' || *at == 'T' || *at == 'A') && number_bytes(at + 1))
		return 1 + number_bytes(at + 1);
	if (*at == 'D' && at[1])
		return 2 + number_bytes(at + 2);
	return (*at == 'S' || *at == 'T' || (*at == 'C' && isdigit((unsigned char)at[1]))) && at[1] ? 2 : 1;
}

/*
 * Writes a symbol with the additions of C++20 and C++23 replaced by older manglings. A constraint ("Tk") and the type
 * of a template parameter ("Tn") become further template arguments, _BitInt becomes int, and an explicit object
 * parameter ("H") becomes a normal one. So the function's name is right, but its arguments are not. `to` has the size
 * of the symbol. Returns the first requires clause ("Q") in it, or NULL.
 */
static char *make_older(char *to, const char *symbol)
{
	char *clause = NULL, *end = to;

	for (size_t bytes; *symbol; symbol += bytes) {
		bytes = token_bytes(symbol);
		if (begins(symbol, "Tk") || begins(symbol, "Tn"))
			continue;
		if (!clause && *symbol == 'Q')
			clause = end;
		if (bytes > 2 && (begins(symbol, "DB") || begins(symbol, "DU"))) {
			*end++ = 'i';
		} else if (*symbol != 'H' || symbol[-1] != 'N') {
			memcpy(end, symbol, bytes);
			end += bytes;
		}
	}
	*end = 0;
	return clause;
}

/*
 * Demangles a symbol up to its requires clause, because the text after it may refer to types in the clause. The clause
 * is at the end of the symbol, or at the end of the function's template arguments.
 */
static bool demangle_up_to(struct output *output, char *clause, const char *symbol)
{
	static const char *const ends[] = { "", "Evv", "EEvv" };

	for (size_t i = 0; i < XP_ARRAY_SIZE(ends); i++) {
		strcpy(clause, ends[i]);
		if (demangle(output, symbol))
			return true;
	}
	return false;
}

/*
 * Demangles with replacements, and returns only the function's name, because parameters and template arguments may be
 * wrong.
 */
static char *demangle_newer(struct output *output, const char *symbol)
{
	char older[NEWER_BYTES_MAX + 4], *clause, *name;
	struct text text = { .size = XP_DEMANGLED_BYTES_MAX };

	if (!begins(symbol, "_Z") || strlen(symbol) >= NEWER_BYTES_MAX)
		return NULL;
	clause = make_older(older, symbol);
	if (!(clause ? demangle_up_to(output, clause, older) : strcmp(older, symbol) && demangle(output, older)))
		return NULL;
	name = strndup(output->text, XP_MIN(output->used, sizeof(output->text) - 1));
	text.to = output->text;
	if (!name || !shorten(&text, name)) {
		free(name);
		return NULL;
	}
	free(name);
	return strndup(output->text, text.used);
}

char *xp_demangle(const char *symbol)
{
	struct output output;

	if (symbol[0] != '_' || strnlen(symbol, SYMBOL_BYTES_MAX) == SYMBOL_BYTES_MAX)
		return NULL;
	return demangle(&output, symbol) ? strndup(output.text, output.used) : demangle_newer(&output, symbol);
}
