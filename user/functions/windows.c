// SPDX-License-Identifier: BSD-2-Clause
#include "functions/windows.h"

#include <errno.h>

#include "base/array.h"
#include "base/util.h"

#define SHORT_REACH 127
#define HOST_BYTES (2 * XP_WINDOW_BYTES)
#define RECENT_WINDOWS 8 /* windows of a function that a site may share */

/* Code that a window may use: [start, end) consists of whole instructions. */
struct span {
	uint64_t start;
	uint64_t end;
	bool has_call;
};

static bool is_free(const struct xp_code_map *map, uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end; at++)
		if (!xp_code_map_has(map, at) || xp_code_map_is(map, at, XP_MARK_TAKEN))
			return false;
	return true;
}

static void take(struct xp_code_map *map, uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end; at++)
		xp_code_map_mark(map, at, XP_MARK_TAKEN);
}

/* ---- padding ---- */

/* Returns whether only padding (nops or int3) follows up to the next entry or the end of the segment. */
static bool is_padding(const struct xp_code *code)
{
	return code->kind == XP_CODE_NOP || (code->kind == XP_CODE_STOP && code->bytes == 1);
}

/* Returns the limit of padding: the end of the code's entry or, after that, the start of the next entry. */
static uint64_t padding_limit(const struct xp_code_map *map, uint32_t part, uint64_t vaddr)
{
	const struct xp_cfi_fde *fde = &map->fdes.all[part];
	const struct xp_elf_segment *segment = xp_elf_file_segment(map->file, fde->vaddr, fde->bytes);
	uint64_t end = segment->vaddr + segment->bytes;

	if (vaddr < fde->vaddr + fde->bytes)
		return fde->vaddr + fde->bytes;
	return part + 1 < map->fdes.count ? XP_MIN(end, fde[1].vaddr) : end;
}

/*
 * Returns the end of the padding at vaddr, which nothing runs into and which is no target. After an entry, all bytes up
 * to the next entry must be padding: otherwise there may be code without an entry.
 */
static uint64_t padding_end(const struct xp_code_map *map, uint32_t part, uint64_t vaddr)
{
	const struct xp_cfi_fde *fde = &map->fdes.all[part];
	uint64_t limit = padding_limit(map, part, vaddr), at = vaddr;
	bool is_behind = vaddr >= fde->vaddr + fde->bytes;
	struct xp_code code;

	while (at < limit && at - vaddr < XP_WINDOW_BYTES_MAX &&
	       !xp_code_map_is(map, at, XP_MARK_TARGET | XP_MARK_TAKEN)) {
		if (!xp_code_decode(map->code + (at - map->start), limit - at, at, &code) || !is_padding(&code))
			break;
		at += code.bytes;
	}
	if (!is_behind || at == limit || at - vaddr >= XP_WINDOW_BYTES_MAX)
		return at;
	return vaddr;
}

/* ---- spans ---- */

/* Returns whether this instruction may precede another one in a window. */
static bool may_precede(enum xp_code_kind kind)
{
	return kind == XP_CODE_PLAIN || kind == XP_CODE_NOP || kind == XP_CODE_BRANCH;
}

static bool ends_flow(enum xp_code_kind kind)
{
	return kind == XP_CODE_RET || kind == XP_CODE_JUMP || kind == XP_CODE_INDIRECT;
}

static bool may_be_target(const struct xp_windows *windows, uint32_t part, uint64_t vaddr)
{
	return xp_code_map_is(windows->map, vaddr, XP_MARK_TARGET) ||
	       xp_jump_targets_may_be(windows->targets, part, vaddr);
}

/* Adds padding after code that does not continue, until the span has this many bytes. */
static void grow_over_padding(const struct xp_windows *windows, uint32_t part, struct span *span, uint64_t bytes)
{
	const struct xp_code_map *map = windows->map;
	uint64_t end = padding_end(map, part, span->end);
	struct xp_code code;

	while (span->end < end && span->end - span->start < bytes) {
		if (!xp_code_decode(map->code + (span->end - map->start), end - span->end, span->end, &code))
			return;
		span->end += code.bytes;
	}
}

static void grow_backwards(const struct xp_windows *windows, uint32_t part, struct span *span, uint64_t bytes)
{
	const struct xp_code_map *map = windows->map;

	while (span->end - span->start < bytes) {
		uint64_t before = xp_code_map_before(map, span->start, map->fdes.all[part].vaddr);

		if (before == span->start || !may_precede(xp_code_map_kind(map, before)) ||
		    may_be_target(windows, part, span->start) || !is_free(map, before, span->start))
			return;
		span->start = before;
	}
}

/* Adds the following instructions, up to one that ends the window. */
static void grow_forwards(const struct xp_windows *windows, uint32_t part, struct span *span, uint64_t bytes)
{
	const struct xp_code_map *map = windows->map;
	const struct xp_cfi_fde *fde = &map->fdes.all[part];

	while (span->end - span->start < bytes && span->end < fde->vaddr + fde->bytes) {
		enum xp_code_kind kind = xp_code_map_kind(map, span->end);
		uint64_t next = xp_code_map_next(map, span->end);

		if ((!may_precede(kind) && !ends_flow(kind) && kind != XP_CODE_CALL) ||
		    (span->end > span->start && may_be_target(windows, part, span->end)) ||
		    !is_free(map, span->end, next))
			return;
		span->end = next;
		span->has_call = kind == XP_CODE_CALL;
		if (ends_flow(kind))
			grow_over_padding(windows, part, span, bytes);
		if (!may_precede(kind))
			return;
	}
}

/* ---- windows ---- */

/* Returns whether a jump leads behind the first byte, perhaps into an instruction (after a lock prefix). */
static bool has_target_inside(const struct xp_code_map *map, uint64_t start, uint64_t end)
{
	for (uint64_t at = start + 1; at < end; at++)
		if (xp_code_map_is(map, at, XP_MARK_TARGET))
			return true;
	return false;
}

static int add(struct xp_windows *windows, const struct span *span, uint64_t spring, uint32_t *window)
{
	struct xp_call_plan *plan = windows->plan;

	if (has_target_inside(windows->map, span->start, span->end) ||
	    (spring && has_target_inside(windows->map, spring - 1, spring + XP_WINDOW_BYTES)))
		return 0;

	if (XP_ARRAY_RESERVE(plan->windows, plan->window_room, plan->window_count + 1))
		return -ENOMEM;
	take(windows->map, span->start, span->end);
	if (spring)
		take(windows->map, spring, spring + XP_WINDOW_BYTES);
	*window = (uint32_t)plan->window_count;
	plan->windows[plan->window_count++] = (struct xp_call_plan_window){
		.vaddr = span->start,
		.spring = spring,
		.bytes = (uint8_t)(span->end - span->start),
		.has_call = span->has_call,
	};
	return 0;
}

/* Returns padding for a spring, after code of this part that does not continue. Returns 0 if there is none. */
static uint64_t spring_behind(const struct xp_windows *windows, uint32_t part, uint64_t vaddr)
{
	const struct xp_code_map *map = windows->map;
	enum xp_code_kind kind = xp_code_map_kind(map, vaddr);
	uint64_t at, end;
	struct xp_code code;

	if (!ends_flow(kind))
		return 0;
	at = xp_code_map_next(map, vaddr);
	/* Skip bytes of other windows. */
	while (xp_code_map_is(map, at, XP_MARK_TAKEN) && at - vaddr < XP_WINDOW_BYTES_MAX) {
		if (xp_code_map_is(map, at, XP_MARK_TARGET))
			return 0;
		at++;
	}
	end = padding_end(map, part, at);
	/* Another window may end in the middle of a nop. */
	if (end - at >= XP_WINDOW_BYTES && xp_code_decode(map->code + (at - map->start), end - at, at, &code))
		return at;
	return 0;
}

/* Returns whether a short jump at `from` reaches the spring. */
static bool is_near(uint64_t from, uint64_t spring)
{
	int64_t distance = (int64_t)(spring - (from + XP_SPRING_BYTES));

	return distance >= -SHORT_REACH && distance <= SHORT_REACH;
}

/*
 * Finds straight code that moves only to make space: the jump replaces its first 5 bytes, and a spring the next ones.
 * Returns false if there is too little.
 */
static bool find_host(const struct xp_windows *windows, uint32_t part, uint64_t vaddr, struct span *host)
{
	const struct xp_code_map *map = windows->map;
	const struct xp_cfi_fde *fde = &map->fdes.all[part];

	*host = (struct span){ vaddr, vaddr, false };
	while (host->end - host->start < HOST_BYTES && host->end < fde->vaddr + fde->bytes) {
		uint64_t next = xp_code_map_next(map, host->end);

		if (xp_code_map_kind(map, host->end) != XP_CODE_PLAIN || !is_free(map, host->end, next) ||
		    (host->end > vaddr && may_be_target(windows, part, host->end)))
			return false;
		host->end = next;
	}
	return host->end - host->start >= HOST_BYTES;
}

/* Finds or makes space for a spring near `from`, the start of a window. *spring is 0 if there is none. */
static int find_spring(struct xp_windows *windows, uint32_t part, const struct span *from, uint64_t *spring)
{
	const struct xp_code_map *map = windows->map;
	const struct xp_cfi_fde *fde = &map->fdes.all[part];
	uint64_t start = from->start - XP_MIN(from->start - fde->vaddr, (uint64_t)SHORT_REACH);
	uint64_t end = XP_MIN(fde->vaddr + fde->bytes, from->start + SHORT_REACH);
	uint32_t window;
	struct span host;

	*spring = 0;
	for (uint64_t at = start; at < end; at++) {
		*spring = map->decoded[at - map->start] ? spring_behind(windows, part, at) : 0;
		if (*spring && is_near(from->start, *spring))
			return 0;
	}
	*spring = 0;
	for (uint64_t at = start; at < end; at++) {
		int err;

		if (!map->decoded[at - map->start] || !is_near(from->start, at + XP_WINDOW_BYTES) ||
		    !find_host(windows, part, at, &host) || (host.start < from->end && from->start < host.end))
			continue;
		window = XP_NO_WINDOW;
		err = add(windows, &host, 0, &window);
		if (err || window != XP_NO_WINDOW) {
			*spring = at + XP_WINDOW_BYTES;
			return err;
		}
	}
	return 0;
}

/* Makes a window of 5 bytes, or of 2 if there is a spring. */
static int add_span(struct xp_windows *windows, uint32_t part, const struct span *span, uint32_t *window)
{
	uint64_t bytes = span->end - span->start, spring = 0;
	int err = 0;

	*window = XP_NO_WINDOW;
	if (bytes > XP_WINDOW_BYTES_MAX || bytes < XP_SPRING_BYTES)
		return 0;
	if (bytes >= XP_WINDOW_BYTES)
		return add(windows, span, 0, window);
	if (windows->has_springs)
		err = find_spring(windows, part, span, &spring);
	return !err && spring ? add(windows, span, spring, window) : err;
}

/* Returns the window that contains this byte, among the last few; XP_NO_WINDOW: none. */
static uint32_t window_at(const struct xp_windows *windows, uint64_t vaddr)
{
	const struct xp_call_plan *plan = windows->plan;

	for (size_t i = plan->window_count; i > windows->first && plan->window_count - i < RECENT_WINDOWS; i--)
		if (vaddr - plan->windows[i - 1].vaddr < plan->windows[i - 1].bytes)
			return (uint32_t)i - 1;
	return XP_NO_WINDOW;
}

int xp_windows_exit(struct xp_windows *windows, uint32_t part, uint64_t vaddr, uint32_t *window)
{
	const struct xp_code_map *map = windows->map;
	struct span span = { vaddr, xp_code_map_next(map, vaddr), false };
	bool continues = !ends_flow(xp_code_map_kind(map, vaddr));

	*window = XP_NO_WINDOW;
	if (!is_free(map, span.start, span.end)) {
		*window = window_at(windows, vaddr);
		return 0;
	}
	if (!continues)
		grow_over_padding(windows, part, &span, XP_WINDOW_BYTES);
	grow_backwards(windows, part, &span, XP_WINDOW_BYTES);
	if (continues)
		grow_forwards(windows, part, &span, XP_WINDOW_BYTES);
	return add_span(windows, part, &span, window);
}

/* Joins the window that follows the entry's span with it. Returns false if this is not possible. */
static bool take_over(struct xp_windows *windows, uint32_t part, const struct span *span, uint32_t index)
{
	struct xp_call_plan_window *window = &windows->plan->windows[index];
	uint64_t bytes = span->end - span->start + window->bytes;

	if (window->vaddr != span->end || may_be_target(windows, part, window->vaddr) || bytes > XP_WINDOW_BYTES_MAX ||
	    has_target_inside(windows->map, span->start, span->end))
		return false;
	if (bytes < XP_WINDOW_BYTES && !is_near(span->start, window->spring))
		return false;
	if (bytes >= XP_WINDOW_BYTES)
		window->spring = 0;
	window->vaddr = span->start;
	window->bytes = (uint8_t)bytes;
	take(windows->map, span->start, span->end);
	return true;
}

int xp_windows_entry(struct xp_windows *windows, uint32_t part, uint64_t vaddr, uint32_t *window)
{
	struct span span = { vaddr, vaddr, false };
	uint32_t next;

	*window = window_at(windows, vaddr);
	if (*window != XP_NO_WINDOW)
		return 0;
	grow_forwards(windows, part, &span, XP_WINDOW_BYTES);
	next = span.end - span.start < XP_WINDOW_BYTES ? window_at(windows, span.end) : XP_NO_WINDOW;
	if (next == XP_NO_WINDOW)
		return add_span(windows, part, &span, window);
	if (take_over(windows, part, &span, next))
		*window = next;
	return 0;
}
