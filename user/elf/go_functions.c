// SPDX-License-Identifier: BSD-2-Clause
#include "elf/go_functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "base/why.h"
#include "elf/symbols.h"

#define MAGIC_1_18 0xfffffff0u
#define MAGIC_1_20 0xfffffff1u

/* pcHeader. The offsets are relative to it. */
struct header {
	uint32_t magic;
	uint8_t zero[2];
	uint8_t instruction_bytes;
	uint8_t pointer_bytes;
	uint64_t function_count;
	uint64_t file_count;
	uint64_t text; /* position-independent programs: a relocation writes it */
	uint64_t names;
	uint64_t units;
	uint64_t files;
	uint64_t pcs;
	uint64_t functions; /* functab: an entry for each function, and one for the end */
};

/* functab. The code is relative to the text, the details (_func) are relative to functab. */
struct entry {
	uint32_t code;
	uint32_t details;
};

/* _func: the offset of the name, and of the flags. */
#define DETAILS_NAME 4
#define DETAILS_FLAGS_1_18 37
#define DETAILS_FLAGS_1_20 41
#define FLAG_ASSEMBLY 4

struct table {
	const uint8_t *bytes;
	size_t size;
	struct header header;
};

static bool copy(const struct table *table, void *to, uint64_t at, size_t bytes)
{
	if (at > table->size || bytes > table->size - at)
		return false;
	memcpy(to, table->bytes + at, bytes);
	return true;
}

static bool is_header(const struct header *header)
{
	return (header->magic == MAGIC_1_18 || header->magic == MAGIC_1_20) && !header->zero[0] && !header->zero[1] &&
	       header->instruction_bytes == 1 && header->pointer_bytes == sizeof(uint64_t);
}

static const char *name_at(const struct table *table, uint32_t at)
{
	uint64_t first = table->header.names + at;

	if (table->header.names > table->size || first >= table->size ||
	    !memchr(table->bytes + first, 0, XP_MIN(table->size - first, (uint64_t)XP_SYMBOL_BYTES_MAX)))
		return NULL;
	return (const char *)table->bytes + first;
}

/* at: the offset of its entry. */
static bool read_function(const struct table *table, uint64_t at, struct xp_go_function *function)
{
	const uint64_t flags_at = table->header.magic == MAGIC_1_18 ? DETAILS_FLAGS_1_18 : DETAILS_FLAGS_1_20;
	struct entry entry, next;
	uint64_t details;
	uint32_t name;
	uint8_t flags;

	if (!copy(table, &entry, at, sizeof(entry)) ||
	    !copy(table, &next.code, at + sizeof(entry), sizeof(next.code)) || next.code <= entry.code)
		return false;
	details = table->header.functions + entry.details;
	if (!copy(table, &name, details + DETAILS_NAME, sizeof(name)) ||
	    !copy(table, &flags, details + flags_at, sizeof(flags)))
		return false;
	*function = (struct xp_go_function){
		.vaddr = table->header.text + entry.code,
		.bytes = next.code - entry.code,
		.name = name_at(table, name),
		.is_assembly = flags & FLAG_ASSEMBLY,
	};
	return function->name && !__builtin_add_overflow(table->header.text, next.code, &details);
}

int xp_go_functions_parse(struct xp_go_functions *functions, const uint8_t *bytes, size_t size, uint64_t text)
{
	struct table table = { .bytes = bytes, .size = size };
	struct header *header = &table.header;

	*functions = (struct xp_go_functions){ 0 };
	if (!copy(&table, header, 0, sizeof(*header)) || !is_header(header))
		return xp_why_set(-ENOENT, "its table of Go functions is not of Go 1.18 or later");
	header->text = text;
	if (!text)
		return xp_why_set(-ENOENT, "its table of Go functions has no address of the code");
	/* Each function has an entry, so the table limits their number. */
	if (header->functions > size || header->function_count > (size - header->functions) / sizeof(struct entry))
		return xp_why_set(-EINVAL, "malformed: its table of Go functions is truncated");
	functions->all = calloc(header->function_count + 1, sizeof(*functions->all));
	if (!functions->all)
		return -ENOMEM;
	for (uint64_t i = 0; i < header->function_count; i++)
		if (!read_function(&table, header->functions + i * sizeof(struct entry), &functions->all[i]))
			return xp_why_set(-EINVAL, "malformed: a Go function is not described");
	functions->count = header->function_count;
	return 0;
}

/* ---- files ---- */

/* Returns the address that a relocation writes to the data at this address, or `value`, the data. */
static uint64_t relocated(struct xp_elf_file *file, uint64_t vaddr, uint64_t value)
{
	Elf_Scn *section = NULL;
	Elf64_Rela relocation;
	GElf_Shdr header;

	while (file->dynamic && (section = elf_nextscn(file->elf, section))) {
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_RELA)
			continue;
		for (uint64_t at = 0; at + sizeof(relocation) <= header.sh_size; at += sizeof(relocation)) {
			if (!xp_elf_file_read(file, &relocation, header.sh_offset + at, sizeof(relocation)))
				break;
			if (relocation.r_offset == vaddr && ELF64_R_TYPE(relocation.r_info) == R_X86_64_RELATIVE)
				return (uint64_t)relocation.r_addend;
		}
	}
	return value;
}

/* The address of the code. Since Go 1.26, only the runtime's struct moduledata has it. */
#define MODULE_TEXT 176

static uint64_t text_of(struct xp_elf_file *file, uint64_t vaddr, const struct header *header)
{
	GElf_Shdr module;
	uint64_t text;

	if (xp_elf_file_section(file, ".go.module", 0, &module) && module.sh_type != SHT_NOBITS &&
	    xp_elf_file_read(file, &text, module.sh_offset + MODULE_TEXT, sizeof(text)))
		return relocated(file, module.sh_addr + MODULE_TEXT, text);
	return relocated(file, vaddr + offsetof(struct header, text), header->text);
}

/* Returns the offset of the table, 0 if none is found. An external linker may put the table after other data. */
#define TABLE_ALIGNMENT 32

static uint64_t find_table(const uint8_t *data, uint64_t bytes)
{
	struct header header;

	for (uint64_t at = 0; at + sizeof(header) <= bytes; at += TABLE_ALIGNMENT) {
		memcpy(&header, data + at, sizeof(header));
		if (is_header(&header) && header.functions < bytes - at)
			return at;
	}
	return 0;
}

static int read_section(struct xp_go_functions *functions, struct xp_elf_file *file, const GElf_Shdr *section)
{
	struct header header = { 0 };
	uint8_t *table;
	uint64_t at;
	int err;

	if (section->sh_type == SHT_NOBITS || section->sh_size > XP_GO_TABLE_BYTES_MAX)
		return xp_why_set(-EINVAL, "malformed: its table of Go functions is too large");
	table = malloc(section->sh_size + 1);
	if (!table)
		return -ENOMEM;
	if (!xp_elf_file_read(file, table, section->sh_offset, section->sh_size)) {
		free(table);
		return xp_why_set(-EINVAL, "malformed: its table of Go functions is truncated");
	}
	at = find_table(table, section->sh_size);
	if (section->sh_size - at >= sizeof(header))
		memcpy(&header, table + at, sizeof(header));
	err = xp_go_functions_parse(functions, table + at, section->sh_size - at,
				    text_of(file, section->sh_addr + at, &header));
	functions->table = table;
	return err;
}

int xp_go_functions_read(struct xp_go_functions *functions, struct xp_elf_file *file)
{
	static const char *const names[] = { ".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro" };
	GElf_Shdr section;

	*functions = (struct xp_go_functions){ 0 };
	for (size_t i = 0; i < XP_ARRAY_SIZE(names); i++)
		if (xp_elf_file_section(file, names[i], 0, &section))
			return read_section(functions, file, &section);
	return xp_why_set(-ENOENT, "it is a Go program without a table of its functions (.gopclntab)");
}

const struct xp_go_function *xp_go_functions_find(const struct xp_go_functions *functions, uint64_t vaddr)
{
	const struct xp_go_function *all = functions->all;
	size_t i = XP_FIND_FIRST(functions->count, k, all[k].vaddr < vaddr);

	return i < functions->count && all[i].vaddr == vaddr ? &all[i] : NULL;
}

void xp_go_functions_free(struct xp_go_functions *functions)
{
	free(functions->all);
	free(functions->table);
}
