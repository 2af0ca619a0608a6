/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/ksym.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

static int by_address(const void *a, const void *b)
{
	const struct xp_kallsym *left = a, *right = b;

	return left->address < right->address ? -1 : left->address > right->address;
}

int xp_ksym_want(struct xp_ksym *syms, uint64_t address)
{
	size_t known = syms->seen.count;

	if (known >= XP_KSYM_MAX)
		return 0;
	if (!xp_u64_map_add(&syms->seen, address, 0))
		return -ENOMEM;
	if (syms->seen.count == known)
		return 0;
	return XP_ARRAY_ADD(syms->all, syms->count, syms->room, (struct xp_kallsym){ .address = address });
}

void xp_ksym_free(struct xp_ksym *syms)
{
	for (size_t i = 0; i < syms->count; i++)
		free(syms->all[i].name);
	free(syms->all);
	xp_u64_map_free(&syms->seen);
	*syms = (struct xp_ksym){ 0 };
}

/* Parses a text from xp_ksym_describe(): "name+0x10/0x40". */
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

	if (syms->count)
		qsort(syms->all, syms->count, sizeof(*syms->all), by_address);
	for (size_t i = 0; i < syms->count && !err; i += XP_KSYM_BATCH)
		err = ask_batch(&syms->all[i], XP_MIN(syms->count - i, (size_t)XP_KSYM_BATCH), describe, arg);
	return err;
}
