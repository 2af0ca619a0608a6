/* SPDX-License-Identifier: BSD-2-Clause */
#include "profile/sym_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_view.h"
#include "base/util.h"
#include "elf/symbol_file.h"
#include "profile/sym_dir.h"
#include "profile/sym_vdso.h"
#include "target/chosen_file.h"

#define WINDOWS 16 /* the 2 GiB of kernel code */
#define OPEN_TRIES 3
#define FOUR_GIB (1ull << 32)
/* The largest range of a symbol file, within the limits of symbol_file.h. */
#define MADE_BYTES_MAX (FOUR_GIB - 4096)

/* A mapped file, by its struct xp_file's index. */
struct binary {
	int fd;	       /* of the file itself; -1: none */
	uint8_t tries; /* attempts to open it */
	bool is_kept;  /* nothing more is wanted while its process lives */
	bool is_found; /* code is the result of xp_sym_files_find() */
	bool is_known; /* identity is that of the mapped file */
	struct xp_sym_identity identity;
	uint64_t made_bytes;
	char *path;
	struct xp_profile_code code;
};

struct xp_sym_files {
	struct xp_sym_dir dir;
	struct binary *binaries;
	size_t binary_count;
	unsigned int fd_count;
	struct xp_sym_binaries stored;
	bool has_warned;
	struct xp_ksym kernel;
	char *windows[WINDOWS];
	/* Made on demand. */
	char *vdso;
	char *anon;
	char *unknown;
	/* Of the profile being written. */
	const struct xp_sym *jit_functions;
	size_t jit_count;
	char *jit;
	uint32_t jits; /* made so far */
};

int xp_sym_files_new(struct xp_sym_files **sym, int dir_fd)
{
	*sym = calloc(1, sizeof(**sym));
	if (!*sym)
		return -ENOMEM;
	xp_sym_dir_init(&(*sym)->dir, dir_fd);
	xp_sym_binaries_init(&(*sym)->stored, &(*sym)->dir);
	return 0;
}

static void drop_fd(struct xp_sym_files *sym, struct binary *binary)
{
	if (binary->fd < 0)
		return;
	close(binary->fd);
	binary->fd = -1;
	sym->fd_count--;
}

void xp_sym_files_free(struct xp_sym_files *sym)
{
	if (!sym)
		return;
	for (size_t i = 0; i < sym->binary_count; i++) {
		drop_fd(sym, &sym->binaries[i]);
		free(sym->binaries[i].path);
	}
	xp_sym_binaries_free(&sym->stored);
	for (size_t i = 0; i < WINDOWS; i++)
		free(sym->windows[i]);
	free(sym->vdso);
	free(sym->anon);
	free(sym->unknown);
	free(sym->jit);
	free(sym->binaries);
	xp_ksym_free(&sym->kernel);
	xp_sym_dir_close(&sym->dir);
	free(sym);
}

/* Warns once: an error for one file is usually an error for most. */
static void warn(struct xp_sym_files *sym, const char *what, int err)
{
	if (!sym->has_warned)
		xp_warn("cannot store %s next to the profiles, so some functions will have no names: %s", what,
			strerror(-err));
	sym->has_warned = true;
}

/* ---- files with only names ---- */

/* Names for a range of bytes. */
struct names {
	const struct xp_sym *list;
	size_t count;
	uint64_t bytes;
};

static int make_names(struct xp_sym_files *sym, const char *label, uint32_t number, const struct names *names,
		      char **path)
{
	int fd = xp_sym_dir_create(&sym->dir, label, number, path);

	if (fd < 0)
		return fd;
	return xp_sym_dir_finish(&sym->dir, fd, path,
				 xp_symbol_file_write(fd, 0, names->bytes, names->list, names->count));
}

static int make_one_name(struct xp_sym_files *sym, const char *label, uint32_t number, const char *name, uint64_t bytes,
			 char **path)
{
	const struct xp_sym one = { 0, bytes, name };

	return make_names(sym, label, number, &(struct names){ &one, 1, bytes }, path);
}

void xp_sym_files_set_jit(struct xp_sym_files *sym, const struct xp_sym *functions, size_t count)
{
	sym->jit_functions = functions;
	sym->jit_count = count;
	free(sym->jit);
	sym->jit = NULL;
}

static int make_jit(struct xp_sym_files *sym)
{
	const struct xp_sym *last = &sym->jit_functions[sym->jit_count - 1];
	const struct names names = { sym->jit_functions, sym->jit_count, last->address + last->size };

	return make_names(sym, "jit", sym->jits++, &names, &sym->jit);
}

static int make_vdso(struct xp_sym_files *sym)
{
	int fd = xp_sym_dir_create(&sym->dir, "vdso", 0, &sym->vdso);

	return fd < 0 ? fd : xp_sym_dir_finish(&sym->dir, fd, &sym->vdso, xp_sym_vdso_write(fd));
}

/* Returns the path of a symbol file; err: the error of making it. */
static int tell_made(struct xp_sym_files *sym, char *path, const char *what, int err, struct xp_profile_code *code)
{
	if (err == -ENOMEM)
		return err;
	if (err)
		warn(sym, what, err);
	code->path = path;
	code->is_made = path;
	return 0;
}

/* ---- the kernel ---- */

static int want_address(void *arg, uint64_t address)
{
	struct xp_sym_files *sym = arg;
	int err = xp_ksym_want(&sym->kernel, address);

	/* The same address as a return address: the call is before it. */
	return err ? err : xp_ksym_want(&sym->kernel, XP_MAX(address - 1, XP_PROFILE_KERNEL_START));
}

int xp_sym_files_add(struct xp_sym_files *sym, struct xp_profile *profile)
{
	return xp_profile_each_address(profile, XP_FILE_KERNEL, want_address, sym);
}

/* The symbols of the addresses [first, last), all in one window, relative to its start. Returns their number. */
static size_t window_syms(const struct xp_ksym *kernel, size_t first, size_t last, uint64_t window, struct xp_sym *syms)
{
	size_t count = 0;

	for (size_t i = first; i < last; i++) {
		const struct xp_kallsym *sym = &kernel->all[i];
		uint64_t start = sym->name ? XP_MAX(sym->start, window) : sym->address;
		uint64_t bytes = sym->name ? sym->end - start : 1;

		if (count && syms[count - 1].address == start - window)
			continue;
		bytes = XP_MIN(bytes, XP_PROFILE_WINDOW_BYTES - (start - window));
		syms[count++] = (struct xp_sym){ start - window, bytes, sym->name ? sym->name : "[kernel]" };
	}
	return count;
}

static int write_window(struct xp_sym_files *sym, uint64_t window, const struct xp_sym *syms, size_t count)
{
	unsigned int number = (window - XP_PROFILE_KERNEL_START) / XP_PROFILE_WINDOW_BYTES;
	const struct names names = { syms, count, syms[count - 1].address + syms[count - 1].size };

	return make_names(sym, "kernel", number, &names, &sym->windows[number]);
}

int xp_sym_files_write(struct xp_sym_files *sym, xp_ksym_describe *describe, void *arg)
{
	const struct xp_ksym *kernel = &sym->kernel;
	int first_err = xp_ksym_ask(&sym->kernel, describe, arg), err = 0;
	struct xp_sym *syms = calloc(kernel->count + 1, sizeof(*syms));
	size_t last;

	if (!syms)
		return -ENOMEM;
	for (size_t first = 0; first < kernel->count && !err; first = last) {
		uint64_t window = kernel->all[first].address & ~(XP_PROFILE_WINDOW_BYTES - 1);

		for (last = first; last < kernel->count; last++)
			if (kernel->all[last].address - window >= XP_PROFILE_WINDOW_BYTES)
				break;
		err = write_window(sym, window, syms, window_syms(kernel, first, last, window, syms));
	}
	free(syms);
	return first_err ?: err;
}

/* ---- binaries ---- */

/* The binary's element; NULL if there is none yet. */
static struct binary *find_binary(const struct xp_sym_files *sym, const struct xp_file *file)
{
	return file->index < sym->binary_count ? &sym->binaries[file->index] : NULL;
}

static struct binary *add_binary(struct xp_sym_files *sym, const struct xp_file *file)
{
	size_t count = XP_MAX(file->index + 1, 2 * sym->binary_count);
	struct binary *binaries = find_binary(sym, file);

	if (binaries)
		return binaries;
	binaries = realloc(sym->binaries, count * sizeof(*binaries));
	if (!binaries)
		return NULL;
	sym->binaries = binaries;
	for (; sym->binary_count < count; sym->binary_count++)
		sym->binaries[sym->binary_count] = (struct binary){ .fd = -1 };
	return &sym->binaries[file->index];
}

/*
 * Opens the file by its path if that leads to the mapped file. Where its identity is not known, the inode must suffice,
 * since the device in a mapping is not always that of stat(). Returns a descriptor or -errno.
 */
static int open_here(const struct xp_file *file, const struct binary *binary)
{
	/* The path of a library in a container may be that of a device here, which must not be opened. */
	int place = xp_chosen_find(-1, file->path), here = -ESTALE;
	struct xp_sym_identity found;
	struct stat st;

	if (place < 0)
		return -ENOENT;
	if (!xp_chosen_stat(place, &st) && S_ISREG(st.st_mode) && (!file->inode || st.st_ino == file->inode))
		here = xp_chosen_open_place(place, 0, 0);
	close(place);
	if (here < 0 || !binary->is_known ||
	    (xp_sym_identity_get(&found, here) && xp_sym_identity_same(&found, &binary->identity)))
		return here;
	close(here);
	return -ESTALE;
}

int xp_sym_files_store(struct xp_sym_files *sym, int fd, const char *path, const struct xp_sym_binary **binary)
{
	return xp_sym_binaries_store(&sym->stored, fd, path, NULL, binary);
}

const struct xp_sym_binary *xp_sym_files_stored(const struct xp_sym_files *sym, int fd)
{
	struct xp_sym_identity identity;

	return fd >= 0 && xp_sym_identity_get(&identity, fd) ? xp_sym_binaries_find(&sym->stored, &identity) : NULL;
}

size_t xp_sym_files_count(const struct xp_sym_files *sym)
{
	return sym->stored.count;
}

const struct xp_sym_binary *xp_sym_files_get(const struct xp_sym_files *sym, size_t index)
{
	return sym->stored.all[index];
}

bool xp_sym_files_wants(const struct xp_sym_files *sym, const struct xp_file *file)
{
	const struct binary *binary = find_binary(sym, file);

	return file->kind == XP_FILE_DISK && (!binary || !binary->is_kept);
}

int xp_sym_files_keep(struct xp_sym_files *sym, int fd, const struct xp_file *file)
{
	struct binary *binary = add_binary(sym, file);
	const struct xp_sym_binary *stored;
	int here;

	if (!binary)
		return -ENOMEM;
	binary->is_kept = fd >= 0 || ++binary->tries == OPEN_TRIES;
	if (fd < 0 || binary->fd >= 0)
		return 0;
	binary->is_known = xp_sym_identity_get(&binary->identity, fd);
	if (sym->fd_count < XP_SYM_FDS_MAX)
		binary->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	sym->fd_count += binary->fd >= 0;
	if (binary->fd >= 0)
		return 0;
	here = open_here(file, binary);
	if (here < 0)
		return xp_sym_binaries_store(&sym->stored, fd, file->path, file, &stored);
	close(here);
	return 0;
}

/* Finds or makes the copy of a mapped file that has not changed since it was seen. */
static int find_copy(struct xp_sym_files *sym, struct binary *binary, const struct xp_file *file,
		     const struct xp_sym_binary **stored)
{
	int here = binary->fd >= 0 ? -1 : open_here(file, binary), err = 0;
	int fd = here >= 0 ? here : binary->fd;
	struct xp_sym_identity now;

	*stored = binary->is_known ? xp_sym_binaries_find(&sym->stored, &binary->identity) : NULL;
	if (!*stored && fd >= 0 && xp_sym_identity_get(&now, fd) &&
	    (!binary->is_known || xp_sym_identity_same(&now, &binary->identity)))
		err = xp_sym_binaries_store(&sym->stored, fd, file->path, file, stored);
	if (here >= 0)
		close(here);
	drop_fd(sym, binary);
	return err;
}

static int use_binary(struct xp_sym_files *sym, struct binary *binary, const struct xp_file *file)
{
	const struct xp_sym_binary *stored;
	int err = find_copy(sym, binary, file, &stored);

	if (err || !stored || !stored->sym_path)
		return err;
	binary->path = strdup(stored->sym_path);
	binary->code = (struct xp_profile_code){
		.path = binary->path,
		.is_elf = stored->copied.has_code,
		.exec_vaddr = stored->copied.exec_vaddr,
		.exec_offset = stored->copied.exec_offset,
	};
	return binary->path ? 0 : -ENOMEM;
}

/* A file that is not available here, or has no readable symbols, gets one name for all its code: its own. */
static int use_name(struct xp_sym_files *sym, struct binary *binary, const struct xp_file *file, uint64_t bytes)
{
	char label[XP_SYM_LABEL_BYTES], name[XP_SYM_LABEL_BYTES + 2];
	int err;

	bytes = XP_MIN(bytes, MADE_BYTES_MAX);
	if (bytes <= binary->made_bytes)
		return 0;
	if (binary->path)
		xp_sym_dir_remove(&sym->dir, binary->path);
	binary->path = NULL;
	xp_sym_dir_label(label, file->path);
	snprintf(name, sizeof(name), "[%s]", label);
	err = make_one_name(sym, label, file->index, name, bytes, &binary->path);
	binary->code = (struct xp_profile_code){ .path = binary->path, .is_made = binary->path };
	binary->made_bytes = err ? 0 : bytes;
	return err;
}

static int find_binary_code(struct xp_sym_files *sym, const struct xp_file *file, uint64_t bytes,
			    struct xp_profile_code *code)
{
	struct binary *binary = add_binary(sym, file);
	int err = 0;

	if (!binary)
		return -ENOMEM;
	if (!binary->is_found)
		err = use_binary(sym, binary, file);
	binary->is_found = true;
	/* A memfd without an ELF file in it is memory of a JIT compiler. */
	if (err != -ENOMEM && (!binary->code.path || binary->made_bytes) && strncmp(file->path, "/memfd:", 7))
		err = use_name(sym, binary, file, bytes) ?: err;
	*code = binary->code;
	if (err && err != -ENOMEM)
		warn(sym, "all binaries", err);
	return err == -ENOMEM ? err : 0;
}

int xp_sym_files_find(void *arg, const struct xp_file *file, uint64_t start, uint64_t end, struct xp_profile_code *code)
{
	struct xp_sym_files *sym = arg;
	int err = 0;

	*code = (struct xp_profile_code){ 0 };
	switch (file->kind) {
	case XP_FILE_DISK:
		return find_binary_code(sym, file, end - start, code);
	case XP_FILE_KERNEL:
		code->path = sym->windows[(start - XP_PROFILE_KERNEL_START) / XP_PROFILE_WINDOW_BYTES % WINDOWS];
		code->is_made = code->path;
		return 0;
	case XP_FILE_VDSO:
		if (start < FOUR_GIB) /* the vDSO of a 32-bit process, which is not ours */
			return 0;
		if (!sym->vdso)
			err = make_vdso(sym);
		return tell_made(sym, sym->vdso, "the names of the vDSO", err, code);
	case XP_FILE_JIT:
		if (!sym->jit && sym->jit_count)
			err = make_jit(sym);
		return tell_made(sym, sym->jit, "the names of JIT functions", err, code);
	case XP_FILE_ANON:
		if (!sym->anon)
			err = make_one_name(sym, "anon", 0, "[anon]", XP_PROFILE_ANON_BYTES, &sym->anon);
		return tell_made(sym, sym->anon, "a name for code without a file", err, code);
	case XP_FILE_UNKNOWN:
		if (!sym->unknown)
			err = make_one_name(sym, "unknown", 0, "[unknown]", XP_PROFILE_UNKNOWN_BYTES, &sym->unknown);
		return tell_made(sym, sym->unknown, "a name for unknown code", err, code);
	}
	return 0;
}
