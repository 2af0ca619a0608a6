/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/confined.h"
#include "base/file_copy.h"
#include "base/interval_map.h"
#include "base/util.h"
#include "elf/elf_file.h"

/* Binaries for other machines are copied completely up to this size. */
#define FOREIGN_BYTES_MAX (8ull << 20)
/* Only this much of a section name is compared. */
#define SECTION_NAME_BYTES 64
#define RANGES_MAX (1u << 20)
/* Timeout for the reader. Headers take milliseconds, except in a hostile file. */
#define READER_NS (5 * 1000000000ull)
#define READER_BYTES ((rlim_t)1 << 30)

/* ---- the reader: answers struct answer, then struct range for each part, then struct patch for each changed word ----
 */

struct answer {
	struct xp_elf_copied copied;
	uint32_t ranges;
	uint32_t patches;
};

struct range {
	uint64_t offset;
	uint64_t bytes;
};

/* 8 bytes of the copy. */
struct patch {
	uint64_t offset;
	uint64_t value;
};

struct plan {
	struct xp_elf_file image;
	GElf_Ehdr header;
	GElf_Shdr names;
	bool has_names, has_sleds, with_debug;
	struct answer answer;
	FILE *out; /* NULL: only count */
	uint64_t debug_bytes;
};

static bool is_debug(const char *name)
{
	return !strncmp(name, ".debug_", 7) || !strncmp(name, ".zdebug_", 8) || !strcmp(name, ".gdb_index");
}

/* Returns whether a section is debug information that names functions, inlined functions and lines. */
static bool is_debug_of_code(const char *name)
{
	static const char *const parts[] = { "info", "abbrev", "line",	 "str",	     "line_str", "str_offsets",
					     "addr", "types",  "ranges", "rnglists", "aranges" };
	const char *part = name + (name[1] == 'z' ? 8 : 7);

	for (size_t i = 0; is_debug(name) && i < XP_ARRAY_SIZE(parts); i++)
		if (!strcmp(part, parts[i]))
			return true;
	return false;
}

/*
 * Returns whether a section is copied. Relocations are, because they may contain the addresses of sleds (sled_table.h).
 */
static bool is_kept(const struct plan *plan, const GElf_Shdr *section, const char *name)
{
	switch (section->sh_type) {
	case SHT_PROGBITS:
		return strstr(name, ".gopclntab") || strstr(name, ".gosymtab") || !strncmp(name, "xray_", 5) ||
		       !strncmp(name, ".gnu_debug", 10) || (plan->with_debug && is_debug_of_code(name));
	case SHT_RELA:
	case SHT_RELR:
		return plan->has_sleds && section->sh_flags & SHF_ALLOC;
	case SHT_NULL:
	case SHT_NOBITS:
	case SHT_GROUP:
	case SHT_X86_64_UNWIND:
		return false;
	}
	return section->sh_type < SHT_LOOS || section->sh_flags & SHF_ALLOC;
}

static void keep(struct plan *plan, uint64_t offset, uint64_t bytes)
{
	const struct range range = { offset, bytes };

	if (plan->out)
		fwrite(&range, sizeof(range), 1, plan->out);
	else
		plan->answer.ranges++;
}

static void patch(struct plan *plan, uint64_t offset, uint64_t value)
{
	const struct patch one = { offset, value };

	if (plan->out)
		fwrite(&one, sizeof(one), 1, plan->out);
	else
		plan->answer.patches++;
}

/* Calls visit() for each section with contents. */
static void each_section(struct plan *plan,
			 void (*visit)(struct plan *plan, size_t index, const GElf_Shdr *section, const char *name))
{
	char name[SECTION_NAME_BYTES];
	Elf_Scn *at = NULL;
	GElf_Shdr section;

	while ((at = elf_nextscn(plan->image.elf, at))) {
		if (!gelf_getshdr(at, &section))
			continue;
		if (!plan->has_names ||
		    !xp_elf_file_section_name(&plan->image, &plan->names, &section, name, sizeof(name)))
			strcpy(name, "?");
		visit(plan, elf_ndxscn(at), &section, name);
	}
}

static void look_at(struct plan *plan, size_t index, const GElf_Shdr *section, const char *name)
{
	(void)index;
	plan->has_sleds |= !strcmp(name, "xray_instr_map");
	if (is_debug_of_code(name) && !__builtin_add_overflow(plan->debug_bytes, section->sh_size, &plan->debug_bytes))
		return;
	plan->debug_bytes = is_debug_of_code(name) ? UINT64_MAX : plan->debug_bytes;
}

static void keep_section(struct plan *plan, size_t index, const GElf_Shdr *section, const char *name)
{
	(void)index;
	if (is_kept(plan, section, name))
		keep(plan, section->sh_offset, section->sh_size);
}

/* Marks an omitted debug section as empty, because readers skip empty sections, but trust the contents of others. */
static void empty_section(struct plan *plan, size_t index, const GElf_Shdr *section, const char *name)
{
	if (section->sh_type == SHT_PROGBITS && is_debug(name) && !is_kept(plan, section, name))
		patch(plan, plan->header.e_shoff + index * plan->header.e_shentsize + offsetof(Elf64_Shdr, sh_size), 0);
}

static void keep_headers(struct plan *plan)
{
	const GElf_Ehdr *header = &plan->header;
	size_t sections = 0;

	elf_getshdrnum(plan->image.elf, &sections);
	keep(plan, 0, sizeof(Elf64_Ehdr));
	keep(plan, header->e_phoff, (uint64_t)header->e_phnum * header->e_phentsize);
	keep(plan, header->e_shoff, (uint64_t)sections * header->e_shentsize);
	for (size_t i = 0; i < header->e_phnum; i++) {
		GElf_Phdr segment;

		if (gelf_getphdr(plan->image.elf, (int)i, &segment) && segment.p_type == PT_NOTE)
			keep(plan, segment.p_offset, segment.p_filesz);
	}
}

static bool start_is_ambiguous(const struct xp_elf_file *image)
{
	const struct xp_elf_segment *first = image->segments;

	return image->segment_count && first->align && first->vaddr % first->align;
}

/* Sets p_align of the first executable segment to 1. */
static void settle_start(struct plan *plan)
{
	for (size_t i = 0; start_is_ambiguous(&plan->image) && i < plan->header.e_phnum; i++) {
		GElf_Phdr segment;

		if (!gelf_getphdr(plan->image.elf, (int)i, &segment) || segment.p_type != PT_LOAD ||
		    !(segment.p_flags & PF_X))
			continue;
		patch(plan, plan->header.e_phoff + i * plan->header.e_phentsize + offsetof(Elf64_Phdr, p_align), 1);
		return;
	}
}

static void put_plan(struct plan *plan)
{
	keep_headers(plan);
	each_section(plan, keep_section);
	settle_start(plan);
	each_section(plan, empty_section);
}

static bool make_plan(struct plan *plan, FILE *out)
{
	struct xp_elf_copied *copied = &plan->answer.copied;
	size_t index;

	if (!gelf_getehdr(plan->image.elf, &plan->header))
		return false;
	plan->has_names = !elf_getshdrstrndx(plan->image.elf, &index) &&
			  gelf_getshdr(elf_getscn(plan->image.elf, index), &plan->names);
	each_section(plan, look_at);
	plan->with_debug = plan->debug_bytes <= XP_ELF_COPY_DEBUG_BYTES_MAX;
	copied->lacks_debug = !plan->with_debug;
	copied->build_id_bytes =
	    (uint8_t)xp_elf_file_build_id(&plan->image, copied->build_id, sizeof(copied->build_id));
	copied->has_code = plan->image.segment_count;
	copied->exec_vaddr = plan->image.segments[0].vaddr;
	copied->exec_offset = plan->image.segments[0].offset;
	put_plan(plan);
	if (fwrite(&plan->answer, sizeof(plan->answer), 1, out) != 1)
		return false;
	plan->out = out;
	put_plan(plan);
	return !ferror(out);
}

int xp_elf_copy_plan(int fd, FILE *out, const void *arg)
{
	static struct plan plan;
	bool good;

	(void)arg;
	memset(&plan, 0, sizeof(plan));
	good = !xp_elf_file_fd(&plan.image, fd) && make_plan(&plan, out);
	xp_elf_file_close(&plan.image);
	return good ? 0 : 1;
}

/* ---- the copy ---- */

/*
 * Adds the ranges between the kept ones. The kept ranges come from the reader's answer: they may overlap, and can be
 * anywhere.
 */
static int omit_others(struct xp_interval_map *omitted, const struct xp_interval_map *kept)
{
	uint64_t end = 0;
	int err = 0;

	for (size_t i = 0; !err && i < kept->count; i++) {
		if (kept->all[i].start > end)
			err = xp_interval_map_add(omitted,
						  (struct xp_interval){ .start = end, .end = kept->all[i].start });
		end = XP_MAX(end, kept->all[i].end);
	}
	return err ?: xp_interval_map_add(omitted, (struct xp_interval){ .start = end, .end = INT64_MAX });
}

static int get_ranges(struct xp_interval_map *omitted, FILE *in, uint32_t count)
{
	struct xp_interval_map kept = { 0 };
	struct range range;
	int err = count <= RANGES_MAX ? 0 : -ENOEXEC;

	for (uint32_t i = 0; !err && i < count; i++) {
		if (fread(&range, sizeof(range), 1, in) != 1)
			err = -ENOEXEC;
		else if (range.offset < INT64_MAX && range.bytes < INT64_MAX - range.offset)
			err = xp_interval_map_add(
			    &kept, (struct xp_interval){ .start = range.offset, .end = range.offset + range.bytes });
	}
	xp_interval_map_sort(&kept);
	err = err ?: omit_others(omitted, &kept);
	xp_interval_map_free(&kept);
	return err;
}

static int get_patches(int to_fd, FILE *in, uint32_t count, uint64_t size)
{
	struct patch patch;
	int err = 0;

	for (uint32_t i = 0; !err && i < count; i++) {
		if (fread(&patch, sizeof(patch), 1, in) != 1 || size < sizeof(patch.value) ||
		    patch.offset > size - sizeof(patch.value))
			return -ENOEXEC;
		err = xp_pwrite_all(to_fd, &patch.value, sizeof(patch.value), (off_t)patch.offset);
	}
	return err;
}

/* Returns -ENOEXEC if the file is not a binary for this machine. */
static int copy_planned(int from_fd, int to_fd, FILE *in, struct xp_elf_copied *copied, uint64_t *bytes)
{
	struct xp_interval_map omitted = { 0 };
	struct answer answer;
	struct stat st;
	int err;

	if (fread(&answer, sizeof(answer), 1, in) != 1 || answer.copied.build_id_bytes > sizeof(answer.copied.build_id))
		return -ENOEXEC;
	*copied = answer.copied;
	err = get_ranges(&omitted, in, answer.ranges);
	if (!err)
		err = xp_file_copy(from_fd, to_fd, &omitted, bytes);
	if (!err && fstat(to_fd, &st))
		err = -errno;
	xp_interval_map_free(&omitted);
	return err ?: get_patches(to_fd, in, answer.patches, (uint64_t)st.st_size);
}

static int copy_foreign(int from_fd, int to_fd, uint64_t *bytes)
{
	const struct xp_interval_map none = { 0 };
	uint64_t left = XP_MIN(*bytes, FOREIGN_BYTES_MAX), before = left;
	int err = ftruncate(to_fd, 0) ? -errno : xp_file_copy(from_fd, to_fd, &none, &left);

	*bytes -= before - left;
	return err;
}

int xp_elf_copy(int from_fd, int to_fd, struct xp_elf_copied *copied, uint64_t *bytes)
{
	const struct xp_confined_limits limits = { .ns = READER_NS, .cpu_seconds = 2, .address_bytes = READER_BYTES };
	uint64_t left = XP_MIN(*bytes, XP_ELF_COPY_BYTES_MAX), before = left;
	struct xp_confined *confined;
	struct stat st;
	int err;

	*copied = (struct xp_elf_copied){ 0 };
	if (fstat(from_fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	err = xp_confined_start_fd(&confined, from_fd, xp_elf_copy_plan, NULL, &limits);
	if (err)
		return err;
	err = copy_planned(from_fd, to_fd, xp_confined_answers(confined), copied, &left);
	*bytes -= before - left;
	if (xp_confined_end(confined) == XP_CONFINED_LATE)
		return -ETIMEDOUT;
	return err == -ENOEXEC ? copy_foreign(from_fd, to_fd, bytes) : err;
}
