// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_build.h"

#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
	Elf *debug_elf; /* the ELF file with .debug_frame; read into memory, because uncompressing a section changes it
			 */
	int debug_fd;	/* of a separate file, or -1 */
	struct xp_cfi_rows rows;
	struct xp_cfi_synthetic synthetic;
	struct xp_cfi_header header;
};

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

#define DEBUG_DIR "/usr/lib/debug"

static const char *const debug_frame_names[] = { ".debug_frame", ".zdebug_frame" };

/* ---- the code that has entries ---- */

static bool get_section(Elf *elf, Elf_Scn *scn, const GElf_Shdr *header, struct xp_cfi_section *section)
{
	*section = (struct xp_cfi_section){ .elf = elf, .vaddr = header->sh_addr };
	section->data = scn && header->sh_type != SHT_NOBITS ? elf_getdata(scn, NULL) : NULL;
	return section->data && section->data->d_buf;
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
	Elf *elf = build->image.elf;
	struct xp_cfi_section section, index;
	GElf_Shdr header;
	int ret = 1;

	if (!get_section(elf, xp_elf_file_section(&build->image, ".eh_frame", 0, &header), &header, &section))
		return 0;
	build->has_entries = true;
	if (get_section(elf, xp_elf_file_section(&build->image, ".eh_frame_hdr", 0, &header), &header, &index))
		ret = xp_cfi_fdes_read_indexed(&build->fdes, &section, &index);
	build->is_indexed = ret != 1;
	return ret == 1 ? xp_cfi_fdes_read(&build->fdes, &section) : ret;
}

static bool has_own_debug_frame(struct build *build)
{
	GElf_Shdr header;

	for (size_t i = 0; i < XP_ARRAY_SIZE(debug_frame_names); i++)
		if (xp_elf_file_section(&build->image, debug_frame_names[i], 0, &header) &&
		    header.sh_type != SHT_NOBITS)
			return true;
	return false;
}

static Elf_Scn *find_debug_frame(Elf *elf, GElf_Shdr *header, bool *is_old)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	while ((section = elf_nextscn(elf, section))) {
		const char *name = gelf_getshdr(section, header) ? elf_strptr(elf, names, header->sh_name) : NULL;

		for (size_t i = 0; name && i < XP_ARRAY_SIZE(debug_frame_names); i++)
			if (!strcmp(name, debug_frame_names[i])) {
				*is_old = i == 1;
				return section;
			}
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

static int read_debug_frame(struct build *build, int fd)
{
	struct xp_cfi_section section;
	GElf_Shdr header;
	Elf_Scn *scn;
	bool is_old;

	build->debug_elf = elf_begin(fd, ELF_C_READ, NULL);
	scn = build->debug_elf ? find_debug_frame(build->debug_elf, &header, &is_old) : NULL;
	if (!scn || header.sh_type == SHT_NOBITS || !uncompress(scn, &header, is_old) ||
	    !get_section(build->debug_elf, scn, &header, &section))
		return 0;
	build->has_entries = true;
	section.is_debug = true;
	return xp_cfi_fdes_read(&build->fdes, &section);
}

static int find_separate(Dwfl_Module *module, const char *path)
{
	GElf_Addr bias, start;
	Elf *elf = dwfl_module_getelf(module, &bias);
	GElf_Word checksum = 0;
	const char *link = elf ? dwelf_elf_gnu_debuglink(elf, &checksum) : NULL;
	char *found = NULL;
	void **userdata;
	const char *name = dwfl_module_info(module, &userdata, &start, NULL, NULL, NULL, NULL, NULL);
	int fd = elf ? dwfl_standard_find_debuginfo(module, userdata, name, start, path, link, checksum, &found) : -1;

	free(found);
	return fd;
}

/*
 * Returns whether there may be a separate debug file. It can be named by the build ID, or by .gnu_debuglink: next to
 * the file, in .debug, or under /usr/lib/debug with or without the first parts of the path. This check avoids the real
 * search, which takes milliseconds: elfutils 0.188 loads libdebuginfod with all its libraries.
 */
static bool may_have_separate(Elf *elf, const char *path)
{
	static const char *const places[] = { "", ".debug/" };
	size_t dir = strrchr(path, '/') ? (size_t)(strrchr(path, '/') + 1 - path) : 0;
	GElf_Word checksum;
	const char *link = dwelf_elf_gnu_debuglink(elf, &checksum), *part = path;
	const uint8_t *id = NULL;
	ssize_t id_bytes = dwelf_elf_gnu_build_id(elf, (const void **)&id);
	char name[PATH_MAX + NAME_MAX];
	int used;

	if (id_bytes > 1 && id_bytes <= 64) {
		used = snprintf(name, sizeof(name), DEBUG_DIR "/.build-id/%02x/", id[0]);
		for (ssize_t i = 1; i < id_bytes; i++)
			used += snprintf(name + used, sizeof(name) - (size_t)used, "%02x", id[i]);
		snprintf(name + used, sizeof(name) - (size_t)used, ".debug");
		if (!access(name, F_OK))
			return true;
	}
	if (!link || strchr(link, '/') || strlen(link) >= NAME_MAX)
		return link;
	for (size_t i = 0; i < XP_ARRAY_SIZE(places); i++) {
		snprintf(name, sizeof(name), "%.*s%s%s", (int)dir, path, places[i], link);
		if (strcmp(name, path) && !access(name, F_OK))
			return true;
	}
	for (; part && part < path + dir; part = strchr(part + 1, '/')) {
		snprintf(name, sizeof(name), DEBUG_DIR "%.*s%s", (int)(path + dir - part), part, link);
		if (!access(name, F_OK))
			return true;
	}
	return false;
}

/* Opens the separate debug file. Returns a descriptor, or -1 if there is none. */
static int open_separate(const struct build *build, const char *path)
{
	int own = fcntl(build->fd, F_DUPFD_CLOEXEC, 0), fd = -1; /* libdwfl takes ownership */
	Dwfl *dwfl = own >= 0 ? dwfl_begin(&callbacks) : NULL;
	Dwfl_Module *module;

	if (!dwfl) {
		if (own >= 0)
			close(own);
		return -1;
	}
	dwfl_report_begin(dwfl);
	module = dwfl_report_elf(dwfl, path, path, own, 0, true);
	if (!module)
		close(own);
	else if (!dwfl_report_end(dwfl, NULL, NULL))
		fd = find_separate(module, path);
	dwfl_end(dwfl);
	return fd;
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

/* Returns whether .eh_frame covers most of the code: then no other file is needed. */
static bool has_most(const struct build *build, uint64_t code_bytes)
{
	uint64_t covered = 0;

	for (size_t i = 0; i < build->fdes.count; i++)
		covered += XP_MIN(build->fdes.all[i].vaddr + build->fdes.all[i].bytes, build->fdes.end) -
			   XP_MAX(build->fdes.all[i].vaddr, build->fdes.start);
	return covered >= code_bytes / 2;
}

enum frames {
	FRAMES_HERE,	 /* .eh_frame has most, or all that there is */
	FRAMES_ALSO_OWN, /* .debug_frame, too */
	FRAMES_SEPARATE, /* perhaps in a separate file */
};

static enum frames find_frames(struct build *build, const char *path, uint64_t code_bytes)
{
	if (has_own_debug_frame(build))
		return FRAMES_ALSO_OWN;
	return path && !has_most(build, code_bytes) && may_have_separate(build->image.elf, path) ? FRAMES_SEPARATE
												 : FRAMES_HERE;
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

static int read_fdes(struct build *build, const char *path, const struct xp_cfi_range *range, uint64_t *code_bytes)
{
	enum frames frames;
	int err;

	find_addresses(build);
	*code_bytes = executable_bytes(build);
	err = read_eh_frame(build);
	if (err)
		return err;
	frames = find_frames(build, path, *code_bytes);
	if ((frames != FRAMES_HERE || (build->has_entries && !build->is_indexed)) && widen(build, range)) {
		*code_bytes = executable_bytes(build);
		err = read_eh_frame(build);
	}
	if (!err && frames == FRAMES_ALSO_OWN)
		err = read_debug_frame(build, build->fd);
	if (!err && frames == FRAMES_SEPARATE) {
		build->debug_fd = open_separate(build, path);
		if (build->debug_fd >= 0)
			err = read_debug_frame(build, build->debug_fd);
	}
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

static int make(struct build *build, const char *path, const struct xp_cfi_range *range, int to_fd)
{
	uint64_t start_ns = xp_now_ns(), code_bytes;
	int err = map_file(build);

	if (err)
		return err;
	err = read_fdes(build, path, range, &code_bytes);
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

int xp_cfi_build(int fd, const char *path, const struct xp_cfi_range *range, int to_fd)
{
	struct build *build = calloc(1, sizeof(*build));
	int err;

	if (!build)
		return -ENOMEM;
	build->fd = fd;
	build->debug_fd = -1;
	build->start = range->start;
	build->end = range->end;
	err = make(build, path, range, to_fd);
	xp_cfi_rows_free(&build->rows);
	xp_cfi_fdes_free(&build->fdes);
	elf_end(build->debug_elf);
	if (build->debug_fd >= 0)
		close(build->debug_fd);
	xp_elf_file_close(&build->image);
	if (build->bytes)
		munmap(build->bytes, build->image.size);
	free(build);
	return err;
}
