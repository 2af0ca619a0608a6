// SPDX-License-Identifier: BSD-2-Clause
#include "elf/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

#define NAME_PIECE_BYTES 256

/* An address that needs a name, and the best symbol for it so far. */
struct wanted {
	uint64_t vaddr;
	uint64_t symbol_vaddr;
	uint64_t name_offset; /* offset of the name in the file */
	uint64_t name_limit;  /* number of bytes from name_offset to the end of the string table */
	uint32_t rank;	      /* rank of the best symbol so far; 0: none */
	bool settled;	      /* true: a table with higher precedence gave the name */
	size_t pool_offset;
};

struct wanted_list {
	struct wanted *items; /* sorted by address, without duplicates */
	size_t count;
	uint64_t strings_bytes; /* total size of the string tables */
};

static int compare_wanted(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

/* Returns the first item at or above vaddr, or NULL if all items are below. */
static struct wanted *find_wanted(const struct wanted_list *list, uint64_t vaddr)
{
	size_t low = XP_FIND_FIRST(list->count, i, list->items[i].vaddr < vaddr);

	return low < list->count ? &list->items[low] : NULL;
}

uint32_t xp_symbol_rank(const GElf_Sym *symbol)
{
	uint32_t rank = 1;

	if (symbol->st_shndx == SHN_UNDEF || !symbol->st_name)
		return 0;
	switch (GELF_ST_TYPE(symbol->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		rank += 10;
		break;
	case STT_NOTYPE:
		break;
	default:
		return 0;
	}
	if (GELF_ST_BIND(symbol->st_info) == STB_GLOBAL)
		rank += 2;
	else if (GELF_ST_BIND(symbol->st_info) == STB_WEAK)
		rank += 1;
	return rank;
}

uint32_t xp_symbol_name_rank(uint32_t rank, const char *name)
{
	return rank * (XP_SYMBOL_PREFIX_BYTES + 1) -
	       (rank ? (uint32_t)XP_MIN(strspn(name, "_"), (size_t)XP_SYMBOL_PREFIX_BYTES) : 0);
}

static uint32_t name_rank(struct xp_elf_file *image, uint64_t offset, uint64_t limit)
{
	char prefix[XP_SYMBOL_PREFIX_BYTES + 1] = "";

	xp_elf_file_read(image, prefix, offset, XP_MIN(limit, (uint64_t)XP_SYMBOL_PREFIX_BYTES));
	return xp_symbol_name_rank(1, prefix);
}

/* Returns whether this symbol, which has the same rank as the best one so far, has a better name. */
static bool has_better_name(struct xp_elf_file *image, const struct wanted *wanted, const Elf64_Sym *symbol,
			    const GElf_Shdr *strings)
{
	return name_rank(image, strings->sh_offset + symbol->st_name, strings->sh_size - symbol->st_name) >
	       name_rank(image, wanted->name_offset, wanted->name_limit);
}

/*
 * Compares a symbol with the first wanted address at or after the start of the symbol. A symbol can name only this
 * address, because a later address is closer to another function. So the work is one search per symbol, even if a
 * hostile symbol claims a huge size.
 */
static void offer_symbol(const struct wanted_list *list, struct xp_elf_file *image, const Elf64_Sym *symbol,
			 const GElf_Shdr *strings)
{
	uint32_t rank = xp_symbol_rank(symbol);
	struct wanted *wanted = rank ? find_wanted(list, symbol->st_value) : NULL;

	if (!wanted || wanted->settled || wanted->vaddr - symbol->st_value >= XP_MAX(symbol->st_size, 1ul) ||
	    symbol->st_name >= strings->sh_size)
		return;
	if (wanted->rank && (wanted->symbol_vaddr > symbol->st_value ||
			     (wanted->symbol_vaddr == symbol->st_value && wanted->rank > rank)))
		return;
	if (wanted->symbol_vaddr == symbol->st_value && wanted->rank == rank &&
	    !has_better_name(image, wanted, symbol, strings))
		return;
	wanted->symbol_vaddr = symbol->st_value;
	wanted->rank = rank;
	wanted->name_offset = strings->sh_offset + symbol->st_name;
	wanted->name_limit = strings->sh_size - symbol->st_name;
}

/* Reads the tables in pieces instead of loading them, because large programs have hundreds of megabytes of symbols. */
static void search_table(struct xp_elf_file *image, uint32_t type, struct wanted_list *list)
{
	GElf_Shdr symbols, strings;
	Elf64_Sym symbol;

	if (!xp_elf_file_symbols(image, type, &symbols, &strings))
		return;
	for (uint64_t at = 0; symbols.sh_size - at >= sizeof(symbol); at += sizeof(symbol)) {
		if (!xp_elf_file_read(image, &symbol, symbols.sh_offset + at, sizeof(symbol)))
			break;
		offer_symbol(list, image, &symbol, &strings);
	}
	list->strings_bytes += strings.sh_size;
	for (size_t i = 0; i < list->count; i++)
		list->items[i].settled = list->items[i].rank != 0;
}

struct pool {
	char *text;
	size_t used;
	size_t capacity;
	uint64_t budget; /* number of bytes that may still be read from the file */
};

/*
 * Appends a name, piece by piece up to its NUL. limit: maximum length. Returns 0 or -errno: -ENOENT if the name has no
 * NUL, is empty or is too long (nothing is appended); -ENOMEM.
 */
static int pool_add_name(struct pool *pool, struct xp_elf_file *image, uint64_t offset, uint64_t limit)
{
	size_t start = pool->used, done = 0;

	limit = XP_MIN(XP_MIN(limit, pool->budget), (uint64_t)XP_SYMBOL_BYTES_MAX);
	while (done < limit) {
		size_t piece = XP_MIN(limit - done, (uint64_t)NAME_PIECE_BYTES);
		const char *end;

		if (XP_ARRAY_RESERVE(pool->text, pool->capacity, start + done + piece))
			return -ENOMEM;
		if (!xp_elf_file_read(image, pool->text + start + done, offset + done, piece))
			break;
		end = memchr(pool->text + start + done, 0, piece);
		if (end) {
			pool->used = end + 1 - pool->text;
			pool->budget -= pool->used - start;
			return end == pool->text + start ? -ENOENT : 0;
		}
		done += piece;
	}
	pool->budget -= done;
	return -ENOENT;
}

/*
 * Appends one name for each address. Linkers may store names with a common tail only once. But if the names take more
 * than twice the size of the string tables, a hostile file has made them overlap to use up memory and time. Then the
 * remaining functions stay unnamed.
 */
static int fill_pool(struct pool *pool, struct xp_elf_file *image, struct wanted_list *list)
{
	if (__builtin_mul_overflow(list->strings_bytes, 2, &pool->budget))
		return 0;
	for (size_t i = 0; i < list->count; i++) {
		struct wanted *wanted = &list->items[i];
		int err;

		if (!wanted->rank)
			continue;
		wanted->pool_offset = pool->used;
		err = pool_add_name(pool, image, wanted->name_offset, wanted->name_limit);
		if (err == -ENOENT)
			wanted->rank = 0;
		else if (err)
			return err;
	}
	return 0;
}

static int list_wanted(struct wanted_list *list, const struct xp_function *functions, size_t count)
{
	size_t kept = 0;

	list->items = calloc(count ? count : 1, sizeof(*list->items));
	if (!list->items)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		list->items[i].vaddr = functions[i].vaddr;
	qsort(list->items, count, sizeof(*list->items), compare_wanted);
	for (size_t i = 0; i < count; i++)
		if (!kept || list->items[kept - 1].vaddr != list->items[i].vaddr)
			list->items[kept++] = list->items[i];
	list->count = kept;
	return 0;
}

int xp_symbols_name(struct xp_elf_file *image, struct xp_function *functions, size_t count, char **pool)
{
	struct wanted_list list = { 0 };
	struct pool names = { 0 };
	int err = list_wanted(&list, functions, count);

	if (!err) {
		search_table(image, SHT_SYMTAB, &list);
		search_table(image, SHT_DYNSYM, &list);
		err = fill_pool(&names, image, &list);
	}
	for (size_t i = 0; !err && i < count; i++) {
		const struct wanted *wanted = find_wanted(&list, functions[i].vaddr);

		functions[i].name = wanted->rank ? names.text + wanted->pool_offset : NULL;
	}
	free(list.items);
	if (err) {
		free(names.text);
		names.text = NULL;
	}
	*pool = names.text;
	return err;
}

/* ---- all names ---- */

/* A symbol at the first byte of a function. */
struct found {
	uint32_t function;
	uint64_t name_offset;
	uint64_t name_limit;
};

struct found_list {
	struct found *all;
	size_t count;
	size_t room;
	uint64_t strings_bytes;
};

static int find_aliases(struct found_list *list, struct xp_elf_file *image, uint32_t type,
			const struct xp_function *functions, size_t count)
{
	GElf_Shdr symbols, strings;
	Elf64_Sym symbol;

	if (!xp_elf_file_symbols(image, type, &symbols, &strings))
		return 0;
	list->strings_bytes += strings.sh_size;
	for (uint64_t at = 0; symbols.sh_size - at >= sizeof(symbol); at += sizeof(symbol)) {
		size_t i;

		if (!xp_elf_file_read(image, &symbol, symbols.sh_offset + at, sizeof(symbol)))
			break;
		i = XP_FIND_FIRST(count, k, functions[k].vaddr < symbol.st_value);
		if (i == count || functions[i].vaddr != symbol.st_value || !xp_symbol_rank(&symbol) ||
		    symbol.st_name >= strings.sh_size)
			continue;
		if (XP_ARRAY_ADD(list->all, list->count, list->room,
				 (struct found){ (uint32_t)i, strings.sh_offset + symbol.st_name,
						 strings.sh_size - symbol.st_name }))
			return -ENOMEM;
	}
	return 0;
}

int xp_symbols_aliases(struct xp_elf_file *image, const struct xp_function *functions, size_t count,
		       struct xp_symbol_alias **aliases, size_t *alias_count, char **pool)
{
	struct found_list list = { 0 };
	struct pool names = { 0 };
	int err = find_aliases(&list, image, SHT_SYMTAB, functions, count)
		      ?: find_aliases(&list, image, SHT_DYNSYM, functions, count);

	*alias_count = 0;
	*aliases = err ? NULL : calloc(list.count + 1, sizeof(**aliases));
	if (!err && !*aliases)
		err = -ENOMEM;
	/* As in fill_pool(). */
	if (__builtin_mul_overflow(list.strings_bytes, 2, &names.budget))
		names.budget = 0;
	for (size_t i = 0; i < list.count && !err; i++) {
		err = pool_add_name(&names, image, list.all[i].name_offset, list.all[i].name_limit);
		if (!err)
			(*aliases)[(*alias_count)++].function = list.all[i].function;
		err = err == -ENOENT ? 0 : err;
	}
	*pool = names.text;
	for (size_t i = 0, at = 0; i < *alias_count; i++, at += strlen(names.text + at) + 1)
		(*aliases)[i].name = names.text + at;
	free(list.all);
	return err;
}
