/* SPDX-License-Identifier: BSD-2-Clause */
#include "kallsyms.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

int xp_kallsyms_want(struct xp_kallsyms *syms, uint64_t address)
{
	if (syms->count == syms->room) {
		size_t room = syms->room ? 2 * syms->room : 256;
		struct xp_kallsym *all = realloc(syms->all, room * sizeof(*all));

		if (!all)
			return -ENOMEM;
		syms->all = all;
		syms->room = room;
	}
	syms->all[syms->count++] = (struct xp_kallsym){ .address = address, .end = UINT64_MAX };
	return 0;
}

void xp_kallsyms_free(struct xp_kallsyms *syms)
{
	for (size_t i = 0; i < syms->count; i++)
		free(syms->all[i].name);
	free(syms->all);
	*syms = (struct xp_kallsyms){ 0 };
}

static int by_address(const void *a, const void *b)
{
	const struct xp_kallsym *left = a, *right = b;

	return left->address < right->address ? -1 : left->address > right->address;
}

static void sort_unique(struct xp_kallsyms *syms)
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

/* The first one asked for that is not below address. */
static size_t lower_bound(const struct xp_kallsyms *syms, uint64_t address)
{
	size_t low = 0, high = syms->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (syms->all[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Of names for one address, the better one: global, and not an internal one. */
static unsigned int rank_of(char type, const char *name)
{
	unsigned int underscores = strspn(name, "_");

	return (type == 'T' ? 100 : 0) + 10 - XP_MIN(underscores, 10u);
}

static int take(struct xp_kallsyms *syms, uint64_t start, char type, const char *name)
{
	size_t i = lower_bound(syms, start);
	struct xp_kallsym *sym = &syms->all[i];
	unsigned int rank = rank_of(type, name);
	char *copy;

	if (i)
		sym[-1].end = XP_MIN(sym[-1].end, start);
	if (i == syms->count || start < sym->start || (start == sym->start && rank <= sym->rank))
		return 0;
	copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	free(sym->name);
	sym->name = copy;
	sym->start = start;
	sym->rank = rank;
	return 0;
}

/* Not strtoull(), which is slow: a table has more than 100 000 lines. */
static uint64_t read_hex(char **at)
{
	uint64_t value = 0;

	for (;; ++*at) {
		char c = **at;

		if (c >= '0' && c <= '9')
			value = value << 4 | (c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (c - 'a' + 10);
		else
			return value;
	}
}

/* "ffffffff81000000 T _text", and of modules "\t[name]" behind it. */
static int take_line(struct xp_kallsyms *syms, char *line)
{
	char *end = line, *name, type;
	uint64_t start = read_hex(&end);

	if (!start || end[0] != ' ' || !end[1] || end[2] != ' ' || !strchr("tTwW", end[1]))
		return 0;
	type = end[1];
	name = end + 3;
	name[strcspn(name, " \t\n")] = 0;
	return name[0] ? take(syms, start, type, name) : 0;
}

/* A symbol was noted at the first address behind its start, and at the last one before. */
static int spread(struct xp_kallsyms *syms)
{
	for (size_t i = 1; i < syms->count; i++) {
		struct xp_kallsym *sym = &syms->all[i];

		if (sym[-1].start <= sym->start)
			continue;
		free(sym->name);
		sym->name = strdup(sym[-1].name);
		if (!sym->name)
			return -ENOMEM;
		sym->start = sym[-1].start;
	}
	for (size_t i = syms->count; i-- > 1;)
		syms->all[i - 1].end = XP_MIN(syms->all[i - 1].end, syms->all[i].end);
	return 0;
}

static void cut(struct xp_kallsym *sym)
{
	if (!sym->name)
		return;
	if (sym->address - sym->start >= XP_KALLSYM_BYTES_MAX) {
		free(sym->name);
		sym->name = NULL;
	}
	if (sym->end - sym->start > XP_KALLSYM_BYTES_MAX)
		sym->end = sym->start + XP_KALLSYM_BYTES_MAX;
}

int xp_kallsyms_read(struct xp_kallsyms *syms, FILE *table)
{
	char *line = NULL;
	size_t room = 0;
	int err = 0;

	sort_unique(syms);
	errno = 0;
	while (!err && syms->count && getline(&line, &room, table) > 0)
		err = take_line(syms, line);
	if (!err && ferror(table))
		err = errno ? -errno : -EIO;
	free(line);
	if (!err)
		err = spread(syms);
	for (size_t i = 0; i < syms->count; i++)
		cut(&syms->all[i]);
	return err;
}
