/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/rules.h"

#include <errno.h>

static const struct xp_cfi_row no_row = { .rule = XP_CFI_NONE };

/*
 * The page of code that the kernel maps without a file, and that probes on a nop call (arch/x86/kernel/uprobes.c,
 * uprobe_trampoline_entry, Linux 6.18): push rcx, r11, rax; mov; syscall; pop rax, r11, rcx; ret.
 */
static struct xp_cfi_row trampoline_row(uint64_t offset)
{
	static const uint8_t pushed[] = { 0, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 1, 0 };

	if (offset >= sizeof(pushed))
		return no_row;
	return (struct xp_cfi_row){ .cfa = pushed[offset] + 1, .rbp = XP_CFI_RBP_SAME, .rule = XP_CFI_RSP };
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

	rule->is_code = !err;
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
