// SPDX-License-Identifier: BSD-2-Clause
#include "elf/names.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/interval_map.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "elf/code_scopes.h"
#include "elf/symbols.h"

#define QUALIFIED_BYTES_MAX 4096
#define DIE_DEPTH_MAX 256

/* A compilation unit. */
struct unit {
	Dwarf_Die die;	/* has the line table */
	Dwarf_Die code; /* has the functions: the same DIE, or its counterpart in a .dwo file */
	bool indexed;
	bool is_split;			  /* libdw has not found its functions */
	struct xp_interval_map functions; /* index: in dies */
	Dwarf_Die *dies;
	size_t die_count;
	size_t die_room;
};

struct xp_elf_names {
	Dwfl *dwfl;
	Dwfl_Module *module;
	enum xp_name_detail detail;
	Dwarf_Addr bias;		/* bias of the file: libdwfl adds it to addresses as linked */
	Dwarf_Addr dwarf_bias;		/* bias of the debug information */
	struct xp_interval_map symbols; /* index: the symbol's number in libdwfl */
	struct unit *units;
	size_t unit_count;
	size_t unit_room;
	struct xp_interval_map unit_intervals; /* index: in units */
	struct xp_code_scopes scopes;	       /* scopes of the function that was named last */
	struct xp_u64_map qualified;	       /* qualified name of a DIE, by the address of the DIE in memory */
	enum xp_names_lack lack;
};

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

/* ---- symbol tables ---- */

/* Returns the end of the symbol's section. A symbol without a size ends there at the latest. */
static uint64_t section_end(Elf *elf, GElf_Word index, uint64_t bias)
{
	GElf_Shdr header;

	if (!gelf_getshdr(elf_getscn(elf, index), &header) || !(header.sh_flags & SHF_EXECINSTR))
		return 0;
	return header.sh_addr + header.sh_size + bias;
}

static int add_symbol(struct xp_elf_names *names, int index)
{
	GElf_Sym symbol;
	GElf_Addr address;
	GElf_Word section;
	Dwarf_Addr bias;
	Elf *elf;
	const char *name = dwfl_module_getsym_info(names->module, index, &symbol, &address, &section, &elf, &bias);
	struct xp_interval interval = { .index = (uint32_t)index };

	if (!name || !*name)
		return 0;
	interval.rank = xp_symbol_name_rank(xp_symbol_rank(&symbol), name);
	interval.start = address;
	/* Data has the lowest rank: locks are variables. */
	if (!interval.rank && (GELF_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx == SHN_UNDEF))
		return 0;
	if (symbol.st_size)
		interval.end = address + symbol.st_size;
	else
		interval.end = section_end(elf, section, bias);
	return xp_interval_map_add(&names->symbols, interval);
}

/* Ends symbols without a size, which usually come from assembly code, at the next symbol. */
static void clip_symbols(struct xp_elf_names *names)
{
	struct xp_interval_map *symbols = &names->symbols;

	for (size_t i = 0; i + 1 < symbols->count; i++) {
		struct xp_interval *interval = &symbols->all[i];
		size_t next = i + 1;
		GElf_Sym symbol;
		GElf_Addr address;

		if (!dwfl_module_getsym_info(names->module, (int)interval->index, &symbol, &address, NULL, NULL,
					     NULL) ||
		    symbol.st_size)
			continue;
		while (next < symbols->count && symbols->all[next].start == interval->start)
			next++;
		if (next < symbols->count)
			interval->end = XP_MIN(interval->end, symbols->all[next].start);
	}
}

static int load_symbols(struct xp_elf_names *names)
{
	int count = dwfl_module_getsymtab(names->module);

	for (int i = 1; i < count; i++) {
		int err = add_symbol(names, i);

		if (err)
			return err;
	}
	xp_interval_map_sort(&names->symbols);
	clip_symbols(names);
	return 0;
}

static const char *symbol_at(struct xp_elf_names *names, uint64_t address)
{
	const struct xp_interval *found = xp_interval_map_find(&names->symbols, address);
	GElf_Sym symbol;
	GElf_Addr start;

	return found ? dwfl_module_getsym_info(names->module, (int)found->index, &symbol, &start, NULL, NULL, NULL)
		     : NULL;
}

/* ---- DWARF ---- */

static int add_ranges(struct xp_interval_map *intervals, Dwarf_Die *die, size_t index)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
		int err = xp_interval_map_add(
		    intervals, (struct xp_interval){ .start = start, .end = end, .index = (uint32_t)index });

		if (err)
			return err;
	}
	return 0;
}

static int add_unit(struct xp_elf_names *names, const Dwarf_Die *die, const Dwarf_Die *split)
{
	size_t index = names->unit_count;
	bool has_split = split && dwarf_tag((Dwarf_Die *)split) == DW_TAG_compile_unit;

	if (XP_ARRAY_RESERVE(names->units, names->unit_room, index + 1))
		return -ENOMEM;
	names->units[index] =
	    (struct unit){ .die = *die, .code = has_split ? *split : *die, .is_split = split && !has_split };
	names->unit_count++;
	return add_ranges(&names->unit_intervals, &names->units[index].die, index);
}

static bool has_dwarf(Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t strings;

	while (!elf_getshdrstrndx(elf, &strings) && (section = elf_nextscn(elf, section))) {
		const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, strings, header.sh_name) : NULL;

		if (name && header.sh_size && (!strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info")))
			return true;
	}
	return false;
}

/* Returns whether the separate debug file that libdwfl has found, if any, has DWARF. */
static bool has_separate_dwarf(const struct xp_elf_names *names)
{
	const char *path = NULL;
	bool has;
	Elf *elf;
	int fd;

	dwfl_module_info(names->module, NULL, NULL, NULL, NULL, NULL, NULL, &path);
	fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return false;
	elf = elf_begin(fd, ELF_C_READ, NULL);
	has = has_dwarf(elf);
	elf_end(elf);
	close(fd);
	return has;
}

/* Reads the address ranges of all units; only some compilers write .debug_aranges. */
static int load_units(struct xp_elf_names *names)
{
	Dwarf *dwarf = dwfl_module_getdwarf(names->module, &names->dwarf_bias);
	Dwarf_CU *cu = NULL;
	Dwarf_Die die, split;
	Dwarf_Addr bias;
	uint8_t type;

	while (dwarf && dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, &split) == 0) {
		int err = 0;

		if (type == DW_UT_compile || type == DW_UT_skeleton)
			err = add_unit(names, &die, type == DW_UT_skeleton ? &split : NULL);
		if (err)
			return err;
	}
	if (!names->unit_count && (has_dwarf(dwfl_module_getelf(names->module, &bias)) || has_separate_dwarf(names)))
		names->lack = XP_NAMES_UNREADABLE;
	xp_interval_map_sort(&names->unit_intervals);
	return 0;
}

static int add_function(struct unit *unit, const Dwarf_Die *die)
{
	size_t index = unit->die_count;

	if (XP_ARRAY_RESERVE(unit->dies, unit->die_room, index + 1))
		return -ENOMEM;
	unit->dies[index] = *die;
	unit->die_count++;
	return add_ranges(&unit->functions, &unit->dies[index], index);
}

static bool may_have_functions(Dwarf_Die *die)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
		return dwarf_haschildren(die) > 0;
	}
	return false;
}

/* Adds the functions in a DIE. Functions occur in namespaces, in types and, in some languages, in functions. */
static int add_functions(struct unit *unit, Dwarf_Die *parent, unsigned int depth)
{
	int err = 0, end;
	Dwarf_Die die;

	for (end = dwarf_child(parent, &die); !err && !end && depth < DIE_DEPTH_MAX;
	     end = dwarf_siblingof(&die, &die)) {
		if (dwarf_tag(&die) == DW_TAG_subprogram && xp_die_has_code(&die))
			err = add_function(unit, &die);
		if (!err && may_have_functions(&die))
			err = add_functions(unit, &die, depth + 1);
	}
	return err;
}

static Dwarf_Die *function_at(struct unit *unit, uint64_t address)
{
	const struct xp_interval *interval;

	if (!unit->indexed) {
		unit->indexed = true;
		if (add_functions(unit, &unit->code, 0))
			return NULL;
		xp_interval_map_sort(&unit->functions);
	}
	interval = xp_interval_map_find(&unit->functions, address);
	return interval ? &unit->dies[interval->index] : NULL;
}

static const char *linkage_name(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute));

	return name ? name : dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute));
}

static const char *plain_name(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;

	return dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &attribute));
}

/*
 * A compiler's copies of a function have distinct symbols ("work.constprop.0"), but one DWARF name, that of the
 * original. If DWARF has no mangled name, the symbol may have one.
 */
static const char *function_name(Dwarf_Die *die, const char *symbol)
{
	const char *name = linkage_name(die);

	if (name)
		return name;
	if (symbol && symbol[0] == '_' && (symbol[1] == 'Z' || symbol[1] == 'R'))
		return symbol;
	name = plain_name(die);
	return name ? name : symbol;
}

static bool is_scope(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
	       tag == DW_TAG_union_type;
}

/* Makes "space::Class::function" from the scopes of a DIE, if it has any. Returns NULL if out of memory. */
static char *qualify(Dwarf_Die *die, const char *name)
{
	Dwarf_Die *scopes = NULL;
	int count = dwarf_getscopes_die(die, &scopes);
	char text[QUALIFIED_BYTES_MAX] = "";
	size_t used = 0;

	for (int i = count - 1; i > 0 && used < sizeof(text); i--) {
		const char *scope = is_scope(dwarf_tag(&scopes[i])) ? dwarf_diename(&scopes[i]) : NULL;

		if (is_scope(dwarf_tag(&scopes[i])))
			used +=
			    snprintf(text + used, sizeof(text) - used, "%s::", scope ? scope : "(anonymous namespace)");
	}
	free(scopes);
	if (used + strlen(name) >= sizeof(text))
		return strdup(name);
	strcpy(text + used, name);
	return strdup(text);
}

/* The name from qualify(), made only once, since qualify() walks the whole unit. */
static const char *qualified_name(struct xp_elf_names *names, Dwarf_Die *die, const char *name)
{
	uint64_t key = (uintptr_t)die->addr;
	char *qualified = xp_u64_map_get(&names->qualified, key);

	if (qualified)
		return qualified;
	qualified = qualify(die, name);
	if (!qualified || xp_u64_map_put(&names->qualified, key, qualified)) {
		free(qualified);
		return name;
	}
	return qualified;
}

/* Finds the DIE where a function was declared: in C++, inside its namespace or class. */
static Dwarf_Die *declaration(Dwarf_Die *die, Dwarf_Die *to)
{
	Dwarf_Attribute attribute;

	*to = *die;
	if (dwarf_hasattr(to, DW_AT_abstract_origin))
		dwarf_formref_die(dwarf_attr(to, DW_AT_abstract_origin, &attribute), to);
	if (dwarf_hasattr(to, DW_AT_specification))
		dwarf_formref_die(dwarf_attr(to, DW_AT_specification, &attribute), to);
	return to;
}

static bool is_c(struct unit *unit)
{
	switch (dwarf_srclang(&unit->code)) {
	case DW_LANG_C:
	case DW_LANG_C89:
	case DW_LANG_C99:
	case DW_LANG_C11:
		return true;
	}
	return false;
}

/*
 * Returns the name of an inlined function. gcc writes no linkage name for a static C++ function that is only inlined.
 */
static const char *inlined_name(struct xp_elf_names *names, struct unit *unit, struct xp_code_scope *scope)
{
	Dwarf_Die declared;

	if (!scope->name)
		scope->name = linkage_name(&scope->die);
	if (scope->name)
		return scope->name;
	scope->name = plain_name(&scope->die);
	if (scope->name && !is_c(unit))
		scope->name = qualified_name(names, declaration(&scope->die, &declared), scope->name);
	return scope->name;
}

static uint32_t constant_of(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (dwarf_formudata(dwarf_attr(die, name, &attribute), &value) || value > UINT32_MAX)
		return 0;
	return (uint32_t)value;
}

/* Sets the line of the call to the function of this inlined DIE. */
static void set_call_line(struct unit *unit, Dwarf_Die *die, struct xp_name_frame *frame)
{
	uint32_t index = constant_of(die, DW_AT_call_file);
	Dwarf_Files *files;
	size_t count;

	frame->line = constant_of(die, DW_AT_call_line);
	if (!dwarf_getsrcfiles(&unit->code, &files, &count) && index < count)
		frame->file = dwarf_filesrc(files, index, NULL, NULL);
}

static void set_line(struct unit *unit, uint64_t address, struct xp_name_frame *frame)
{
	Dwarf_Line *line = dwarf_getsrc_die(&unit->die, address);
	int number = 0;

	if (!line)
		return;
	frame->file = dwarf_linesrc(line, NULL, NULL);
	if (!dwarf_lineno(line, &number) && number > 0)
		frame->line = (uint32_t)number;
}

/* Sets frames, the innermost first. */
static size_t name_frames(struct xp_elf_names *names, struct unit *unit, uint64_t address, const char *symbol,
			  struct xp_name_frame *frames)
{
	struct xp_code_scope *inlined[XP_NAME_FRAMES_MAX - 1];
	Dwarf_Die *function = function_at(unit, address);
	size_t count;

	if (unit->is_split)
		names->lack = XP_NAMES_SPLIT;
	if (!function) {
		frames[0].symbol = symbol;
		if (names->detail == XP_NAMES_LINES)
			set_line(unit, address, &frames[0]);
		return symbol || frames[0].file ? 1 : 0;
	}
	count = xp_code_scopes_inlined(&names->scopes, function, address, inlined, XP_ARRAY_SIZE(inlined));
	for (size_t i = 0; i < count; i++) {
		frames[i].symbol = inlined_name(names, unit, inlined[count - 1 - i]);
		if (names->detail == XP_NAMES_LINES)
			set_call_line(unit, &inlined[count - 1 - i]->die, &frames[i + 1]);
	}
	frames[count].symbol = function_name(function, symbol);
	if (names->detail == XP_NAMES_LINES)
		set_line(unit, address, &frames[0]);
	return count + 1;
}

size_t xp_elf_names_at(struct xp_elf_names *names, uint64_t vaddr, struct xp_name_frame frames[XP_NAME_FRAMES_MAX])
{
	const char *symbol = symbol_at(names, vaddr + names->bias);
	uint64_t address = vaddr + names->bias - names->dwarf_bias;
	const struct xp_interval *interval = xp_interval_map_find(&names->unit_intervals, address);

	memset(frames, 0, XP_NAME_FRAMES_MAX * sizeof(*frames));
	if (interval)
		return name_frames(names, &names->units[interval->index], address, symbol, frames);
	frames[0].symbol = symbol;
	return symbol ? 1 : 0;
}

enum xp_names_lack xp_elf_names_lack(const struct xp_elf_names *names)
{
	return names->lack;
}

/* ---- the file ---- */

static int report_file(struct xp_elf_names *names, int fd, const char *path)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* libdwfl takes ownership */

	if (own < 0)
		return -errno;
	dwfl_report_begin(names->dwfl);
	names->module = dwfl_report_elf(names->dwfl, path, path, own, 0, true);
	if (!names->module) {
		close(own);
		return -EINVAL;
	}
	if (dwfl_report_end(names->dwfl, NULL, NULL) || !dwfl_module_getelf(names->module, &names->bias))
		return -EINVAL;
	return 0;
}

int xp_elf_names_open(struct xp_elf_names **names, int fd, const char *path, enum xp_name_detail detail)
{
	struct xp_elf_names *new = calloc(1, sizeof(*new));
	int err = -ENOMEM;

	*names = new;
	if (!new)
		return err;
	new->detail = detail;
	new->dwfl = dwfl_begin(&callbacks);
	if (new->dwfl)
		err = report_file(new, fd, path);
	if (!err)
		err = load_symbols(new);
	if (!err && detail != XP_NAMES_SYMBOLS)
		err = load_units(new);
	if (err) {
		xp_elf_names_free(new);
		*names = NULL;
	}
	return err;
}

void xp_elf_names_free(struct xp_elf_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->unit_count; i++) {
		xp_interval_map_free(&names->units[i].functions);
		free(names->units[i].dies);
	}
	for (size_t i = 0; i < names->qualified.count; i++)
		free(names->qualified.entries[i].pointer);
	xp_u64_map_free(&names->qualified);
	xp_code_scopes_free(&names->scopes);
	free(names->units);
	xp_interval_map_free(&names->unit_intervals);
	xp_interval_map_free(&names->symbols);
	if (names->dwfl)
		dwfl_end(names->dwfl);
	free(names);
}
