// SPDX-License-Identifier: BSD-2-Clause
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

struct pair {
	const char *from, *to;
};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Returns the output of xp_put_line() and of the messages for a name. */
static char *line_of(const char *text)
{
	char *line = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&line, &size);

	xp_put_line(out, "%s", text);
	fclose(out);
	return line;
}

TEST(test_controls)
{
	static const struct pair cases[] = {
		{ "plain name", "plain name" },
		{ "\033[31mred\007", "?[31mred?" },
		{ "one\nxprof: error: two\r\t\b", "one?xprof: error: two???" },
		{ "delete \x7f", "delete ?" },
		{ "C1 \xc2\x9b"
		  "31m",
		  "C1 ?31m" },
		{ "bare C1 \x9b"
		  "31m",
		  "bare C1 ?31m" },
		{ "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80" },
		{ "cut \xe2\x82", "cut ??" },
		{ "overlong \xc0\x8a", "overlong ??" },
		{ "surrogate \xed\xa0\x80", "surrogate ???" },
	};
	char clean[64];

	for (size_t i = 0; i < COUNT(cases); i++) {
		xp_clean_text(clean, sizeof(clean), cases[i].from);
		assert_string_equal(clean, cases[i].to);
	}
}

/* Tools open files by the names in files, so only lines for people omit these characters. */
TEST(test_unseen)
{
	static const struct pair cases[] = {
		{ "gnp.\xe2\x80\xae exe", "gnp.? exe" },	   /* U+202E, right to left */
		{ "a\xe2\x80\x8f\xd8\x9c\xe2\x81\xa9z", "a???z" }, /* U+200F, U+061C, U+2069 */
		{ "a\xe2\x80\x8b\xef\xbb\xbf\xc2\xadz", "a???z" }, /* U+200B, U+FEFF, U+00AD */
		{ "a\xe2\x80\xa8\xe2\x80\xa9z", "a??z" },	   /* U+2028, U+2029 */
		{ "a\xf3\xa0\x81\x81z", "a?z" },		   /* U+E0041, a tag */
		{ "\xe2\x80\x90\xe2\x80\xaf\xe2\x81\xb0", "\xe2\x80\x90\xe2\x80\xaf\xe2\x81\xb0" },
	};
	char clean[64];

	for (size_t i = 0; i < COUNT(cases); i++) {
		char *line = line_of(cases[i].from);

		assert_int_equal(line[strlen(line) - 1], '\n');
		line[strlen(line) - 1] = 0;
		assert_string_equal(line, cases[i].to);
		free(line);
		xp_clean_text(clean, sizeof(clean), cases[i].from);
		assert_string_equal(clean, cases[i].from);
	}
}

/* Truncated at the end of a character. */
TEST(test_room)
{
	char clean[5];

	xp_clean_text(clean, sizeof(clean), "abc\xc3\xbc");
	assert_string_equal(clean, "abc");
	xp_clean_text(clean, sizeof(clean), "ab\xc3\xbcz");
	assert_string_equal(clean, "ab\xc3\xbc");
}

/* The remedy at the end of a line is kept, at any length of the name before it. */
/* 0xe9 0xbe 0x8d is one character. */
TEST(test_a_cut_is_between_characters)
{
	assert_int_equal(xp_text_fit("abc", 5), 3);
	assert_int_equal(xp_text_fit("abc", 3), 3);
	assert_int_equal(xp_text_fit("abc", 2), 2);
	assert_int_equal(xp_text_fit("ab\xe9\xbe\x8d", 6), 5);
	assert_int_equal(xp_text_fit("ab\xe9\xbe\x8d", 5), 5);
	assert_int_equal(xp_text_fit("ab\xe9\xbe\x8d", 4), 2);
	assert_int_equal(xp_text_fit("ab\xe9\xbe\x8d", 3), 2);
	assert_int_equal(xp_text_fit("\xf0\x9f\x98\x80", 3), 0);
	/* Not UTF-8. */
	assert_int_equal(xp_text_fit("\x80\x80\x80\x80\x80\x80", 5), 5);
	assert_int_equal(xp_text_fit("a\x80\x80", 0), 0);
}

TEST(test_long_line)
{
	static char name[100000];
	char *line = NULL;
	size_t size = 0;
	FILE *out;

	memset(name, '\n', sizeof(name) - 1);
	out = open_memstream(&line, &size);
	xp_put_line(out, "%s: try another", name);
	fclose(out);
	assert_int_equal(size, sizeof(name) - 1 + strlen(": try another\n"));
	assert_string_equal(line + sizeof(name) - 1, ": try another\n");
	assert_int_equal(strcspn(line, "\n"), size - 1);
	free(line);
}

TEST(test_short_text)
{
	struct xp_short_text shortened;
	char text[2 * XP_SHORT_TEXT_BYTES];

	assert_string_equal(xp_short_text(&shortened, "short"), "short");
	memset(text, 'a', sizeof(text));
	text[XP_SHORT_TEXT_BYTES - 1] = 0;
	assert_string_equal(xp_short_text(&shortened, text), text);
	text[XP_SHORT_TEXT_BYTES - 1] = 'a';
	strcpy(text + sizeof(text) - 4, "end");
	assert_int_equal(strlen(xp_short_text(&shortened, text)), XP_SHORT_TEXT_BYTES - 2);
	assert_non_null(strstr(shortened.text, "a..a"));
	assert_string_equal(shortened.text + strlen(shortened.text) - 3, "end");
}

TEST(test_shell_paths)
{
	static const struct pair cases[] = {
		{ "out/a.1.fdr", "out/a.1.fdr" },
		{ "", "''" },
		{ "my files/x", "'my files/x'" },
		{ "it's", "'it'\\''s'" },
		{ "$(touch pwned)`id`", "'$(touch pwned)`id`'" },
		{ "~root", "'~root'" },
		{ "-rf", "./-rf" },
		{ "@list", "./@list" },
		{ "- x", "./'- x'" },
		{ "a\nb", "$'a\\012b'" },
		{ "\0331!'\\", "$'\\0331\\041\\047\\134'" },
		{ "\xff", "$'\\377'" },
		{ "gr\xc3\xbc\xc3\x9f", "'gr\xc3\xbc\xc3\x9f'" },
		{ "\xe2\x80\xae", "$'\\342\\200\\256'" },
	};
	struct xp_shell_path word;
	char *path = calloc(1, 2 * PATH_MAX);

	for (size_t i = 0; i < COUNT(cases); i++)
		assert_string_equal(xp_shell_path(&word, "%s", cases[i].from), cases[i].to);
	assert_string_equal(xp_shell_path(&word, "%s/%s", "-o", "a b"), "./'-o/a b'");
	/* The longest path that the kernel accepts, completely escaped, and one byte more. */
	memset(path, '\n', PATH_MAX + NAME_MAX - 1);
	assert_int_equal(strlen(xp_shell_path(&word, "%s", path)), 4 * (PATH_MAX + NAME_MAX - 1) + 3);
	path[PATH_MAX + NAME_MAX - 1] = '\n';
	assert_string_equal(xp_shell_path(&word, "%s", path), "PATH");
	free(path);
}

/* Each byte, alone and followed by a digit, through bash: the word equals the path. */
TEST(test_bash_reads_the_path)
{
	struct xp_shell_path word;
	char path[600] = "", *script, read[sizeof(path) + 1] = "";
	size_t length = 0;
	FILE *bash;

	for (int byte = 1; byte < 256; byte++) {
		path[length++] = (char)byte;
		path[length++] = '7';
	}
	assert_true(asprintf(&script, "printf %%s %s", xp_shell_path(&word, "%s", path)) > 0);
	setenv("XP_SCRIPT", script, 1);
	bash = popen("exec bash -c \"$XP_SCRIPT\"", "re");
	assert_non_null(bash);
	assert_int_equal(fread(read, 1, sizeof(read) - 1, bash), length);
	assert_int_equal(pclose(bash), 0);
	assert_string_equal(read, path);
	free(script);
}
