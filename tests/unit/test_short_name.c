// SPDX-License-Identifier: BSD-2-Clause
#include "elf/demangle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

TEST(test_names)
{
	static const char *const cases[][2] = {
		{ "main", "main" },
		{ "foo(int)", "foo" },
		{ "shapes::Box::area() const", "shapes::Box::area" },
		{ "void std::sort<int*>(int*, int*)", "std::sort" },
		{ "unsigned long long f<int>(int)", "f" },
		{ "std::vector<int, std::allocator<int> >::push_back(int&&)", "std::vector::push_back" },
		{ "std::map<A, B<C> >::operator[](A&&)", "std::map::operator[]" },
		{ "bool std::operator< <char, X>(Y<char> const&, Z)", "std::operator<" },
		{ "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
		  "std::operator<<" },
		{ "A<B> std::operator+<char, X>(char, A<B> const&)", "std::operator+" },
		{ "S::operator()(int) const", "S::operator()" },
		{ "S::operator->() const", "S::operator->" },
		{ "S::operator bool() const", "S::operator bool" },
		{ "operator new(unsigned long)", "operator new" },
		{ "operator\"\" _km(long double)", "operator\"\" _km" },
		{ "operators::run(int)", "operators::run" },
		{ "(anonymous namespace)::work(int)", "(anonymous namespace)::work" },
		{ "int (anonymous namespace)::pick<int>((anonymous namespace)::S)", "(anonymous namespace)::pick" },
		{ "main::{lambda(int, char)#1}::operator()(int, char) const",
		  "main::{lambda(int, char)#1}::operator()" },
		{ "f(int)::Local::g(char)", "f::Local::g" },
		{ "work(int) [clone .cold]", "work [clone .cold]" },
		{ "decltype (a->b) get<X>(X&)", "get" },
		{ "bool (*pick<int>(int))(char)", "pick" },
		{ "S::f(int) const::{lambda()#1}::operator()() const", "S::f::{lambda()#1}::operator()" },
		{ "S::f(int) const [clone .cold]", "S::f [clone .cold]" },
		{ "S::f(int)_const", "S::f" },
		{ "call<&(S::operator>(S const&))>(S)", "call" },
		{ "big<((4)>(3)), ((1)<<(2))>(int)", "big" },
		{ "<alloc::vec::Vec<(A, B)> as core::ops::Drop>::drop",
		  "<alloc::vec::Vec<(A, B)> as core::ops::Drop>::drop" },
		{ "core::ptr::drop_in_place<alloc::string::String>",
		  "core::ptr::drop_in_place<alloc::string::String>" },
		{ "app+0x1234", "app+0x1234" },
		{ "broken(int", "broken" },
		{ "a)b>c}(", "a)b>c}" },
		{ "(", "(" },
		{ " (", " (" },
		{ "", "" },
	};
	char text[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		xp_short_name(text, sizeof(text), cases[i][0]);
		assert_string_equal(text, cases[i][1]);
	}
}

/*
 * Reads lines of names/: a symbol, a tab and the short name; a line without a tab means that the name is not shortened.
 */
static unsigned int check_list(const char *language)
{
	static char line[4096], text[4096], path[4096];
	unsigned int count = 0;
	FILE *list;

	snprintf(path, sizeof(path), "%.*snames/%s.txt", (int)(strrchr(__FILE__, '/') + 1 - __FILE__), __FILE__,
		 language);
	list = fopen(path, "r");
	assert_non_null(list);
	while (fgets(line, sizeof(line), list)) {
		char *expected = strpbrk(line, "\t"), *name;

		line[strcspn(line, "\n")] = 0;
		if (expected)
			*expected++ = 0;
		name = xp_demangle(line);
		xp_short_name(text, sizeof(text), name ? name : line);
		assert_string_equal(text, expected ? expected : name ? name : line);
		free(name);
		count++;
	}
	fclose(list);
	return count;
}

/* Names of functions in real programs and libraries, from the compilers of these languages. */
TEST(test_real_names)
{
	assert_true(check_list("cpp") > 200);
	assert_true(check_list("rust-legacy") > 90);
	assert_true(check_list("rust-v0") > 90);
	assert_true(check_list("go") > 150);
	assert_true(check_list("d") > 50);
	assert_true(check_list("swift") > 10);
}

TEST(test_not_cpp)
{
	static const char *const names[] = {
		"-[NSString(Path) stem:]",
		"array_list.ArrayListAligned(u8,null).append",
		"JS:~(anonymous) /home/me/app (copy)/x.js:1:1",
		"JS:~(anonymous)_/home/me/x.js:1:1",
		"app (deleted)+0x1234",
		"java.lang.String.indexOf(II)I",
	};
	char text[256];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		xp_short_name(text, sizeof(text), names[i]);
		assert_string_equal(text, names[i]);
	}
}

TEST(test_room)
{
	static const char name[] = "void space::function<int>(int) [clone .part.0]";
	char whole[64], text[64];

	xp_short_name(whole, sizeof(whole), name);
	assert_string_equal(whole, "space::function [clone .part.0]");
	for (size_t size = 1; size < sizeof(text); size++) {
		memset(text, 'x', sizeof(text));
		xp_short_name(text, size, name);
		assert_true(strlen(text) < size);
	}
}
