/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/usdt_probes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/x86_64/code_shapes.h"
#include "base/array.h"
#include "base/file_view.h"
#include "base/text.h"
#include "base/util.h"
#include "base/why.h"
#include "elf/find.h"
#include "elf/usdt_operands.h"

#define LONG_NOP_BYTES_MAX 15

/* The probes of the file that is being read. */
struct looking {
	struct xp_usdt_probes_on *usdt;
	const struct xp_programs *programs;
	struct xp_usdt_file *file;
	struct xp_elf_file *elf;
	const char *path;
	GElf_Shdr semaphores; /* zero: none */
	size_t refused;
};

/* Where PROVIDER:NAME begins. */
static const char *name_of(const char *pattern)
{
	const char *colon = strchr(pattern, ':');

	return colon && strchr(colon + 1, ':') ? colon + 1 : pattern;
}

int xp_usdt_on_init(struct xp_usdt_probes_on *usdt, const char *const *patterns, size_t count)
{
	usdt->patterns = patterns;
	usdt->pattern_count = count;
	usdt->names = calloc(count + 1, sizeof(*usdt->names));
	if (!usdt->names)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		usdt->names[i] = name_of(patterns[i]);
	usdt->uses = xp_pattern_uses_new(usdt->names, count);
	return 0;
}

void xp_usdt_on_free(struct xp_usdt_probes_on *usdt)
{
	for (size_t i = 0; i < usdt->file_count; i++)
		free(usdt->files[i].uprobes);
	free(usdt->files);
	free(usdt->attached);
	free(usdt->all);
	free(usdt->names);
	xp_pattern_uses_free(usdt->uses);
}

/* ---- the probes of a file ---- */

/* Copies OBJECT of a pattern. Returns false if it is too long. *to is empty if the pattern has none. */
static bool object_of(const struct xp_usdt_probes_on *usdt, size_t index, char to[PATH_MAX])
{
	const char *pattern = usdt->patterns[index];
	size_t bytes = (size_t)(usdt->names[index] - pattern);

	if (bytes > PATH_MAX)
		return false;
	memcpy(to, pattern, bytes);
	to[bytes ? bytes - 1 : 0] = 0;
	return true;
}

static bool is_of_object(const struct looking *looking, size_t index)
{
	char glob[PATH_MAX];

	return object_of(looking->usdt, index, glob) && (!*glob || xp_pattern_object_matches(glob, looking->path));
}

/* Matches the name against all patterns, so that each pattern records that it has matched. */
static bool is_wanted(const struct looking *looking, const char *name)
{
	bool wanted = false;

	for (size_t i = 0; i < looking->usdt->pattern_count; i++)
		if (is_of_object(looking, i))
			wanted |= xp_pattern_uses_match(looking->usdt->uses, looking->usdt->names, i, name, NULL);
	return wanted;
}

static bool find_symbol(void *elf, const char *name, uint64_t *vaddr)
{
	return xp_elf_find(elf, &name, vaddr, 1) == 1;
}

/* Returns false if the position of the semaphore is not valid. */
static bool find_semaphore(const struct looking *looking, uint64_t vaddr, uint64_t *offset)
{
	const GElf_Shdr *section = &looking->semaphores;

	*offset = 0;
	if (!vaddr)
		return true;
	if (vaddr < section->sh_addr || vaddr - section->sh_addr >= section->sh_size || vaddr % 2)
		return false;
	*offset = section->sh_offset + (vaddr - section->sh_addr);
	return true;
}

/* Finds the place. Refuses long nops: Linux 6.18 may put a call there, which overwrites arguments in the red zone. */
static bool find_place(const struct looking *looking, const struct xp_usdt_probe *probe, struct xp_uprobe *uprobe)
{
	const struct xp_elf_segment *segment = xp_elf_file_segment(looking->elf, probe->vaddr, 1);
	uint8_t code[LONG_NOP_BYTES_MAX] = { 0 };

	if (!segment)
		return false;
	uprobe->offset = probe->vaddr - segment->vaddr + segment->offset;
	if (!xp_elf_file_read(looking->elf, code, uprobe->offset, 1))
		return false;
	xp_elf_file_read(looking->elf, code, uprobe->offset, sizeof(code));
	return !xp_long_nops_bytes(code, sizeof(code)) && find_semaphore(looking, probe->semaphore, &uprobe->semaphore);
}

static int add_place(struct looking *looking, const struct xp_usdt_probe *probe, const char *name)
{
	struct xp_usdt_probes_on *usdt = looking->usdt;
	struct xp_usdt_file *file = looking->file;
	struct xp_uprobe uprobe = { .cookie = usdt->count };
	struct xp_usdt_known *known;
	int err;

	if (usdt->count == XP_USDT_PLACES_MAX || !find_place(looking, probe, &uprobe)) {
		looking->refused++;
		return 0;
	}
	err = XP_ARRAY_RESERVE(usdt->all, usdt->room, usdt->count + 1)
		  ?: XP_ARRAY_RESERVE(file->uprobes, file->room, file->count + 1);
	if (err)
		return err;
	known = &usdt->all[usdt->count];
	xp_clean_text(known->name, sizeof(known->name), name);
	xp_usdt_operands(probe, &known->place, find_symbol, looking->elf);
	err = xp_programs_set_usdt(looking->programs, (uint32_t)usdt->count, &known->place);
	if (err)
		return err;
	usdt->count++;
	file->uprobes[file->count++] = uprobe;
	return 0;
}

static int look_at(struct looking *looking)
{
	struct xp_usdt_probes probes;
	int err = xp_usdt_read(&probes, looking->elf);

	if (!err && !xp_elf_file_section(looking->elf, ".probes", SHT_PROGBITS, &looking->semaphores))
		looking->semaphores = (GElf_Shdr){ 0 };
	for (size_t i = 0; i < probes.count && !err; i++) {
		char name[512];

		snprintf(name, sizeof(name), "%s:%s", probes.all[i].provider, probes.all[i].name);
		if (is_wanted(looking, name))
			err = add_place(looking, &probes.all[i], name);
	}
	xp_usdt_free(&probes);
	if (looking->refused)
		xp_warn("%s: %zu USDT probe%s not recorded: not on an instruction of one byte, without a valid "
			"semaphore, or beyond the limit of %u places",
			looking->path, looking->refused, xp_plural_s_are(looking->refused), XP_USDT_PLACES_MAX);
	return err;
}

/* Returns the file's index. Reads the probes of a new file. A file that is not ELF has none. */
static int find_file(struct xp_usdt_probes_on *usdt, const struct xp_programs *programs, int fd, const char *path,
		     size_t *index)
{
	struct looking looking = { .usdt = usdt, .programs = programs, .path = path };
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return -errno;
	for (*index = 0; *index < usdt->file_count; ++*index)
		if (usdt->files[*index].inode == st.st_ino && usdt->files[*index].dev == st.st_dev)
			return 0;
	err = XP_ARRAY_RESERVE(usdt->files, usdt->file_room, usdt->file_count + 1);
	looking.elf = err ? NULL : malloc(sizeof(*looking.elf));
	if (!looking.elf)
		return -ENOMEM;
	looking.file = &usdt->files[usdt->file_count++];
	*looking.file = (struct xp_usdt_file){ .dev = st.st_dev, .inode = st.st_ino };
	if (!xp_elf_file_fd(looking.elf, fd))
		err = look_at(&looking);
	xp_elf_file_close(looking.elf);
	free(looking.elf);
	return err;
}

/* ---- attaching ---- */

int xp_usdt_on_attach(struct xp_usdt_probes_on *usdt, struct xp_attach *attach, const struct xp_programs *programs,
		      int fd, const char *path, pid_t pid)
{
	struct xp_uprobe_set uprobes = { .program_fd = programs->fds.usdt, .file_fd = fd, .pid = pid };
	size_t index = 0;
	int err = find_file(usdt, programs, fd, path, &index);

	if (err || !usdt->files[index].count)
		return err == -ENOMEM ? err : 0;
	for (size_t i = 0; i < usdt->attached_count; i++)
		if (usdt->attached[i].file == index && (usdt->attached[i].pid == pid || !usdt->attached[i].pid))
			return 0;
	err = XP_ARRAY_RESERVE(usdt->attached, usdt->attached_room, usdt->attached_count + 1);
	if (err)
		return err;
	uprobes.list = usdt->files[index].uprobes;
	uprobes.count = usdt->files[index].count;
	err = xp_attach_uprobes(attach, &uprobes);
	if (err == -ENOMEM || err == -ECANCELED || err == -ESRCH)
		return err;
	/* Remember the failure, so that it is neither tried nor printed again. */
	usdt->attached[usdt->attached_count++] = (struct xp_usdt_attached){ index, pid };
	if (err)
		xp_warn("%s: the kernel refuses its USDT probes: %s; they are not recorded", path, strerror(-err));
	return 0;
}

int xp_usdt_on_attach_files(struct xp_usdt_probes_on *usdt, struct xp_attach *attach,
			    const struct xp_programs *programs)
{
	struct xp_short_text shown;
	char path[PATH_MAX];
	int err = 0;

	for (size_t i = 0; i < usdt->pattern_count && !err; i++) {
		int fd = object_of(usdt, i, path) ? xp_file_open_regular(AT_FDCWD, path) : -ENAMETOOLONG;

		if (fd < 0)
			return xp_why_set(fd, "--usdt: cannot open %s: %s", xp_short_text(&shown, path),
					  fd == -EINVAL ? "not a regular file" : strerror(-fd));
		err = xp_usdt_on_attach(usdt, attach, programs, fd, path, 0);
		close(fd);
	}
	return err;
}

void xp_usdt_on_drop_process(struct xp_usdt_probes_on *usdt, pid_t pid)
{
	XP_ARRAY_KEEP(usdt->attached, usdt->attached_count, i, usdt->attached[i].pid != pid);
}

/* ---- events ---- */

bool xp_usdt_on_text(const struct xp_usdt_probes_on *usdt, const struct xp_event_usdt *event,
		     char to[XP_USDT_TEXT_BYTES])
{
	uint32_t index = xp_event_fn(&event->head);
	const struct xp_usdt_known *known;
	int used;

	if (index >= usdt->count)
		return false;
	known = &usdt->all[index];
	used = snprintf(to, XP_USDT_TEXT_BYTES, "%s", known->name);
	for (uint32_t i = 0; i < known->place.count; i++) {
		size_t left = XP_USDT_TEXT_BYTES - (size_t)used;

		if (event->missing & 1u << i)
			used += snprintf(to + used, left, " arg%u=?", i + 1);
		else if (known->place.operands[i].is_signed)
			used += snprintf(to + used, left, " arg%u=%" PRId64, i + 1, (int64_t)event->args[i]);
		else
			used += snprintf(to + used, left, " arg%u=%" PRIu64, i + 1, (uint64_t)event->args[i]);
	}
	return true;
}
