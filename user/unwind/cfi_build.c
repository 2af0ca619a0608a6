// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/util.h"
#include "elf/elf_file.h"
#include "unwind/cfi_fdes.h"
#include "unwind/cfi_rows.h"
#include "unwind/cfi_synthetic.h"

struct build {
	int fd;
	void *bytes;	/* the mapped file; NULL: not mapped yet */
	uint64_t start; /* the piece: [start, end) of the file */
	uint64_t end;
	bool has_entries; /* the file has entries, even if for other code */
	bool is_indexed;  /* true: by an .eh_frame_hdr */
	struct xp_elf_file image;
	struct xp_cfi_fdes fdes;
	Elf *debug_elf; /* the same file, if it has .debug_frame; not mapped, because uncompressing a section changes it
			 */
	struct xp_cfi_rows rows;
	struct xp_cfi_synthetic synthetic;
	struct xp_cfi_header header;
};

static const char *const debug_frame_names[] = { ".debug_frame", ".zdebug_frame" };

/* ---- the code that has entries ---- */

static bool get_section(Elf_Scn *scn, const GElf_Shdr *header, struct xp_cfi_section *section)
{
	const Elf_Data *data = scn && header->sh_type != SHT_NOBITS ? elf_getdata(scn, NULL) : NULL;

	*section = (struct xp_cfi_section){ .vaddr = header->sh_addr };
	if (data && data->d_buf) {
		section->bytes = data->d_buf;
		section->size = data->d_size;
	}
	return section->bytes;
}

/* Returns the part of a segment that is in the piece; 0 bytes if there is none. */
static struct xp_elf_segment clip(const struct build *build, const struct xp_elf_segment *segment)
{
	uint64_t start = XP_MAX(segment->offset, build->start);
	uint64_t end = XP_MIN(segment->offset + segment->bytes, build->end);

	if (start >= end)
		return (struct xp_elf_segment){ 0 };
	return (struct xp_elf_segment){
		.vaddr = segment->vaddr + (start - segment->offset),
		.offset = start,
		.bytes = end - start,
	};
}

/* Finds the address range of the piece's code. */
static void find_addresses(struct build *build)
{
	build->fdes.start = UINT64_MAX;
	for (size_t i = 0; i < build->image.segment_count; i++) {
		struct xp_elf_segment part = clip(build, &build->image.segments[i]);

		if (part.bytes) {
			build->fdes.start = XP_MIN(build->fdes.start, part.vaddr);
			build->fdes.end = XP_MAX(build->fdes.end, part.vaddr + part.bytes);
		}
	}
}

static int read_eh_frame(struct build *build)
{
	struct xp_cfi_section section, index;
	GElf_Shdr header;
	int ret = 1;

	if (!get_section(xp_elf_file_section(&build->image, ".eh_frame", 0, &header), &header, &section))
		return 0;
	build->has_entries = true;
	if (get_section(xp_elf_file_section(&build->image, ".eh_frame_hdr", 0, &header), &header, &index))
		ret = xp_cfi_fdes_read_indexed(&build->fdes, &section, &index);
	build->is_indexed = ret != 1;
	return ret == 1 ? xp_cfi_fdes_read(&build->fdes, &section) : ret;
}

/* Finds .debug_frame. *is_old: with the old form of compression, which Go used until 1.18. */
static Elf_Scn *find_debug_frame(struct build *build, GElf_Shdr *header, bool *is_old)
{
	for (size_t i = 0; i < XP_ARRAY_SIZE(debug_frame_names); i++) {
		Elf_Scn *scn = xp_elf_file_section(&build->image, debug_frame_names[i], 0, header);

		*is_old = i == 1;
		if (scn && header->sh_type != SHT_NOBITS)
			return scn;
	}
	return NULL;
}

/*
 * Uncompresses one section. libdw's Dwarf would uncompress all sections of the file, which can be hundreds of
 * megabytes.
 */
static bool uncompress(Elf_Scn *scn, const GElf_Shdr *header, bool is_old)
{
	if (is_old)
		return elf_compress_gnu(scn, 0, 0) >= 0;
	return !(header->sh_flags & SHF_COMPRESSED) || elf_compress(scn, 0, 0) >= 0;
}

static int read_debug_frame(struct build *build, size_t index, const GElf_Shdr *header, bool is_old)
{
	struct xp_cfi_section section;
	Elf_Scn *scn;

	build->debug_elf = elf_begin(build->fd, ELF_C_READ, NULL);
	scn = build->debug_elf ? elf_getscn(build->debug_elf, index) : NULL;
	if (!scn || !uncompress(scn, header, is_old) || !get_section(scn, header, &section))
		return 0;
	build->has_entries = true;
	section.is_debug = true;
	return xp_cfi_fdes_read(&build->fdes, &section);
}

/* Returns the number of bytes of executable code in the piece. */
static uint64_t executable_bytes(struct build *build)
{
	uint64_t sections = 0, segments = 0;
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(build->image.elf, section))) {
		struct xp_elf_segment all;

		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_EXECINSTR) ||
		    header.sh_type != SHT_PROGBITS || header.sh_size > build->image.size ||
		    header.sh_offset > build->image.size)
			continue;
		all = (struct xp_elf_segment){
			.vaddr = header.sh_addr,
			.offset = header.sh_offset,
			.bytes = header.sh_size,
		};
		sections += clip(build, &all).bytes;
	}
	for (size_t i = 0; i < build->image.segment_count; i++)
		segments += clip(build, &build->image.segments[i]).bytes;
	return sections && sections <= segments ? sections : segments;
}

/* Switches to the wide range. Returns false if the range is already that wide. */
static bool widen(struct build *build, const struct xp_cfi_range *range)
{
	if (build->start == range->wide_start && build->end == range->wide_end)
		return false;
	xp_cfi_fdes_free(&build->fdes);
	build->fdes = (struct xp_cfi_fdes){ 0 };
	build->start = range->wide_start;
	build->end = range->wide_end;
	build->header.is_wide = 1;
	find_addresses(build);
	return true;
}

static int read_fdes(struct build *build, const struct xp_cfi_range *range, uint64_t *code_bytes)
{
	bool is_old;
	GElf_Shdr header;
	Elf_Scn *debug_frame = find_debug_frame(build, &header, &is_old);
	int err;

	find_addresses(build);
	err = read_eh_frame(build);
	if (!err && (debug_frame || (build->has_entries && !build->is_indexed)) && widen(build, range))
		err = read_eh_frame(build);
	*code_bytes = executable_bytes(build);
	if (!err && debug_frame)
		err = read_debug_frame(build, elf_ndxscn(debug_frame), &header, is_old);
	xp_cfi_fdes_sort(&build->fdes);
	return err;
}

/* ---- rows ---- */

/* Returns the first entry that may contain code at or above vaddr. */
static size_t first_fde(const struct xp_cfi_fdes *fdes, uint64_t vaddr)
{
	size_t low = XP_FIND_FIRST(fdes->count, i, fdes->all[i].vaddr < vaddr);

	return low ? low - 1 : 0;
}

/* Adds the rows of an entry for [start, end), except where a synthetic row replaces them. */
static int add_fde(struct build *build, const struct xp_cfi_fde *fde, uint64_t start, uint64_t end, uint64_t to_offset)
{
	struct xp_cfi_exception exception = { end + to_offset, end + to_offset, { 0 } };
	struct xp_cfi_program program;
	int err = 0;

	if (fde->is_debug && start == fde->vaddr)
		xp_cfi_synthetic_except(&build->synthetic, start + to_offset, end + to_offset, &exception);
	if (exception.start > start + to_offset) {
		xp_cfi_fdes_start(&build->fdes, fde, &program);
		err = xp_cfi_rows_run(&build->rows, &program, start, exception.start - to_offset, to_offset);
	}
	if (err || exception.start == exception.end)
		return err;
	build->rows.code_bytes[XP_CFI_KNOWN] += exception.end - exception.start;
	err = xp_cfi_rows_add(&build->rows, (uint32_t)exception.start, &exception.row, NULL);
	if (err || exception.end == end + to_offset)
		return err;
	xp_cfi_fdes_start(&build->fdes, fde, &program);
	return xp_cfi_rows_run(&build->rows, &program, exception.end - to_offset, end, to_offset);
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
		    xp_cfi_synthetic_has_signal_return(&build->synthetic, fde_start + to_offset, fde_end + to_offset))
			continue;
		err = xp_cfi_synthetic_add(&build->synthetic, at + to_offset, fde_start + to_offset);
		if (!err)
			err = add_fde(build, fde, fde_start, fde_end, to_offset);
		at = fde_end;
	}
	return err ? err : xp_cfi_synthetic_add(&build->synthetic, at + to_offset, end + to_offset);
}

static int by_offset(const void *a, const void *b)
{
	const struct xp_elf_segment *left = a, *right = b;

	return left->offset < right->offset ? -1 : left->offset > right->offset;
}

/*
 * Adds the rows of all segments. If segments overlap in the file, the later one gets only the part after the earlier
 * one.
 */
static int add_segments(struct build *build)
{
	static const struct xp_cfi_row none;
	struct xp_elf_segment *segments = build->image.segments;
	int err = 0;

	qsort(segments, build->image.segment_count, sizeof(*segments), by_offset);
	for (size_t i = 0; !err && i < build->image.segment_count; i++) {
		struct xp_elf_segment rest = clip(build, &segments[i]);

		if (!rest.bytes)
			continue;
		build->start = rest.offset + rest.bytes;
		err = add_segment(build, &rest);
		if (!err)
			err = xp_cfi_rows_add(&build->rows, (uint32_t)build->start, &none, NULL);
	}
	return err;
}

/* ---- the whole table ---- */

static void count_code(struct build *build, uint64_t code_bytes)
{
	uint64_t *counts = build->header.code_bytes, sum = 0;

	for (size_t i = 0; i < XP_CFI_REASONS; i++) {
		counts[i] = build->rows.code_bytes[i];
		sum += counts[i];
	}
	counts[XP_CFI_NO_FDE] = code_bytes > sum ? code_bytes - sum : 0;
}

static int map_file(struct build *build)
{
	struct stat st;

	if (fstat(build->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || !st.st_size)
		return -ENOEXEC;
	build->bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, build->fd, 0);
	if (build->bytes == MAP_FAILED) {
		build->bytes = NULL;
		return -errno;
	}
	return xp_elf_file_memory(&build->image, build->bytes, (size_t)st.st_size);
}

static int make(struct build *build, const struct xp_cfi_range *range, int to_fd)
{
	uint64_t start_ns = xp_now_ns(), code_bytes;
	int err = map_file(build);

	if (err)
		return err;
	err = read_fdes(build, range, &code_bytes);
	xp_cfi_synthetic_init(&build->synthetic, &build->image, build->start, build->end, &build->rows);
	if (!err)
		err = add_segments(build);
	if (!err && !build->rows.count && !build->has_entries)
		err = -ENOENT;
	if (err)
		return err;
	count_code(build, code_bytes);
	build->header.build_ns = xp_now_ns() - start_ns;
	return xp_cfi_rows_write(&build->rows, &build->header, to_fd);
}

int xp_cfi_build(int fd, const struct xp_cfi_range *range, int to_fd)
{
	struct build *build = calloc(1, sizeof(*build));
	int err;

	if (!build)
		return -ENOMEM;
	build->fd = fd;
	build->start = range->start;
	build->end = range->end;
	err = make(build, range, to_fd);
	xp_cfi_rows_free(&build->rows);
	xp_cfi_fdes_free(&build->fdes);
	elf_end(build->debug_elf);
	xp_elf_file_close(&build->image);
	if (build->bytes)
		munmap(build->bytes, build->image.size);
	free(build);
	return err;
}
