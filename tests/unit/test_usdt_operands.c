// SPDX-License-Identifier: BSD-2-Clause
/* The arguments of USDT probes, as gcc 12 and clang 14 write them, and what is not an argument. */
#include <string.h>

#include "base/util.h"
#include "elf/usdt_operands.h"
#include "unit.h"

#define NONE XP_USDT_NO_REGISTER
#define PROBE 0x1000

static bool find(void *arg, const char *name, uint64_t *vaddr)
{
	(void)arg;
	*vaddr = 0x5000;
	return !strcmp(name, "counter.0") || !strcmp(name, "_table");
}

static void parse(struct xp_usdt_place *place, const char *arguments)
{
	const struct xp_usdt_probe probe = { .vaddr = PROBE, .arguments = arguments };

	xp_usdt_operands(&probe, place, find, NULL);
}

TEST(test_operands)
{
	static const struct {
		const char *text;
		struct xp_usdt_operand operand;
	} known[] = {
		{ "-4@%eax", { XP_USDT_REGISTER, 4, true, 0, NONE, 0, .value = 0 } },
		{ "8@%r15", { XP_USDT_REGISTER, 8, false, 15, NONE, 0, .value = 0 } },
		{ "2@%r9w", { XP_USDT_REGISTER, 2, false, 9, NONE, 0, .value = 0 } },
		{ "-1@%dil", { XP_USDT_REGISTER, 1, true, 7, NONE, 0, .value = 0 } },
		{ "-2@%si", { XP_USDT_REGISTER, 2, true, 6, NONE, 0, .value = 0 } },
		{ "%rbx", { XP_USDT_REGISTER, 8, false, 3, NONE, 0, .value = 0 } },
		{ "-4@$-7", { XP_USDT_CONSTANT, 4, true, NONE, NONE, 0, .value = (uint64_t)-7 } },
		{ "8@$0x10", { XP_USDT_CONSTANT, 8, false, NONE, NONE, 0, .value = 16 } },
		{ "8@-16(%rbp)", { XP_USDT_MEMORY, 8, false, 5, NONE, 0, .value = (uint64_t)-16 } },
		{ "4@(%rsp)", { XP_USDT_MEMORY, 4, false, 4, NONE, 0, .value = 0 } },
		{ "1@3(%r8,%rcx,4)", { XP_USDT_MEMORY, 1, false, 8, 1, 2, .value = 3 } },
		{ "8@(%rax,%rdx)", { XP_USDT_MEMORY, 8, false, 0, 2, 0, .value = 0 } },
		{ "8@8+_table-4(,%rdi,8)", { XP_USDT_MEMORY, 8, false, NONE, 7, 3, .value = 0x5004 } },
		{ "8@counter.0+4(%rip)", { XP_USDT_MEMORY, 8, false, XP_USDT_IP, NONE, 0, .value = 0x4004 } },
		{ "-4@_table", { XP_USDT_MEMORY, 4, true, XP_USDT_IP, NONE, 0, .value = 0x4000 } },
	};

	for (size_t i = 0; i < XP_ARRAY_SIZE(known); i++) {
		struct xp_usdt_place place;

		parse(&place, known[i].text);
		assert_int_equal(place.count, 1);
		assert_memory_equal(&place.operands[0], &known[i].operand, sizeof(known[i].operand));
	}
}

TEST(test_unsupported)
{
	static const char *const texts[] = {
		"8f@%xmm0",
		"8@%xmm1",
		"16@%rax",
		"0@%rax",
		"3@%rax",
		"4@%ah",
		"4@%eaxx",
		"4@%r16d",
		"4@%r7",
		"4@%r8x",
		"8@%rip",
		"8@$",
		"8@$_table",
		"8@unknown",
		"8@(%rip)",
		"8@4(%rip)",
		"8@12",
		"8@%fs:-4",
		"8@_table@GOTPCREL(%rip)",
		"8@(%rax",
		"8@(%rax,%rip)",
		"8@(%rax,%rcx,3)",
		"8@(%rax,%rcx,16)",
		"8@_table+_table(%rip)",
		"8@-_table(%rip)",
		"8@(%rax)4",
		"8@--4(%rax)",
		"8@()",
		"@%rax",
		"4@",
		"-@%eax",
		"8@_table(%rip,%rax,1)",
	};

	for (size_t i = 0; i < XP_ARRAY_SIZE(texts); i++) {
		struct xp_usdt_place place;

		parse(&place, texts[i]);
		assert_int_equal(place.count, 1);
		assert_int_equal(place.operands[0].kind, XP_USDT_UNSUPPORTED);
	}
}

TEST(test_several)
{
	struct xp_usdt_place place;
	char text[400];

	parse(&place, "");
	assert_int_equal(place.count, 0);
	/* One that is not supported keeps its number. */
	parse(&place, " 4@%eax  8f@%xmm0 4@$5 ");
	assert_int_equal(place.count, 3);
	assert_int_equal(place.operands[1].kind, XP_USDT_UNSUPPORTED);
	assert_int_equal(place.operands[2].value, 5);
	parse(&place, "4@$1 4@$2 4@$3 4@$4 4@$5 4@$6 4@$7 4@$8 4@$9 4@$10 4@$11 4@$12 4@$13");
	assert_int_equal(place.count, XP_USDT_ARGS_MAX);
	assert_int_equal(place.operands[XP_USDT_ARGS_MAX - 1].value, 12);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	parse(&place, text);
	assert_int_equal(place.operands[0].kind, XP_USDT_UNSUPPORTED);
}
