// SPDX-License-Identifier: BSD-2-Clause
#include "cfi_build.h"

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cfi_fdes.h"
#include "cfi_gaps.h"
#include "cfi_rows.h"
#include "cfi_rule.h"
#include "elf_image.h"
#include "util.h"

struct build {
	struct xp_elf_image image;
	struct xp_cfi_fdes fdes;
	Dwarf_CFI *eh_frame;
	Dwarf_CFI *debug_frame; /* of own or of dwfl */
	Dwarf *own;
	Dwfl *dwfl; /* of a separate file */
	struct xp_cfi_rows rows;
	struct xp_cfi_gaps gaps;
	struct xp_cfi_header header;
};

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

static const char *const debug_frame_names[] = { ".debug_frame", ".zdebug_frame" };

/* ---- the code that there are entries for ---- */

static int add_fdes(struct build *build, Elf *elf, Elf_Scn *section, const GElf_Shdr *header, bool is_debug)
{
	Elf_Data *data = header->sh_type == SHT_NOBITS ? NULL : elf_getdata(section, NULL);

	return data && data->d_buf ? xp_cfi_fdes_read(&build->fdes, elf, data, header->sh_addr, is_debug) : 0;
}

static int open_eh_frame(struct build *build)
{
	GElf_Shdr header;
	Elf_Scn *section = xp_elf_image_section(&build->image, ".eh_frame", 0, &header);

	build->eh_frame = section ? dwarf_getcfi_elf(build->image.elf) : NULL;
	return build->eh_frame ? add_fdes(build, build->image.elf, section, &header, false) : 0;
}

static bool has_own_debug_frame(struct build *build)
{
	GElf_Shdr header;

	for (size_t i = 0; i < XP_ARRAY_SIZE(debug_frame_names); i++)
		if (xp_elf_image_section(&build->image, debug_frame_names[i], 0, &header) &&
		    header.sh_type != SHT_NOBITS)
			return true;
	return false;
}

static Elf_Scn *find_debug_frame(Elf *elf, GElf_Shdr *header)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	while ((section = elf_nextscn(elf, section))) {
		const char *name = gelf_getshdr(section, header) ? elf_strptr(elf, names, header->sh_name) : NULL;

		for (size_t i = 0; name && i < XP_ARRAY_SIZE(debug_frame_names); i++)
			if (!strcmp(name, debug_frame_names[i]))
				return section;
	}
	return NULL;
}

/* Opening dwarf has uncompressed its sections. */
static int take_debug_frame(struct build *build, Dwarf *dwarf)
{
	Elf *elf = dwarf_getelf(dwarf);
	GElf_Shdr header;
	Elf_Scn *section = elf ? find_debug_frame(elf, &header) : NULL;

	build->debug_frame = section ? dwarf_getcfi(dwarf) : NULL;
	return build->debug_frame ? add_fdes(build, elf, section, &header, true) : 0;
}

static Dwarf *separate_file(struct build *build, const char *path)
{
	int own = fcntl(build->image.fd, F_DUPFD_CLOEXEC, 0); /* libdwfl takes it over */
	Dwfl_Module *module;
	Dwarf_Addr bias;

	build->dwfl = own >= 0 ? dwfl_begin(&callbacks) : NULL;
	if (!build->dwfl) {
		if (own >= 0)
			close(own);
		return NULL;
	}
	dwfl_report_begin(build->dwfl);
	module = dwfl_report_elf(build->dwfl, path, path, own, 0, true);
	if (!module)
		close(own);
	return module && !dwfl_report_end(build->dwfl, NULL, NULL) ? dwfl_module_getdwarf(module, &bias) : NULL;
}

static uint64_t executable_bytes(struct build *build)
{
	uint64_t sections = 0, segments = 0;
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(build->image.elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_flags & SHF_EXECINSTR && header.sh_type == SHT_PROGBITS)
			sections += header.sh_size;
	for (size_t i = 0; i < build->image.segment_count; i++)
		segments += build->image.segments[i].bytes;
	return sections && sections <= segments ? sections : segments;
}

/* Does .eh_frame have most of the code? Then no one needs to look for another file. */
static bool has_most(const struct build *build, uint64_t code_bytes)
{
	uint64_t covered = 0;

	for (size_t i = 0; i < build->fdes.count; i++)
		covered += build->fdes.all[i].bytes;
	return covered >= code_bytes / 2;
}

static int read_fdes(struct build *build, const char *path, uint64_t code_bytes)
{
	int err = open_eh_frame(build);

	if (err)
		return err;
	if (has_own_debug_frame(build)) {
		build->own = dwarf_begin_elf(build->image.elf, DWARF_C_READ, NULL);
		err = build->own ? take_debug_frame(build, build->own) : 0;
	} else if (path && !has_most(build, code_bytes)) {
		Dwarf *separate = separate_file(build, path);

		err = separate ? take_debug_frame(build, separate) : 0;
	}
	xp_cfi_fdes_sort(&build->fdes);
	return err;
}

/* ---- rows ---- */

/* The part [start, end) of an entry's code. to_offset: what makes an address an offset in the file. */
static int add_fde(struct build *build, Dwarf_CFI *cfi, uint64_t start, uint64_t end, uint64_t to_offset)
{
	int err = 0;

	while (!err && start < end) {
		enum xp_cfi_reason reason = XP_CFI_BAD_ENTRY;
		struct xp_cfi_row row = { .rule = XP_CFI_NONE };
		struct xp_cfi_deref deref;
		Dwarf_Addr row_start, row_end = end;
		Dwarf_Frame *frame;
		bool is_signal;

		if (!dwarf_cfi_addrframe(cfi, start, &frame)) {
			if (dwarf_frame_info(frame, &row_start, &row_end, &is_signal) >= 0 && row_end > start)
				reason = xp_cfi_rule_of(frame, is_signal, &row, &deref);
			else
				row_end = end;
			free(frame);
		}
		row_end = XP_MIN(row_end, end);
		err = xp_cfi_rows_add(&build->rows, (uint32_t)(start + to_offset), &row, &deref);
		build->header.code_bytes[reason] += row_end - start;
		start = row_end;
	}
	return err;
}

/* The first entry that may have code behind vaddr. */
static size_t first_fde(const struct xp_cfi_fdes *fdes, uint64_t vaddr)
{
	size_t low = 0, high = fdes->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (fdes->all[middle].vaddr < vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : 0;
}

static int add_segment(struct build *build, const struct xp_elf_segment *segment)
{
	uint64_t at = segment->vaddr, end = at + segment->bytes, to_offset = segment->offset - segment->vaddr;
	const struct xp_cfi_fdes *fdes = &build->fdes;
	int err = 0;

	for (size_t i = first_fde(fdes, at); !err && i < fdes->count && fdes->all[i].vaddr < end; i++) {
		const struct xp_cfi_fde *fde = &fdes->all[i];
		uint64_t fde_start = XP_MAX(at, fde->vaddr), fde_end = XP_MIN(end, fde->vaddr + fde->bytes);

		if (fde_start >= fde_end)
			continue;
		if (fde->is_debug &&
		    xp_cfi_gaps_has_signal_return(&build->gaps, fde_start + to_offset, fde_end + to_offset))
			continue;
		err = xp_cfi_gaps_add(&build->gaps, at + to_offset, fde_start + to_offset);
		if (!err)
			err = add_fde(build, fde->is_debug ? build->debug_frame : build->eh_frame, fde_start, fde_end,
				      to_offset);
		at = fde_end;
	}
	return err ? err : xp_cfi_gaps_add(&build->gaps, at + to_offset, end + to_offset);
}

static int by_offset(const void *a, const void *b)
{
	const struct xp_elf_segment *left = a, *right = b;

	return left->offset < right->offset ? -1 : left->offset > right->offset;
}

/* Of segments that overlap in the file, the later one has what is behind the other. */
static int add_segments(struct build *build)
{
	static const struct xp_cfi_row none;
	struct xp_elf_segment *segments = build->image.segments;
	uint64_t done = 0;
	int err = 0;

	qsort(segments, build->image.segment_count, sizeof(*segments), by_offset);
	for (size_t i = 0; !err && i < build->image.segment_count; i++) {
		uint64_t start = XP_MAX(done, segments[i].offset);
		uint64_t end = XP_MIN(segments[i].offset + segments[i].bytes, (uint64_t)UINT32_MAX);
		struct xp_elf_segment rest = { segments[i].vaddr + (start - segments[i].offset), start, end - start };

		if (start >= end)
			continue;
		err = add_segment(build, &rest);
		if (!err)
			err = xp_cfi_rows_add(&build->rows, (uint32_t)end, &none, NULL);
		done = end;
	}
	return err;
}

/* ---- the whole ---- */

static void count_code(struct build *build, uint64_t code_bytes)
{
	uint64_t *counts = build->header.code_bytes, sum = 0;

	counts[XP_CFI_KNOWN] += build->gaps.known_bytes;
	for (size_t i = 0; i < XP_CFI_REASONS; i++)
		sum += counts[i];
	counts[XP_CFI_NO_FDE] = code_bytes > sum ? code_bytes - sum : 0;
}

static int make(struct build *build, int fd, const char *path, int to_fd)
{
	uint64_t start_ns = xp_now_ns(), code_bytes;
	int err = xp_elf_image_fd(&build->image, fd, NULL, 0);

	if (err)
		return err;
	code_bytes = executable_bytes(build);
	xp_cfi_gaps_init(&build->gaps, &build->image, &build->rows);
	err = read_fdes(build, path, code_bytes);
	if (!err)
		err = add_segments(build);
	if (err)
		return err;
	if (!build->rows.count)
		return -ENOENT;
	count_code(build, code_bytes);
	build->header.build_ns = xp_now_ns() - start_ns;
	return xp_cfi_rows_write(&build->rows, &build->header, to_fd);
}

int xp_cfi_build(int fd, const char *path, int to_fd)
{
	struct build *build = calloc(1, sizeof(*build));
	int err;

	if (!build)
		return -ENOMEM;
	err = make(build, fd, path, to_fd);
	xp_cfi_rows_free(&build->rows);
	xp_cfi_fdes_free(&build->fdes);
	if (build->eh_frame)
		dwarf_cfi_end(build->eh_frame);
	dwarf_end(build->own);
	if (build->dwfl)
		dwfl_end(build->dwfl);
	xp_elf_image_close(&build->image);
	free(build);
	return err;
}
