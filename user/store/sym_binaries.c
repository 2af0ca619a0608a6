/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/sym_binaries.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_view.h"
#include "base/hash.h"
#include "base/util.h"
#include "store/sym_shared.h"
#include "target/chosen_file.h"

void xp_sym_binaries_init(struct xp_sym_binaries *binaries, struct xp_sym_dir *dir)
{
	*binaries = (struct xp_sym_binaries){
		.dir = dir,
		.bytes_left = XP_SYM_COPIES_BYTES_MAX,
		.ns_left = XP_SYM_COPIES_NS_MAX,
	};
}

void xp_sym_binaries_free(struct xp_sym_binaries *binaries)
{
	for (size_t i = 0; i < binaries->count; i++) {
		free(binaries->all[i]->path);
		free(binaries->all[i]->sym_path);
		free(binaries->all[i]);
	}
	free(binaries->all);
	xp_u64_map_free(&binaries->by_inode);
}

bool xp_sym_identity_get(struct xp_sym_identity *identity, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return false;
	xp_chosen_original(&st);
	*identity = (struct xp_sym_identity){ st.st_dev, st.st_ino, st.st_size, st.st_mtim, st.st_ctim };
	return true;
}

bool xp_sym_identity_same(const struct xp_sym_identity *a, const struct xp_sym_identity *b)
{
	return a->dev == b->dev && a->inode == b->inode && a->size == b->size &&
	       a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec;
}

/* ---- copies ---- */

const struct xp_sym_binary *xp_sym_binaries_find(const struct xp_sym_binaries *binaries,
						 const struct xp_sym_identity *identity)
{
	const uint32_t *found = xp_u64_map_find(&binaries->by_inode, identity->inode);

	return found && xp_sym_identity_same(&binaries->all[*found]->identity, identity) ? binaries->all[*found] : NULL;
}

/* Returns a hash of the contents of a copy. It is the same in each recording. */
static uint64_t hash_contents(int fd)
{
	uint64_t words[8192], hash = 0;
	off_t at = 0;
	ssize_t got;

	while ((at = lseek(fd, at, SEEK_DATA)) >= 0 && (got = pread(fd, words, sizeof(words), at)) > 0) {
		memset((char *)words + got, 0, -got & 7);
		for (ssize_t i = 0; i < got; i += 8)
			hash = xp_hash_scramble(hash) + words[i / 8];
		at += got;
	}
	return hash;
}

/* Makes the key of a copy: the build ID or, without one, size, time of change, and a hash. */
static void make_key(char key[XP_SYM_KEY_BYTES], const struct xp_sym_binary *stored, int fd)
{
	const struct xp_elf_copied *copied = &stored->copied;
	const struct xp_sym_identity *identity = &stored->identity;

	for (size_t i = 0; i < copied->build_id_bytes; i++)
		snprintf(key + 2 * i, 3, "%02x", copied->build_id[i]);
	if (!copied->build_id_bytes)
		snprintf(key, XP_SYM_KEY_BYTES, "%llx-%llx-%016" PRIx64, (unsigned long long)identity->size,
			 (unsigned long long)identity->modified.tv_sec, hash_contents(fd));
}

/*
 * Copies a file if the user may read it without xprof's capabilities, because the recording belongs to the user. Always
 * fills in *copied, so that readers recognise the binary by its build ID.
 */
static int copy_readable(struct xp_sym_binaries *binaries, int from, int to, struct xp_elf_copied *copied)
{
	uint64_t none = 0;

	if (xp_chosen_user_may_read(from))
		return xp_elf_copy(from, to, copied, &binaries->bytes_left);
	xp_elf_copy(from, to, copied, &none);
	return -EACCES;
}

static bool is_another(const struct xp_file *file, const struct xp_elf_copied *copied)
{
	return file && file->build_id_bytes && copied->build_id_bytes &&
	       (file->build_id_bytes != copied->build_id_bytes ||
		memcmp(file->build_id, copied->build_id, copied->build_id_bytes));
}

/* Links to the copy of another part. Returns false if there is none, or the user must not read the file. */
static bool take_shared(struct xp_sym_binaries *binaries, struct xp_sym_binary *stored, const char *label, int from,
			const struct xp_file *file)
{
	struct xp_sym_shared shared;
	struct stat st;

	if (!xp_sym_shared_find(binaries->dir->shared_fd, &stored->identity, &shared) ||
	    is_another(file, &shared.copied) ||
	    fstatat(binaries->dir->shared_fd, shared.name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !xp_chosen_user_may_read(from) || (uint64_t)st.st_blocks * 512 > binaries->bytes_left ||
	    xp_sym_dir_link(binaries->dir, shared.name, label, (uint32_t)binaries->count, shared.key,
			    &stored->sym_path))
		return false;
	stored->copied = shared.copied;
	return true;
}

/* Copies the names of a binary to sym/. file: the mapped file, whose build ID the binary must have; NULL: unknown. */
static int copy(struct xp_sym_binaries *binaries, struct xp_sym_binary *stored, int from, const struct xp_file *file)
{
	char label[XP_SYM_LABEL_BYTES];
	struct xp_sym_shared shared;
	int fd, err;

	xp_sym_dir_label(label, stored->path);
	if (take_shared(binaries, stored, label, from, file))
		return 0;
	fd = xp_sym_dir_create(binaries->dir, label, (uint32_t)binaries->count, &stored->sym_path);
	if (fd < 0)
		return fd;
	err = copy_readable(binaries, from, fd, &stored->copied);
	if (!err && is_another(file, &stored->copied))
		err = -ESTALE;
	if (!err)
		make_key(shared.key, stored, fd);
	err = xp_sym_dir_finish(binaries->dir, fd, &stored->sym_path, err);
	if (!err)
		err = xp_sym_dir_rename(binaries->dir, label, (uint32_t)binaries->count, shared.key, &stored->sym_path);
	shared.copied = stored->copied;
	if (!err)
		xp_sym_shared_add(binaries->dir->shared_fd, &stored->identity, &shared, binaries->dir->fd,
				  xp_sym_binary_name(stored));
	return err;
}

static void tell_copy(const struct xp_sym_binary *stored, int err)
{
	char clean[256];

	xp_clean_text(clean, sizeof(clean), stored->path);
	if (err == -EFBIG)
		xp_warn("%s: its symbols exceed the limit of %llu MB (all binaries: %llu MB) and are not stored: its "
			"functions have names only while the file has the same build id",
			clean, XP_ELF_COPY_BYTES_MAX >> 20, XP_SYM_COPIES_BYTES_MAX >> 20);
	else if (err == -EACCES)
		xp_warn("%s: its symbols are not stored, because you do not have permission to read this file: its "
			"functions have no names",
			clean);
	else if (err && err != -ENOMEM)
		xp_warn("%s: cannot store its symbols: %s; its functions have names only while the file has the same "
			"build id",
			clean, strerror(-err));
	else if (stored->copied.lacks_debug)
		xp_info("%s: its debug information exceeds the limit of %llu MB and is not stored: inlined calls and "
			"lines are found only while the file has the same build id",
			clean, XP_ELF_COPY_DEBUG_BYTES_MAX >> 20);
}

/*
 * Adds the binary and copies it. Keeps a binary whose copy fails in the list, so that readers can reject a changed
 * file.
 */
static int add_stored(struct xp_sym_binaries *binaries, struct xp_sym_binary *stored, int fd,
		      const struct xp_file *file)
{
	uint64_t start_ns = xp_now_ns(), start_cpu_ns = xp_thread_cpu_ns(), spent_ns;
	int err;

	if (XP_ARRAY_RESERVE(binaries->all, binaries->room, binaries->count + 1) || !stored->path ||
	    !xp_u64_map_add(&binaries->by_inode, stored->identity.inode, (uint32_t)binaries->count)) {
		free(stored->path);
		free(stored);
		return -ENOMEM;
	}
	*xp_u64_map_find(&binaries->by_inode, stored->identity.inode) = (uint32_t)binaries->count;
	err = binaries->ns_left ? copy(binaries, stored, fd, file) : -ETIMEDOUT;
	spent_ns = XP_MAX(xp_thread_cpu_ns() - start_cpu_ns, (xp_now_ns() - start_ns) / XP_SYM_COPIES_WAIT_SHARE);
	binaries->ns_left -= XP_MIN(binaries->ns_left, spent_ns);
	binaries->all[binaries->count++] = stored;
	tell_copy(stored, err);
	return err == -ENOMEM ? err : 0;
}

int xp_sym_binaries_store(struct xp_sym_binaries *binaries, int fd, const char *path, const struct xp_file *file,
			  const struct xp_sym_binary **result)
{
	struct xp_sym_identity identity;
	struct xp_sym_binary *new;
	int err;

	*result = NULL;
	if (!xp_sym_identity_get(&identity, fd) || !xp_file_is_elf(fd))
		return 0;
	*result = xp_sym_binaries_find(binaries, &identity);
	if (*result)
		return 0;
	new = calloc(1, sizeof(*new));
	if (!new)
		return -ENOMEM;
	new->identity = identity;
	new->path = xp_sym_dir_original(path);
	err = add_stored(binaries, new, fd, file);
	*result = err ? NULL : new;
	return err;
}

const char *xp_sym_binary_name(const struct xp_sym_binary *binary)
{
	return binary && binary->sym_path ? strrchr(binary->sym_path, '/') + 1 : NULL;
}
