/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/sym_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own_file.h"
#include "base/util.h"
#include "store/sym_binaries.h"

int xp_sym_shared_open(int parts_fd)
{
	struct xp_sym_dir dir;
	int err;

	xp_sym_dir_init(&dir, parts_fd);
	err = xp_sym_dir_open(&dir);
	return err ? err : dir.fd;
}

static int delete_if_unused(int shared_fd, const char *name, void *arg)
{
	struct stat st;

	(void)arg;
	if (!fstatat(shared_fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) && st.st_nlink == 1)
		unlinkat(shared_fd, name, 0);
	return 0;
}

static int add_size(int shared_fd, const char *name, void *arg)
{
	uint64_t *bytes = arg;
	struct stat st;

	if (!fstatat(shared_fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode))
		*bytes += (uint64_t)st.st_blocks * 512;
	return 0;
}

uint64_t xp_sym_shared_bytes(int shared_fd)
{
	uint64_t bytes = 0;

	xp_dir_each(shared_fd, add_size, &bytes);
	return bytes;
}

void xp_sym_shared_clean(int shared_fd)
{
	xp_dir_each(shared_fd, delete_if_unused, NULL);
}

/* Writes the first part of a name, including the comma. Returns its length. */
static int put_identity(char name[NAME_MAX + 1], const struct xp_sym_identity *identity)
{
	return snprintf(name, NAME_MAX + 1, "%llx-%llx-%llx-%llx-%lx-%llx-%lx,", (unsigned long long)identity->dev,
			(unsigned long long)identity->inode, (unsigned long long)identity->size,
			(unsigned long long)identity->modified.tv_sec, (unsigned long)identity->modified.tv_nsec,
			(unsigned long long)identity->changed.tv_sec, (unsigned long)identity->changed.tv_nsec);
}

struct search {
	char identity[NAME_MAX + 1];
	size_t length;
	struct xp_sym_shared *found;
};

/* Gets the build ID from a key. A key with dashes is not a build ID. */
static void take_build_id(struct xp_elf_copied *copied, const char *key)
{
	size_t digits = strspn(key, "0123456789abcdef");
	unsigned int byte;

	if (key[digits] || digits > 2 * sizeof(copied->build_id))
		return;
	for (; key[0] && key[1] && sscanf(key, "%2x", &byte) == 1; key += 2)
		copied->build_id[copied->build_id_bytes++] = (uint8_t)byte;
}

static int look(int shared_fd, const char *name, void *arg)
{
	struct search *search = arg;
	struct xp_elf_copied copied = { 0 };
	unsigned int has_code, lacks_debug;
	int end = 0;

	(void)shared_fd;
	_Static_assert(XP_SYM_KEY_BYTES == 64, "the format below");
	if (strncmp(name, search->identity, search->length) ||
	    sscanf(name + search->length, "%63[^,],%1u,%1u,%" SCNx64 ",%" SCNx64 ".so%n", search->found->key, &has_code,
		   &lacks_debug, &copied.exec_vaddr, &copied.exec_offset, &end) != 5 ||
	    !end || name[search->length + (size_t)end])
		return 0;
	copied.has_code = has_code;
	copied.lacks_debug = lacks_debug;
	take_build_id(&copied, search->found->key);
	search->found->copied = copied;
	snprintf(search->found->name, sizeof(search->found->name), "%s", name);
	return 1;
}

bool xp_sym_shared_find(int shared_fd, const struct xp_sym_identity *identity, struct xp_sym_shared *found)
{
	struct search search = { .found = found };

	if (shared_fd < 0)
		return false;
	search.length = (size_t)put_identity(search.identity, identity);
	return xp_dir_each(shared_fd, look, &search) > 0;
}

/* Replaces the copy by the shared copy of another part, which ended at the same time and was first. */
static int take_first(int shared_fd, const char *shared, int dir_fd, const char *name)
{
	char linked[NAME_MAX + 1];

	snprintf(linked, sizeof(linked), "%.*s.first", NAME_MAX - 6, name);
	return linkat(shared_fd, shared, dir_fd, linked, 0) ?: renameat(dir_fd, linked, dir_fd, name);
}

void xp_sym_shared_add(int shared_fd, const struct xp_sym_identity *identity, const struct xp_sym_shared *copy,
		       int dir_fd, const char *name)
{
	const struct xp_elf_copied *copied = &copy->copied;
	char shared[NAME_MAX + 1];
	int length;
	uid_t uid;
	gid_t gid;

	if (shared_fd < 0)
		return;
	length = put_identity(shared, identity);
	snprintf(shared + length, sizeof(shared) - (size_t)length, "%s,%u,%u,%" PRIx64 ",%" PRIx64 ".so", copy->key,
		 copied->has_code, copied->lacks_debug, copied->exec_vaddr, copied->exec_offset);
	/* Changes the owner now, because xprof does not change the owner of files with several links later. */
	if (xp_own_file_user(&uid, &gid) && fchownat(dir_fd, name, uid, gid, AT_SYMLINK_NOFOLLOW))
		return;
	if (linkat(dir_fd, name, shared_fd, shared, 0) &&
	    (errno != EEXIST || take_first(shared_fd, shared, dir_fd, name)))
		xp_debug("%s is not shared with other parts: %s", name, strerror(errno));
}
