/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/rules.h"

#include <errno.h>

#include "arch/x86_64/code_shapes.h"

static const struct xp_cfi_row no_row = { .rule = XP_CFI_NONE };

static struct xp_cfi_row trampoline_row(uint64_t offset)
{
	uint16_t words = (uint16_t)xp_uprobe_trampoline_words(offset);

	return words ? (struct xp_cfi_row){ .cfa = words, .rbp = XP_CFI_RBP_SAME, .rule = XP_CFI_RSP } : no_row;
}

static void find_in_table(const struct xp_rules *rules, const struct xp_file *file, uint64_t offset,
			  struct xp_rule *rule)
{
	const struct xp_cfi_table *table = NULL;

	rule->is_late = rules->table(rules->arg, file, offset, &table) == -EAGAIN;
	rule->has_table = table;
	if (!table)
		return;
	rule->found.row = *xp_cfi_find(table, offset);
	if (rule->found.row.rule == XP_CFI_DEREF)
		rule->found.deref = *xp_cfi_deref(table, &rule->found.row);
}

static void find_in_file(struct xp_rules *rules, const struct xp_file *file, uint64_t offset, struct xp_rule *rule)
{
	struct xp_cached_rule *cached;
	uint64_t key;

	if (offset > UINT32_MAX || file->index >= UINT32_MAX - 1) {
		find_in_table(rules, file, offset, rule);
		return;
	}
	key = (file->index + 1) << 32 | offset;
	cached = &rules->cache[key * 0x9e3779b97f4a7c15ull >> (64 - XP_RULES_CACHE_BITS)];
	if (cached->key == key) {
		rule->found = cached->found;
		rule->has_table = true;
		return;
	}
	find_in_table(rules, file, offset, rule);
	if (rule->found.row.rule != XP_CFI_NONE)
		*cached = (struct xp_cached_rule){ key, rule->found };
}

static void find_in_code(const struct xp_unwind_code *code, uint64_t address, struct xp_rule *rule)
{
	int err = code->find(code->arg, address, &rule->found);

	rule->is_code_late = err == -EAGAIN;
}

void xp_rules_find(struct xp_rules *rules, const struct xp_unwind_code *code, const struct xp_vma *vma,
		   uint64_t address, struct xp_rule *rule)
{
	*rule = (struct xp_rule){ .found.row = no_row };
	if (xp_file_is_trampoline(vma->file)) {
		rule->found.row = trampoline_row(address - vma->start);
		return;
	}
	find_in_file(rules, vma->file, vma->file_offset + (address - vma->start), rule);
	if (rule->found.row.rule == XP_CFI_NONE && !rule->is_late && code && xp_file_may_be_jit(vma->file))
		find_in_code(code, address, rule);
}
