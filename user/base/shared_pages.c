// SPDX-License-Identifier: BSD-2-Clause
#include "base/shared_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bus_error.h"

#define PAGE_BYTES 4096ul

/* The guarded memory, and the file of the spare page. Both are global, because a signal handler has no argument. */
static struct xp_shared_pages *guarded;
static int page_fd = -1;

static struct xp_shared_pages *find(const uint8_t *address)
{
	for (struct xp_shared_pages *pages = guarded; pages; pages = pages->next)
		if (address >= pages->start && address < pages->start + pages->bytes)
			return pages;
	return NULL;
}

/* Maps the spare page, which needs no new memory. Returns true, so that the access is repeated. */
static bool put_page(const siginfo_t *info)
{
	struct xp_shared_pages *pages = info->si_code > 0 ? find(info->si_addr) : NULL;
	void *page = (void *)((uintptr_t)info->si_addr & ~(PAGE_BYTES - 1));

	if (!pages || mmap(page, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, page_fd, 0) == MAP_FAILED)
		return false;
	memset(page, 0, PAGE_BYTES); /* removes data that was written to the spare page for an earlier missing page */
	pages->torn = true;
	return true;
}

static int make_page(void)
{
	int fd = memfd_create("xprof-page", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fallocate(fd, 0, 0, PAGE_BYTES)) {
		int err = -errno;

		close(fd);
		return err;
	}
	page_fd = fd;
	return 0;
}

int xp_shared_pages_guard(struct xp_shared_pages *pages)
{
	int err = page_fd < 0 ? make_page() : 0;

	if (!err)
		err = xp_bus_error_ask(XP_BUS_SHARED_PAGES, put_page);
	if (err)
		return err;
	pages->torn = false;
	pages->next = guarded;
	guarded = pages;
	return 0;
}

void xp_shared_pages_forget(struct xp_shared_pages *pages)
{
	for (struct xp_shared_pages **place = &guarded; *place; place = &(*place)->next)
		if (*place == pages) {
			*place = pages->next;
			return;
		}
}
