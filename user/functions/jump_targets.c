// SPDX-License-Identifier: BSD-2-Clause
#include "functions/jump_targets.h"

#include <elf.h>
#include <string.h>

#define WALK_BACK 24 /* maximum number of instructions from a jump back to the instruction that loads its register */

/* ---- unwind rows ---- */

static struct xp_code_row row_at(const struct xp_jump_targets *targets, uint32_t part, uint64_t vaddr)
{
	const struct xp_cfi_fdes *fdes = &targets->map->fdes;
	struct xp_cfi_program program = { 0 };
	struct xp_code_row row = { 0 };

	xp_cfi_fdes_start(fdes, &fdes->all[part], &program);
	while (*targets->row_budget && xp_cfi_program_next(&program) && program.place <= vaddr)
		--*targets->row_budget;
	if (!*targets->row_budget || program.code.bad || !program.now.has_cfa || program.now.cfa.at)
		return row;
	row = (struct xp_code_row){ true, program.now.cfa_reg, program.now.cfa_offset };
	return row;
}

static bool is_entry_row(const struct xp_code_row *row)
{
	return row->is_known && row->reg == XP_CFI_REG_RSP && row->offset == 8;
}

bool xp_jump_targets_may_be(const struct xp_jump_targets *targets, uint32_t part, uint64_t vaddr)
{
	struct xp_code_row row;

	if (!targets->unknown_count)
		return false;
	row = row_at(targets, part, vaddr);
	if (!row.is_known || targets->unknown_count > XP_UNKNOWN_ROWS_MAX)
		return true;
	for (size_t i = 0; i < targets->unknown_count; i++) {
		const struct xp_code_row *other = &targets->unknown[i];

		if (!other->is_known || (other->reg == row.reg && other->offset == row.offset))
			return true;
	}
	return false;
}

/* ---- tables ---- */

static bool is_own_instruction(const struct xp_jump_targets *targets, uint64_t vaddr)
{
	size_t part =
	    xp_code_map_kind(targets->map, vaddr) == XP_CODE_NONE ? SIZE_MAX : xp_code_map_find(targets->map, vaddr);

	return part != SIZE_MAX && targets->parts[part].root == targets->root && targets->map->is_decodable[part];
}

/* Returns whether the target is the end of the function, where clang lets impossible cases jump. */
static bool is_own_end(const struct xp_jump_targets *targets, uint64_t vaddr)
{
	size_t part = xp_code_map_find(targets->map, vaddr - 1);

	return part != SIZE_MAX && targets->parts[part].root == targets->root &&
	       vaddr == targets->map->fdes.all[part].vaddr + targets->map->fdes.all[part].bytes;
}

/* Finds the file offset of an address in any segment. Returns false if there is none. */
static bool file_offset(const struct xp_code_map *map, uint64_t vaddr, uint64_t *offset)
{
	size_t count;

	if (elf_getphdrnum(map->file->elf, &count))
		return false;
	for (size_t i = 0; i < count && i < XP_ELF_SEGMENTS_MAX; i++) {
		GElf_Phdr header;

		if (gelf_getphdr(map->file->elf, (int)i, &header) && header.p_type == PT_LOAD &&
		    vaddr - header.p_vaddr < header.p_filesz) {
			*offset = header.p_offset + (vaddr - header.p_vaddr);
			return true;
		}
	}
	return false;
}

static void read_table(struct xp_jump_targets *targets, uint64_t table)
{
	const struct xp_code_map *map = targets->map;
	uint64_t start = map->fdes.all[targets->root].vaddr, offset;
	uint64_t entry = xp_code_entry(map, &map->fdes.all[targets->root]);
	int32_t distance;

	if (!file_offset(map, table, &offset))
		return;
	for (; *targets->table_budget && xp_elf_file_read(map->file, &distance, offset, sizeof(distance));
	     offset += sizeof(distance)) {
		uint64_t target = table + (uint64_t)(int64_t)distance;

		--*targets->table_budget;
		if (is_own_end(targets, target))
			continue;
		if (!is_own_instruction(targets, target))
			break;
		xp_code_map_mark(targets->map, target, XP_MARK_TARGET);
		targets->has_table = true;
		targets->is_loop |= target == start || target == entry;
	}
}

static void read_tables_of(struct xp_jump_targets *targets, const struct xp_cfi_fde *fde)
{
	struct xp_code code;

	for (uint64_t at = fde->vaddr; at < fde->vaddr + fde->bytes; at += code.bytes) {
		xp_code_map_decode(targets->map, at, &code);
		if (code.is_lea)
			read_table(targets, code.address);
	}
}

static void read_tables(struct xp_jump_targets *targets)
{
	if (targets->are_tables_read)
		return;
	targets->are_tables_read = true;
	for (uint32_t part = targets->root; part != XP_NO_PART; part = targets->parts[part].next)
		if (targets->map->is_decodable[part])
			read_tables_of(targets, &targets->map->fdes.all[part]);
}

/* Returns whether data or an instruction contains a code address in the middle of the function. */
static bool has_labels(struct xp_jump_targets *targets)
{
	const struct xp_code_map *map = targets->map;

	if (targets->are_labels_searched)
		return targets->has_label;
	targets->are_labels_searched = true;
	for (uint32_t part = targets->root; part != XP_NO_PART; part = targets->parts[part].next) {
		const struct xp_cfi_fde *fde = &map->fdes.all[part];

		for (uint64_t at = fde->vaddr + 1; at < fde->vaddr + fde->bytes; at++)
			targets->has_label |= xp_code_map_is(map, at, XP_MARK_POINTED);
	}
	return targets->has_label;
}

/* Returns whether a table of addresses begins with an address in this function. Its entries are marked already. */
static bool is_own_table(const struct xp_jump_targets *targets, uint64_t table)
{
	uint64_t offset, first;

	return file_offset(targets->map, table, &offset) &&
	       xp_elf_file_read(targets->map->file, &first, offset, sizeof(first)) &&
	       is_own_instruction(targets, first);
}

/* ---- jumps ---- */

enum source {
	SOURCE_POINTER, /* a register or memory */
	SOURCE_ARRAY,	/* memory with an index */
	SOURCE_SUM,	/* a register to which something was added */
};

/* *table: address of the array; 0: it is in a register. */
static enum source source_in_memory(const struct xp_code_place *place, uint64_t *table)
{
	if (place->index == XP_CODE_NO_REG)
		return SOURCE_POINTER;
	*table = place->reg == XP_CODE_NO_REG ? (uint64_t)place->offset : 0;
	return SOURCE_ARRAY;
}

static enum source source_of(const struct xp_code_map *map, uint64_t first, uint64_t jump, uint64_t *table)
{
	struct xp_code_place place, loaded;
	uint64_t at = jump;

	*table = 0;
	if (!xp_code_jump_place(map->code + (jump - map->start), map->end - jump, &place))
		return SOURCE_POINTER;
	if (place.is_memory)
		return source_in_memory(&place, table);
	for (size_t i = 0; i < WALK_BACK; i++) {
		uint64_t before = xp_code_map_before(map, at, first);
		enum xp_code_kind kind = xp_code_map_kind(map, before);

		if (before == at || (kind != XP_CODE_PLAIN && kind != XP_CODE_NOP && kind != XP_CODE_BRANCH))
			return SOURCE_POINTER;
		at = before;
		switch (xp_code_writes(map->code + (at - map->start), map->end - at, place.reg, &loaded)) {
		case XP_CODE_WRITES_NOT:
			break;
		case XP_CODE_WRITES_SUM:
			return SOURCE_SUM;
		case XP_CODE_WRITES_LOAD:
			return source_in_memory(&loaded, table);
		default:
			return SOURCE_POINTER;
		}
	}
	return SOURCE_POINTER;
}

static enum xp_jump_kind inside(struct xp_jump_targets *targets, const struct xp_code_row *row)
{
	if (targets->inside_count < XP_UNKNOWN_ROWS_MAX)
		targets->inside[targets->inside_count] = *row;
	targets->inside_count++;
	return XP_JUMP_INSIDE;
}

static enum xp_jump_kind unknown(struct xp_jump_targets *targets, const struct xp_code_row *row)
{
	if (targets->unknown_count < XP_UNKNOWN_ROWS_MAX)
		targets->unknown[targets->unknown_count] = *row;
	targets->unknown_count++;
	return XP_JUMP_UNKNOWN;
}

enum xp_jump_kind xp_jump_targets_find(struct xp_jump_targets *targets, uint32_t part, uint64_t jump)
{
	const struct xp_code_map *map = targets->map;
	struct xp_code_row row;
	enum source source;
	struct xp_code code;
	bool may_be_tail;
	uint64_t table;

	xp_code_map_decode(map, jump, &code);
	if (code.rip_at)
		return XP_JUMP_TAIL;
	source = source_of(map, map->fdes.all[part].vaddr, jump, &table);
	row = row_at(targets, part, jump);
	may_be_tail = is_entry_row(&row);
	if (source == SOURCE_SUM) {
		read_tables(targets);
		return targets->has_table ? inside(targets, &row) : unknown(targets, &row);
	}
	if (source == SOURCE_ARRAY && table && is_own_table(targets, table))
		return inside(targets, &row);
	if (has_labels(targets))
		return may_be_tail && source == SOURCE_POINTER ? XP_JUMP_AMBIGUOUS : inside(targets, &row);
	return may_be_tail ? XP_JUMP_TAIL : unknown(targets, &row);
}

void xp_jump_targets_doubt(struct xp_jump_targets *targets)
{
	for (size_t i = 0; i < targets->inside_count && i < XP_UNKNOWN_ROWS_MAX; i++)
		unknown(targets, &targets->inside[i]);
	if (targets->inside_count > XP_UNKNOWN_ROWS_MAX)
		targets->unknown_count = XP_UNKNOWN_ROWS_MAX + 1;
}
