// SPDX-License-Identifier: BSD-2-Clause
#include "jit/src_gdb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/u64_map.h"
#include "base/util.h"
#include "elf/find.h"
#include "jit/eh_frame.h"
#include "jit/symfile.h"
#include "target/memory.h"

#define REFRESH_BYTES_MAX (32u << 20) /* maximum bytes of symfiles and their .eh_frame per walk */
#define LOAD_NS 100000000ull	      /* duration of a walk; a walk completes the file that it is reading */
#define EH_FRAME_BYTES_MAX (1u << 20)
#define VERSION 1
#define ACTION_REGISTER 1

/* struct jit_descriptor and struct jit_code_entry of a 64-bit process. */
struct descriptor {
	uint32_t version;
	uint32_t action;
	uint64_t relevant;
	uint64_t first;
};
_Static_assert(sizeof(struct descriptor) == 24, "jit_descriptor");

struct entry {
	uint64_t next;
	uint64_t previous;
	uint64_t symfile;
	uint64_t symfile_bytes;
};
_Static_assert(sizeof(struct entry) == 32, "jit_code_entry");

/* A list entry whose code is loaded. */
struct known {
	uint64_t address;
	uint64_t symfile;
	uint64_t symfile_bytes;
	/* first bytes of the symfile, to detect a new symfile at the same address: allocators often reuse addresses */
	uint8_t head[64];
	uint32_t *codes; /* indices in the registry */
	size_t code_count;
	uint64_t walk; /* number of the last walk that saw the entry */
};

struct xp_jit_src_gdb {
	struct xp_target_memory *memory;
	pid_t pid;
	uint64_t descriptor;
	uint64_t walk;		 /* number of the current walk */
	uint64_t walked_tsc;	 /* time of the last complete walk; 0: none yet */
	struct xp_u64_map known; /* struct known, by address */
};

int xp_jit_gdb_file_look(struct xp_jit_gdb_file *file, int fd)
{
	static const char *const names[] = { "__jit_debug_descriptor", "__jit_debug_register_code" };
	struct xp_elf_file *image = malloc(sizeof(*image));
	uint64_t values[XP_ARRAY_SIZE(names)];
	int err;

	*file = (struct xp_jit_gdb_file){ 0 };
	if (!image)
		return -ENOMEM;
	err = xp_elf_file_fd(image, fd);
	if (!err)
		xp_elf_find(image, names, values, XP_ARRAY_SIZE(names));
	if (!err && values[0] && image->segment_count) {
		const struct xp_elf_segment *code = xp_elf_file_segment(image, values[1], 1);

		file->descriptor = values[0] - image->segments[0].vaddr + image->segments[0].offset;
		file->hook = code ? values[1] - code->vaddr + code->offset : 0;
	}
	xp_elf_file_close(image);
	free(image);
	return file->descriptor ? 0 : -ENOENT;
}

int xp_jit_src_gdb_open(struct xp_jit_src_gdb **gdb, pid_t pid, uint64_t descriptor)
{
	*gdb = calloc(1, sizeof(**gdb));
	if (!*gdb)
		return -ENOMEM;
	(*gdb)->pid = pid;
	(*gdb)->descriptor = descriptor;
	return 0;
}

void xp_jit_src_gdb_read_with(struct xp_jit_src_gdb *gdb, struct xp_target_memory *memory)
{
	gdb->memory = memory;
}

static void free_known(struct known *known)
{
	free(known->codes);
	free(known);
}

void xp_jit_src_gdb_free(struct xp_jit_src_gdb *gdb)
{
	if (!gdb)
		return;
	for (size_t i = 0; i < gdb->known.count; i++)
		free_known(gdb->known.entries[i].pointer);
	xp_u64_map_free(&gdb->known);
	free(gdb);
}

/* ---- known entries ---- */

static struct known *add_known(struct xp_jit_src_gdb *gdb, uint64_t address)
{
	struct known *known = calloc(1, sizeof(*known));

	if (!known || xp_u64_map_put(&gdb->known, address, known)) {
		free(known);
		return NULL;
	}
	known->address = address;
	return known;
}

/* Unloads the code of an entry. Skips code that was already replaced at its address. */
static void unload(struct known *known, struct xp_jit_code *code, uint64_t tsc)
{
	for (size_t i = 0; i < known->code_count; i++)
		xp_jit_code_unload(code, known->codes[i], tsc);
	free(known->codes);
	known->codes = NULL;
	known->code_count = 0;
}

/* Unloads and frees the entries that this walk did not see. */
static void drop_gone(struct xp_jit_src_gdb *gdb, struct xp_jit_code *code, uint64_t tsc)
{
	for (size_t i = gdb->known.count; i--;) {
		struct known *known = gdb->known.entries[i].pointer;

		if (known->walk == gdb->walk)
			continue;
		unload(known, code, tsc);
		xp_u64_map_remove(&gdb->known, known->address);
		free_known(known);
	}
}

/* ---- the walk ---- */

struct walk {
	struct xp_jit_src_gdb *gdb;
	struct xp_jit_code *code;
	struct xp_jit_bytes *bytes;
	uint64_t now_tsc;
	uint64_t told;	     /* address of the entry that the process has just registered; 0: unknown */
	uint64_t bytes_left; /* bytes that this walk may still read */
	uint64_t ns_left;    /* time that this walk may still spend on loading code */
};

/* The data that describes the code, without the bytes of the symfile. */
struct symfile {
	struct xp_jit_symfile functions;
	uint8_t *eh_frame; /* NULL: none */
	struct xp_cfi_fdes fdes;
};

static void free_symfile(struct symfile *symfile)
{
	xp_jit_symfile_free(&symfile->functions);
	xp_cfi_fdes_free(&symfile->fdes);
	free(symfile->eh_frame);
}

static int load_function(const struct walk *walk, struct known *known, const struct symfile *symfile,
			 const struct xp_jit_function *function)
{
	bool is_told = known->address == walk->told;
	struct xp_jit_load load = {
		.tsc = is_told ? walk->now_tsc : walk->gdb->walked_tsc,
		.is_bound = !is_told,
		.start = function->address,
		.size = function->size,
		.name = function->name,
		.code = xp_jit_bytes_read(walk->bytes, function->address, function->size),
		.unwinding = &symfile->fdes,
	};
	int err = xp_jit_code_load(walk->code, &load, &known->codes[known->code_count]);

	known->code_count += !err;
	return err;
}

static int load_functions(const struct walk *walk, struct known *known, const struct symfile *symfile)
{
	size_t count = symfile->functions.count;
	int err = 0;

	known->codes = count ? calloc(count, sizeof(*known->codes)) : NULL;
	if (count && !known->codes)
		return -ENOMEM;
	for (size_t i = 0; i < count && err != -ENOMEM; i++)
		err = load_function(walk, known, symfile, &symfile->functions.functions[i]);
	return err == -ENOMEM ? err : 0; /* ignore other errors: the target causes them, or the registry counts them */
}

/*
 * Reads .eh_frame from the memory of the process, because the addresses in the symfile's copy differ. If the read takes
 * too long or exceeds the limits of this walk, a later walk reads the entry: without the unwinding data, its stacks
 * would always be incomplete.
 */
static int read_eh_frame(struct walk *walk, struct symfile *symfile)
{
	uint64_t bytes = symfile->functions.eh_frame_bytes;
	int err;

	if (!bytes || bytes > EH_FRAME_BYTES_MAX)
		return 0;
	if (bytes > walk->bytes_left)
		return -EAGAIN;
	walk->bytes_left -= bytes;
	symfile->eh_frame = malloc(bytes);
	if (!symfile->eh_frame)
		return -ENOMEM;
	err = xp_target_memory_read(walk->gdb->memory, walk->gdb->pid, symfile->functions.eh_frame, symfile->eh_frame,
				    bytes);
	if (err)
		return err == -ETIMEDOUT ? err : 0;
	return xp_jit_eh_frame_read(&symfile->fdes, symfile->eh_frame, bytes, symfile->functions.eh_frame);
}

/* Reads a symfile. Reads the unwinding data only if the code bytes are read, too. */
static int read_symfile(struct walk *walk, struct symfile *symfile, const uint8_t *bytes, size_t size)
{
	int err;

	*symfile = (struct symfile){ 0 };
	err = xp_jit_symfile_read(&symfile->functions, bytes, size);
	if (!err && walk->bytes)
		err = read_eh_frame(walk, symfile);
	if (err)
		free_symfile(symfile);
	return err;
}

/*
 * Loads the code of an entry. An invalid symfile, or a symfile that no longer exists, gives an entry without code.
 * Returns 1 if a later walk must read the entry, so this walk is incomplete.
 */
static int load_symfile(struct walk *walk, struct known *known)
{
	uint8_t *bytes = malloc(known->symfile_bytes);
	uint64_t begin_ns = xp_now_ns();
	struct symfile symfile;
	int err;

	if (!bytes)
		return -ENOMEM;
	err = xp_target_memory_read(walk->gdb->memory, walk->gdb->pid, known->symfile, bytes, known->symfile_bytes);
	if (!err)
		err = read_symfile(walk, &symfile, bytes, known->symfile_bytes);
	if (!err) {
		memcpy(known->head, bytes, sizeof(known->head));
		err = load_functions(walk, known, &symfile);
		free_symfile(&symfile);
		/*
		 * A symfile without code is read again in each walk. Do not count its time, or the entries after it
		 * might never be read.
		 */
		walk->ns_left -= XP_MIN(walk->ns_left, xp_now_ns() - begin_ns);
	}
	free(bytes);
	return err == -ENOMEM ? err : err == -EAGAIN || err == -ETIMEDOUT ? 1 : 0;
}

static bool is_same(const struct walk *walk, const struct known *known, const struct entry *entry)
{
	uint8_t head[sizeof(known->head)];

	return known->address != walk->told && known->symfile == entry->symfile &&
	       known->symfile_bytes == entry->symfile_bytes &&
	       !xp_target_memory_read(walk->gdb->memory, walk->gdb->pid, entry->symfile, head, sizeof(head)) &&
	       !memcmp(head, known->head, sizeof(head));
}

/* Loads the code of an entry, unless it is loaded. Returns 1 if the limits of this walk are reached. */
static int take_entry(struct walk *walk, uint64_t address, const struct entry *entry)
{
	struct known *known = xp_u64_map_get(&walk->gdb->known, address);

	if (known && is_same(walk, known, entry)) {
		known->walk = walk->gdb->walk;
		return 0;
	}
	if (entry->symfile_bytes < sizeof(known->head) || entry->symfile_bytes > XP_JIT_SRC_GDB_SYMFILE_BYTES_MAX)
		return 0;
	if (entry->symfile_bytes > walk->bytes_left || !walk->ns_left)
		return 1;
	walk->bytes_left -= entry->symfile_bytes;
	if (!known)
		known = add_known(walk->gdb, address);
	if (!known)
		return -ENOMEM;
	unload(known, walk->code, walk->now_tsc);
	known->symfile = entry->symfile;
	known->symfile_bytes = entry->symfile_bytes;
	memset(known->head, 0, sizeof(known->head));
	known->walk = walk->gdb->walk;
	return load_symfile(walk, known);
}

/*
 * Walks to the end of the list. Returns 0, or -EAGAIN if the list changed meanwhile or is inconsistent. Detects loops:
 * in a loop, an entry's back pointer differs from the previous entry.
 */
static int walk_list(struct walk *walk, uint64_t first)
{
	uint64_t address = first, previous = 0;
	int err = 0;

	for (int i = 0; address && !err; i++) {
		struct entry entry;

		if (i == XP_JIT_SRC_GDB_ENTRIES_MAX ||
		    xp_target_memory_read(walk->gdb->memory, walk->gdb->pid, address, &entry, sizeof(entry)) ||
		    entry.previous != previous)
			return -EAGAIN;
		err = take_entry(walk, address, &entry);
		previous = address;
		address = entry.next;
	}
	return err;
}

int xp_jit_src_gdb_refresh(struct xp_jit_src_gdb *gdb, struct xp_jit_code *code, struct xp_jit_bytes *bytes,
			   uint64_t now_tsc, bool is_told)
{
	struct walk walk = { gdb, code, bytes, now_tsc, 0, REFRESH_BYTES_MAX, LOAD_NS };
	struct descriptor descriptor;
	int err;

	if (xp_target_memory_read(gdb->memory, gdb->pid, gdb->descriptor, &descriptor, sizeof(descriptor)) ||
	    descriptor.version != VERSION)
		return 0;
	if (is_told && descriptor.action == ACTION_REGISTER)
		walk.told = descriptor.relevant;
	gdb->walk++;
	err = walk_list(&walk, descriptor.first);
	if (!err)
		gdb->walked_tsc = now_tsc;
	/*
	 * An incomplete walk cannot detect which entries are gone. But if there are too many known entries, drop the
	 * unseen ones anyway: a hostile list that is never complete must not fill the memory.
	 */
	if (!err || (err != -ENOMEM && gdb->known.count > 2 * XP_JIT_SRC_GDB_ENTRIES_MAX))
		drop_gone(gdb, code, now_tsc);
	return err == -EAGAIN ? 0 : err;
}
