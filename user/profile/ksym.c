/* SPDX-License-Identifier: BSD-2-Clause */
#include "profile/ksym.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static int by_address(const void *a, const void *b)
{
	const struct xp_kallsym *left = a, *right = b;

	return left->address < right->address ? -1 : left->address > right->address;
}

static void sort_unique(struct xp_ksym *syms)
{
	size_t count = 0;

	if (!syms->count)
		return;
	qsort(syms->all, syms->count, sizeof(*syms->all), by_address);
	for (size_t i = 1; i < syms->count; i++)
		if (syms->all[i].address != syms->all[count].address)
			syms->all[++count] = syms->all[i];
	syms->count = count + 1;
}

static int make_room(struct xp_ksym *syms)
{
	size_t room = syms->room ? 2 * syms->room : 256;
	struct xp_kallsym *all;

	/* Thousands of profiles want the same few hundred addresses. */
	sort_unique(syms);
	if (syms->count < syms->room / 2)
		return 0;
	all = realloc(syms->all, room * sizeof(*all));
	if (!all)
		return -ENOMEM;
	syms->all = all;
	syms->room = room;
	return 0;
}

int xp_ksym_want(struct xp_ksym *syms, uint64_t address)
{
	if (syms->count == syms->room && make_room(syms))
		return -ENOMEM;
	syms->all[syms->count++] = (struct xp_kallsym){ .address = address };
	return 0;
}

void xp_ksym_free(struct xp_ksym *syms)
{
	for (size_t i = 0; i < syms->count; i++)
		free(syms->all[i].name);
	free(syms->all);
	*syms = (struct xp_ksym){ 0 };
}

/* Parses a text of xp_ksym_describe() about an address in a symbol. */
static int take(struct xp_kallsym *sym, const char *text)
{
	const char *plus = NULL;
	uint64_t offset, size;

	for (const char *at = text; (at = strstr(at, "+0x")); at++)
		plus = at;
	if (!plus || plus == text || sscanf(plus, "+0x%" SCNx64 "/0x%" SCNx64, &offset, &size) != 2)
		return 0;
	if (offset >= XP_KALLSYM_BYTES_MAX || offset >= size || offset > sym->address)
		return 0;
	sym->name = strndup(text, plus - text);
	if (!sym->name)
		return -ENOMEM;
	sym->start = sym->address - offset;
	sym->end = sym->start + XP_MIN(size, XP_KALLSYM_BYTES_MAX);
	return 0;
}

static int ask_batch(struct xp_kallsym *syms, size_t count, xp_ksym_describe *describe, void *arg)
{
	char texts[XP_KSYM_BATCH][XP_KSYM_TEXT_BYTES];
	uint64_t addresses[XP_KSYM_BATCH];
	int err;

	for (size_t i = 0; i < count; i++)
		addresses[i] = syms[i].address;
	err = describe(arg, addresses, count, texts);
	for (size_t i = 0; i < count && !err; i++) {
		texts[i][XP_KSYM_TEXT_BYTES - 1] = 0;
		err = take(&syms[i], texts[i]);
	}
	return err;
}

int xp_ksym_ask(struct xp_ksym *syms, xp_ksym_describe *describe, void *arg)
{
	int err = 0;

	sort_unique(syms);
	for (size_t i = 0; i < syms->count && !err; i += XP_KSYM_BATCH)
		err = ask_batch(&syms->all[i], XP_MIN(syms->count - i, (size_t)XP_KSYM_BATCH), describe, arg);
	return err;
}
