/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/sym_files.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "elf/elf_file.h"
#include "elf/symbol_file.h"
#include "store/sym_dir.h"
#include "target/chosen_file.h"
#include "target/vdso.h"

#define OPEN_TRIES 3

/* A mapped file. Its index is that of struct xp_file. */
struct binary {
	const struct xp_file *file; /* NULL: no samples so far */
	int fd;			    /* descriptor of the file; -1: none */
	uint8_t tries;		    /* number of attempts to open it */
	bool is_kept;		    /* true: no descriptor is needed any more */
	bool is_known;		    /* true: identity is valid */
	struct xp_sym_identity identity;
};

struct xp_sym_files {
	struct xp_sym_dir dir;
	struct binary *binaries;
	size_t binary_count;
	unsigned int fd_count;
	struct xp_sym_binaries stored;
	bool has_warned;
	struct xp_ksym kernel;
	char *windows[XP_KERNEL_WINDOWS];
	bool wants_vdso;
	char *vdso;
};

int xp_sym_files_new(struct xp_sym_files **sym, int dir_fd, int shared_fd)
{
	*sym = calloc(1, sizeof(**sym));
	if (!*sym)
		return -ENOMEM;
	xp_sym_dir_init(&(*sym)->dir, dir_fd);
	(*sym)->dir.shared_fd = shared_fd;
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
	for (size_t i = 0; i < sym->binary_count; i++)
		drop_fd(sym, &sym->binaries[i]);
	xp_sym_binaries_free(&sym->stored);
	for (size_t i = 0; i < XP_KERNEL_WINDOWS; i++)
		free(sym->windows[i]);
	free(sym->vdso);
	free(sym->binaries);
	xp_ksym_free(&sym->kernel);
	xp_sym_dir_close(&sym->dir);
	free(sym);
}

/* Warns once: an error for one file is usually an error for most. */
static void warn(struct xp_sym_files *sym, const char *what, int err)
{
	if (!sym->has_warned)
		xp_warn("cannot store %s in the recording, so some functions will have no names: %s", what,
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

/* ---- the vDSO ---- */

static bool is_function(const GElf_Sym *symbol, uint64_t bytes)
{
	return GELF_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF && symbol->st_value < bytes;
}

/* Sorts by address; of several names for one function, __vdso_time comes before time. */
static int by_symbol_address(const void *a, const void *b)
{
	const struct xp_sym *left = a, *right = b;

	return xp_compare(left->address, right->address) ?: strcmp(left->name, right->name);
}

static size_t sort_unique(struct xp_sym *syms, size_t count)
{
	size_t kept = 0;

	if (count)
		qsort(syms, count, sizeof(*syms), by_symbol_address);
	for (size_t i = 0; i < count; i++)
		if (!kept || syms[i].address != syms[kept - 1].address)
			syms[kept++] = syms[i];
	return kept;
}

static int read_symbols(struct xp_elf_file *image, struct xp_sym **result, size_t *count)
{
	GElf_Shdr header;
	Elf_Scn *section = xp_elf_file_section(image, ".dynsym", 0, &header);
	Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
	size_t total = data && header.sh_entsize ? header.sh_size / header.sh_entsize : 0;
	struct xp_sym *syms = calloc(total + 1, sizeof(*syms));

	*count = 0;
	if (!syms)
		return -ENOMEM;
	for (size_t i = 0; i < total; i++) {
		GElf_Sym symbol;
		const char *name;

		if (!gelf_getsym(data, i, &symbol) || !is_function(&symbol, image->size))
			continue;
		name = elf_strptr(image->elf, header.sh_link, symbol.st_name);
		if (name)
			syms[(*count)++] = (struct xp_sym){ symbol.st_value, symbol.st_size, name };
	}
	*count = sort_unique(syms, *count);
	*result = syms;
	return 0;
}

static int write_vdso_names(int fd, const void *vdso, size_t bytes)
{
	struct xp_sym *syms = NULL;
	struct xp_elf_file image;
	size_t count;
	int err = xp_elf_file_memory(&image, vdso, bytes);

	if (!err)
		err = read_symbols(&image, &syms, &count);
	if (!err)
		err = xp_symbol_file_write(fd, 0, bytes, syms, count);
	free(syms);
	xp_elf_file_close(&image);
	return err;
}

void xp_sym_files_want_vdso(struct xp_sym_files *sym)
{
	sym->wants_vdso = true;
}

/* Returns -ENOENT if there is no vDSO. */
static int write_vdso(struct xp_sym_files *sym)
{
	const void *vdso;
	size_t bytes;
	int err = xp_vdso_find(&vdso, &bytes), fd;

	if (err)
		return err;
	fd = xp_sym_dir_create(&sym->dir, "vdso", 0, &sym->vdso);
	return fd < 0 ? fd : xp_sym_dir_finish(&sym->dir, fd, &sym->vdso, write_vdso_names(fd, vdso, bytes));
}

/* ---- the kernel ---- */

int xp_sym_files_want_kernel(struct xp_sym_files *sym, uint64_t address)
{
	return address < XP_KERNEL_START ? 0 : xp_ksym_want(&sym->kernel, address);
}

/*
 * Gets the symbols of the addresses all[first..last-1], which are in one window. Symbol addresses are relative to the
 * window. Returns the number of symbols.
 */
static size_t window_syms(const struct xp_ksym *kernel, size_t first, size_t last, uint64_t window, struct xp_sym *syms)
{
	size_t count = 0;

	for (size_t i = first; i < last; i++) {
		const struct xp_kallsym *sym = &kernel->all[i];
		uint64_t start = sym->name ? XP_MAX(sym->start, window) : sym->address;
		uint64_t bytes = sym->name ? sym->end - start : 1;

		if (count && syms[count - 1].address == start - window)
			continue;
		bytes = XP_MIN(bytes, XP_KERNEL_WINDOW_BYTES - (start - window));
		syms[count++] = (struct xp_sym){ start - window, bytes, sym->name ? sym->name : "[kernel]" };
	}
	return count;
}

static int write_window(struct xp_sym_files *sym, uint64_t window, const struct xp_sym *syms, size_t count)
{
	unsigned int number = (window - XP_KERNEL_START) / XP_KERNEL_WINDOW_BYTES;
	const struct names names = { syms, count, syms[count - 1].address + syms[count - 1].size };

	return make_names(sym, "kernel", number, &names, &sym->windows[number]);
}

static int write_kernel(struct xp_sym_files *sym, xp_ksym_describe *describe, void *arg)
{
	const struct xp_ksym *kernel = &sym->kernel;
	int first_err = xp_ksym_ask(&sym->kernel, describe, arg), err = 0;
	struct xp_sym *syms = calloc(kernel->count + 1, sizeof(*syms));
	size_t last;

	if (!syms)
		return -ENOMEM;
	for (size_t first = 0; first < kernel->count && !err; first = last) {
		uint64_t window = kernel->all[first].address & ~(XP_KERNEL_WINDOW_BYTES - 1);

		for (last = first; last < kernel->count; last++)
			if (kernel->all[last].address - window >= XP_KERNEL_WINDOW_BYTES)
				break;
		err = write_window(sym, window, syms, window_syms(kernel, first, last, window, syms));
	}
	free(syms);
	return first_err ?: err;
}

/* ---- binaries ---- */

/* Returns the binary, or NULL if it was not added yet. */
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
 * Opens the file by its path if the path leads to the mapped file. If the identity of the mapped file is unknown,
 * compares only the inode, because on some file systems the device of a mapping differs from that of stat(2). Returns a
 * descriptor or -errno.
 */
static int open_here(const struct xp_file *file, const struct binary *binary)
{
	/* The path of a library in a container can be a device outside of the container, which must not be opened. */
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
	binary->file = file;
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

/* Stores the names of a mapped file that has not changed since it was seen. */
static int store_kept(struct xp_sym_files *sym, struct binary *binary)
{
	int here = binary->fd >= 0 ? -1 : open_here(binary->file, binary), err = 0;
	int fd = here >= 0 ? here : binary->fd;
	const struct xp_sym_binary *stored;
	struct xp_sym_identity now;

	if (fd >= 0 && xp_sym_identity_get(&now, fd) &&
	    (!binary->is_known || xp_sym_identity_same(&now, &binary->identity)))
		err = xp_sym_binaries_store(&sym->stored, fd, binary->file->path, binary->file, &stored);
	if (here >= 0)
		close(here);
	drop_fd(sym, binary);
	return err;
}

/* ---- the end ---- */

static int write_binaries(struct xp_sym_files *sym)
{
	int err = 0;

	for (size_t i = 0; !err && i < sym->binary_count; i++)
		if (sym->binaries[i].file)
			err = store_kept(sym, &sym->binaries[i]);
	return err;
}

int xp_sym_files_write(struct xp_sym_files *sym, xp_ksym_describe *describe, void *arg)
{
	int err = write_binaries(sym), kernel_err, vdso_err;

	if (err)
		return err;
	kernel_err = write_kernel(sym, describe, arg);
	if (kernel_err)
		warn(sym, "the names of the kernel's code", kernel_err);
	vdso_err = sym->wants_vdso ? write_vdso(sym) : 0;
	if (vdso_err && vdso_err != -ENOENT)
		warn(sym, "the names of the vDSO", vdso_err);
	return kernel_err == -ENOMEM || vdso_err == -ENOMEM ? -ENOMEM : 0;
}

static const char *name_of(const char *path)
{
	return path ? strrchr(path, '/') + 1 : NULL;
}

const char *xp_sym_files_kernel(const struct xp_sym_files *sym, unsigned int window)
{
	return name_of(sym->windows[window]);
}

const char *xp_sym_files_vdso(const struct xp_sym_files *sym)
{
	return name_of(sym->vdso);
}
