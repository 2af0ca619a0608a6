// SPDX-License-Identifier: BSD-2-Clause
#include "jit/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "jit/eh_frame.h"
#include "jit/ranges.h"

#define LATE_MAX (1u << 16) /* maximum number of deferred loads; each xp_jit_code_bind() scans all of them */
#define MOMENT 1000	    /* TSC ticks added to a time. Must exceed 1 ns, the precision of timestamps in perf.data */

struct entry {
	uint64_t start; /* current address, after all moves */
	uint64_t size;
	uint64_t hash; /* hash of the code bytes; 0: unknown */
	char *name;
	struct xp_cfi_rows *rules; /* unwind rules by offset from the start of the code; NULL: no unwinding data */
	bool has_others_rules;	   /* true: another entry owns (and frees) the rules */
};

/* A load that the observer receives later, with a copy of its code and its lines, in one allocation. */
struct deferred {
	struct deferred *next;
	uint32_t index;
	size_t bytes;		 /* size of the allocation */
	struct xp_jit_load load; /* without the name and the unwinding data */
};

struct xp_jit_code {
	struct xp_jit_observer observer;
	const struct xp_address_space *space; /* NULL: any address is valid */
	uint64_t *bytes_left;
	uint64_t bytes_taken;
	uint64_t refused;
	uint32_t puts; /* number of loads and moves so far */
	bool has_rules;

	struct entry *entries;
	uint32_t count;
	size_t room;

	struct xp_jit_ranges pieces; /* address ranges of the entries, by entry index */
	struct deferred *late;	     /* loads that the observer has not received yet */
	struct deferred **late_end;
	uint32_t late_count;
};

int xp_jit_code_new(struct xp_jit_code **code, uint64_t *bytes_left, const struct xp_jit_observer *observer)
{
	struct xp_jit_code *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	made->bytes_left = bytes_left;
	made->late_end = &made->late;
	made->pieces.random = (uint32_t)((uintptr_t)made >> 4) | 1;
	if (observer)
		made->observer = *observer;
	*code = made;
	return 0;
}

static void free_rules(struct xp_cfi_rows *rules)
{
	if (rules)
		xp_cfi_rows_free(rules);
	free(rules);
}

static void free_entry(struct entry *entry)
{
	free(entry->name);
	if (!entry->has_others_rules)
		free_rules(entry->rules);
}

void xp_jit_code_free(struct xp_jit_code *code)
{
	struct deferred *late;

	if (!code)
		return;
	for (uint32_t i = 0; i < code->count; i++)
		free_entry(&code->entries[i]);
	while ((late = code->late)) {
		code->late = late->next;
		free(late);
	}
	*code->bytes_left += code->bytes_taken;
	free(code->entries);
	xp_jit_ranges_free(&code->pieces);
	free(code);
}

/* ---- memory budget ---- */

/*
 * Takes memory from the budget that all processes share. A process may not hold more than the remaining budget, so one
 * process cannot use up the budget.
 */
static bool take_bytes(struct xp_jit_code *code, uint64_t bytes)
{
	if (bytes > *code->bytes_left || code->bytes_taken + bytes > *code->bytes_left - bytes)
		return false;
	*code->bytes_left -= bytes;
	code->bytes_taken += bytes;
	return true;
}

static void give_back(struct xp_jit_code *code, uint64_t bytes)
{
	*code->bytes_left += bytes;
	code->bytes_taken -= bytes;
}

static int charge(struct xp_jit_code *code, uint64_t bytes)
{
	if (code->puts >= XP_JIT_CODES_MAX || !take_bytes(code, bytes + xp_jit_ranges_bytes())) {
		code->refused++;
		return -ENOSPC;
	}
	return 0;
}

/* ---- code ---- */

/* Returns the range where the code is loaded now, or NULL if the code is not loaded. */
static struct xp_jit_range_use *alive(const struct xp_jit_code *code, uint32_t index)
{
	struct xp_jit_range_use *piece =
	    index < code->count ? xp_jit_ranges_alive(&code->pieces, code->entries[index].start) : NULL;

	return piece && piece->code == index ? piece : NULL;
}

static bool is_in_file(const struct xp_jit_code *code, uint64_t address)
{
	const struct xp_vma *vma = code->space ? xp_address_space_find(code->space, address) : NULL;

	return vma && !xp_file_may_be_jit(vma->file);
}

bool xp_jit_code_can_be(const struct xp_jit_code *code, uint64_t start, uint64_t size)
{
	return size && size <= XP_JIT_SIZE_MAX && start < XP_JIT_ADDRESS_END && size <= XP_JIT_ADDRESS_END - start &&
	       !is_in_file(code, start) && !is_in_file(code, start + size - 1);
}

/* Returns the FNV-1a hash over 8-byte words, never 0. */
static uint64_t hash_of(const uint8_t *bytes, uint64_t size)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (uint64_t i = 0; bytes && i < size; i += sizeof(hash)) {
		uint64_t word = 0;

		memcpy(&word, bytes + i, XP_MIN(size - i, sizeof(word)));
		hash = (hash ^ word) * 0x100000001b3u;
		hash ^= hash >> 32;
	}
	return bytes ? hash | 1 : 0;
}

/* Returns the loaded code with the same range and name, or NULL. The bytes of the two codes may differ. */
static struct entry *find_present(const struct xp_jit_code *code, const struct entry *from)
{
	const struct xp_jit_range_use *piece = xp_jit_ranges_alive(&code->pieces, from->start);
	struct entry *entry = piece ? &code->entries[piece->code] : NULL;

	return entry && piece->end == from->start + from->size && !strcmp(entry->name, from->name) ? entry : NULL;
}

/* Returns whether the bytes are equal. Unknown bytes count as equal to any bytes. */
static bool is_same(const struct entry *entry, const struct entry *from)
{
	return !entry->hash || !from->hash || entry->hash == from->hash;
}

static char *clean_name(const char *name)
{
	size_t bytes = strnlen(name, XP_JIT_NAME_BYTES_MAX - 1) + 1;
	char *clean = malloc(bytes), *shorter;

	if (!clean)
		return NULL;
	xp_clean_text(clean, bytes, name);
	shorter = realloc(clean, strlen(clean) + 1);
	return shorter ? shorter : clean;
}

/*
 * Converts the unwinding data of a load to rules. Sets *rules to NULL if there is no usable unwinding data. Returns 0
 * or -ENOMEM.
 */
static int make_rules(struct xp_cfi_rows **rules, const struct xp_jit_load *load)
{
	struct xp_cfi_rows *made;
	int err;

	*rules = NULL;
	if (!load->unwinding)
		return 0;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	err = xp_jit_eh_frame_rows(made, load->unwinding, load->start, load->size);
	if (!err && made->count)
		*rules = made;
	else
		free_rules(made);
	return err == -ENOMEM ? err : 0;
}

static uint64_t rules_bytes(const struct entry *entry)
{
	bool has_own = entry->rules && !entry->has_others_rules;

	return has_own ? sizeof(*entry->rules) + xp_cfi_rows_bytes(entry->rules) : 0;
}

/* ---- deferred loads ---- */

/* Returns whether the line has the same file name as the previous line. Most lines have. */
static bool has_file_of_last(const struct xp_jit_load *load, size_t line)
{
	return line && !strcmp(load->lines[line].file, load->lines[line - 1].file);
}

/* Returns the size of a copy of the load. */
static size_t deferred_bytes(const struct xp_jit_load *load)
{
	size_t bytes =
	    sizeof(struct deferred) + load->line_count * sizeof(*load->lines) + (load->code ? load->size : 0);

	for (size_t i = 0; i < load->line_count; i++)
		if (!has_file_of_last(load, i))
			bytes += strlen(load->lines[i].file) + 1;
	return bytes;
}

/* Copies the bytes to *end and advances *end. */
static const void *put(uint8_t **end, const void *bytes, size_t count)
{
	void *copy = *end;

	if (!bytes)
		return NULL;
	*end += count;
	return memcpy(copy, bytes, count);
}

/* Copies a load, with its code, lines and file names, into one allocation. Returns NULL if out of memory. */
static struct deferred *deferred_new(uint32_t index, const struct xp_jit_load *load)
{
	size_t bytes = deferred_bytes(load);
	struct deferred *late = malloc(bytes);
	struct xp_jit_line *lines;
	uint8_t *end;

	if (!late)
		return NULL;
	*late = (struct deferred){ .index = index, .bytes = bytes, .load = *load };
	lines = (struct xp_jit_line *)(late + 1);
	end = (uint8_t *)(lines + load->line_count);
	for (size_t i = 0; i < load->line_count; i++) {
		const char *file = load->lines[i].file;

		lines[i] = load->lines[i];
		lines[i].file = has_file_of_last(load, i) ? lines[i - 1].file : put(&end, file, strlen(file) + 1);
	}
	late->load.name = NULL;
	late->load.lines = lines;
	late->load.code = put(&end, load->code, load->size);
	late->load.unwinding = NULL;
	return late;
}

/* ---- the observer ---- */

static void tell(struct xp_jit_code *code, uint32_t index, const struct xp_jit_load *load)
{
	struct xp_jit_load kept = *load;
	uint64_t since = code->space ? xp_address_space_jit_since(code->space, load->start) : 0;

	/* If the load time is unknown, use a time just after the memory of the code was mapped. */
	if (since && (load->is_bound || !load->tsc))
		kept.tsc = XP_MAX(load->tsc, since + MOMENT);
	kept.name = code->entries[index].name;
	code->observer.load(code->observer.arg, index, &kept);
}

/* Returns whether the memory of the code is mapped in the address space. Without an address space, returns true. */
static bool is_mapped(const struct xp_jit_code *code, const struct xp_jit_load *load)
{
	return !code->space || xp_address_space_find(code->space, load->start);
}

/* Defers a load. Returns false if there is no space. */
static bool tell_later(struct xp_jit_code *code, uint32_t index, const struct xp_jit_load *load)
{
	size_t bytes = deferred_bytes(load);
	struct deferred *late;

	if (code->late_count == LATE_MAX || !take_bytes(code, bytes))
		return false;
	late = deferred_new(index, load);
	if (!late) {
		give_back(code, bytes);
		return false;
	}
	code->late_count++;
	*code->late_end = late;
	code->late_end = &late->next;
	return true;
}

/*
 * Reports a load to the observer, or defers the report. Sources read the current state of the process, but the known
 * address space may be older. If the address space lacks the memory of the code, the memory was mapped later. The load
 * time must not be before that mapping, so the report waits until the mapping is known.
 */
static void tell_load(struct xp_jit_code *code, uint32_t index, const struct xp_jit_load *load, uint64_t from)
{
	struct xp_jit_load kept = *load;
	bool is_early = load->is_bound && !is_mapped(code, load);

	kept.tsc = from;
	if (code->observer.load && (!is_early || !tell_later(code, index, &kept)))
		tell(code, index, &kept);
}

static void tell_late(struct xp_jit_code *code, struct deferred **link)
{
	struct deferred *late = *link;

	tell(code, late->index, &late->load);
	*link = late->next;
	if (!*link)
		code->late_end = link;
	code->late_count--;
	give_back(code, late->bytes);
	free(late);
}

void xp_jit_code_bind(struct xp_jit_code *code, const struct xp_address_space *space)
{
	struct deferred **link = &code->late;

	code->space = space;
	while (space && *link)
		if (is_mapped(code, &(*link)->load))
			tell_late(code, link);
		else
			link = &(*link)->next;
}

void xp_jit_code_settle(struct xp_jit_code *code)
{
	while (code->late)
		tell_late(code, &code->late);
}

/* ---- loads and moves ---- */

static int add(struct xp_jit_code *code, const struct xp_jit_load *load, const struct entry *entry)
{
	struct xp_jit_range_use piece = {
		.start = load->start,
		.end = load->start + load->size,
		.base = load->start,
		.from = load->tsc,
		.to = XP_JIT_ALIVE,
		.code = code->count,
	};
	int err = XP_ARRAY_RESERVE(code->entries, code->room, code->count + 1);

	if (!err)
		err = charge(code, sizeof(*entry) + strlen(entry->name) + 1 + rules_bytes(entry));
	if (!err)
		err = xp_jit_ranges_add(&code->pieces, &piece, load->is_bound);
	if (err)
		return err;
	code->puts++;
	code->entries[code->count++] = *entry;
	code->has_rules |= entry->rules != NULL;
	tell_load(code, piece.code, load, piece.from);
	return 0;
}

/* Copies new data from a repeated load to the known entry. */
static void complete(struct xp_jit_code *code, struct entry *present, struct entry *from)
{
	if (!present->hash)
		present->hash = from->hash;
	if (present->rules || !from->rules || !take_bytes(code, rules_bytes(from)))
		return;
	present->rules = from->rules;
	from->rules = NULL;
	code->has_rules = true;
}

int xp_jit_code_load(struct xp_jit_code *code, const struct xp_jit_load *load, uint32_t *index)
{
	struct entry entry = { .start = load->start, .size = load->size }, *present;
	uint32_t number = code->count;
	int err;

	if (!xp_jit_code_can_be(code, load->start, load->size))
		return -EINVAL;
	entry.hash = hash_of(load->code, load->size);
	entry.name = clean_name(load->name);
	err = entry.name ? make_rules(&entry.rules, load) : -ENOMEM;
	present = err ? NULL : find_present(code, &entry);
	if (present && is_same(present, &entry)) {
		number = (uint32_t)(present - code->entries);
		complete(code, present, &entry);
		free_entry(&entry);
	} else if (!err) {
		/*
		 * LLVM reports each function twice. The report in its jitdump has no rules, and the code bytes in it
		 * are not yet relocated. So keep the rules of the first report.
		 */
		entry.has_others_rules = present && present->rules && !entry.rules;
		if (entry.has_others_rules)
			entry.rules = present->rules;
		err = add(code, load, &entry);
	}
	if (err)
		free_entry(&entry);
	else if (index)
		*index = number;
	return err;
}

int xp_jit_code_move(struct xp_jit_code *code, uint32_t index, uint64_t tsc, uint64_t new_start)
{
	struct xp_jit_range_use *last = alive(code, index), piece;
	struct entry *entry = &code->entries[index];
	uint64_t old_start;
	int err;

	if (!last)
		return -ENOENT;
	if (!xp_jit_code_can_be(code, new_start, entry->size))
		return -EINVAL;
	old_start = entry->start;
	if (old_start == new_start)
		return 0;
	err = charge(code, 0);
	if (err)
		return err;
	piece = (struct xp_jit_range_use){
		.start = new_start,
		.end = new_start + entry->size,
		.base = new_start,
		.from = XP_MAX(tsc, last->from),
		.to = XP_JIT_ALIVE,
		.code = index,
	};
	err = xp_jit_ranges_add(&code->pieces, &piece, false);
	if (err)
		return err;
	code->puts++;
	last = alive(code, index); /* NULL if the new range overlaps the old range */
	if (last)
		last->to = piece.from;
	entry->start = new_start;
	if (code->observer.move)
		code->observer.move(code->observer.arg, index, piece.from, old_start, new_start, entry->size);
	return 0;
}

int xp_jit_code_unload(struct xp_jit_code *code, uint32_t index, uint64_t tsc)
{
	struct xp_jit_range_use *piece = alive(code, index);

	if (!piece)
		return -ENOENT;
	piece->to = XP_MAX(tsc, piece->from);
	return 0;
}

bool xp_jit_code_find(const struct xp_jit_code *code, uint64_t address, uint64_t tsc, struct xp_jit_range *range)
{
	const struct xp_jit_range_use *piece = xp_jit_ranges_find(&code->pieces, address, tsc);

	if (!piece)
		return false;
	*range = (struct xp_jit_range){
		.index = piece->code,
		.start = piece->base,
		.size = code->entries[piece->code].size,
		.name = code->entries[piece->code].name,
	};
	return true;
}

bool xp_jit_code_find_rule(const struct xp_jit_code *code, uint64_t address, uint64_t tsc, struct xp_cfi_found *found)
{
	const struct xp_jit_range_use *piece = xp_jit_ranges_find(&code->pieces, address, tsc);

	*found = (struct xp_cfi_found){ .row.rule = XP_CFI_NONE };
	if (piece && code->entries[piece->code].rules)
		xp_cfi_rows_find(code->entries[piece->code].rules, (uint32_t)(address - piece->base), found);
	return piece;
}

bool xp_jit_code_has_rules(const struct xp_jit_code *code)
{
	return code->has_rules;
}

uint32_t xp_jit_code_count(const struct xp_jit_code *code)
{
	return code->count;
}

uint64_t xp_jit_code_refused(const struct xp_jit_code *code)
{
	return code->refused;
}
