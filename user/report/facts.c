// SPDX-License-Identifier: BSD-2-Clause
#include "report/facts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "report/read_manifest.h"

#define COMMENT_BYTES_MAX 4096

/* An image of a process. */
struct image {
	uint64_t pid;
	uint64_t image;
	const json_t *entry;
	uint32_t next; /* index plus one of another one with the same pid; 0: none */
};

struct xp_facts {
	json_t *manifest; /* NULL: none */
	struct xp_facts_summary summary;
	struct image *images;
	size_t image_count;
	size_t image_room;
	struct xp_u64_map by_pid;  /* the first image's index */
	struct xp_u64_map threads; /* by the address of a process's entry and the tid: the thread's entry */
};

static uint64_t number_of(const json_t *object, const char *key)
{
	json_int_t number = json_integer_value(json_object_get(object, key));

	return number > 0 ? (uint64_t)number : 0;
}

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static uint64_t thread_key(const json_t *process, uint64_t tid)
{
	return ((uintptr_t)process ^ tid << 40) * 0x9e3779b97f4a7c15u ^ tid;
}

static int index_threads(struct xp_facts *facts, const json_t *process)
{
	const json_t *threads = json_object_get(process, "threads");
	int err = 0;

	for (size_t i = 0; !err && i < json_array_size(threads); i++) {
		json_t *thread = json_array_get(threads, i);

		err = xp_u64_map_put(&facts->threads, thread_key(process, number_of(thread, "tid")), thread);
	}
	return err;
}

static int index_images(struct xp_facts *facts, const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *entry = json_array_get(list, i);
		uint64_t pid = number_of(entry, "pid");
		uint32_t *first;

		if (XP_ARRAY_RESERVE(facts->images, facts->image_room, facts->image_count + 1))
			return -ENOMEM;
		first = xp_u64_map_add(&facts->by_pid, pid, 0);
		if (!first || index_threads(facts, entry))
			return -ENOMEM;
		facts->images[facts->image_count++] = (struct image){ pid, number_of(entry, "image"), entry, *first };
		*first = (uint32_t)facts->image_count;
	}
	return 0;
}

/* "2026-11-23T06:30:24.126621888Z" */
static uint64_t parse_time(const char *text)
{
	struct tm time = { 0 };
	const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &time) : NULL;
	char digits[10] = "000000000";
	time_t seconds;

	if (!rest)
		return 0;
	if (*rest == '.')
		for (size_t i = 0; i < 9 && rest[i + 1] >= '0' && rest[i + 1] <= '9'; i++)
			digits[i] = rest[i + 1];
	seconds = timegm(&time);
	return seconds > 0 ? (uint64_t)seconds * XP_NS_PER_S + strtoull(digits, NULL, 10) : 0;
}

static int summarize(struct xp_facts *facts)
{
	const json_t *kernel = json_object_get(facts->manifest, "kernel");
	const json_t *clock = json_object_get(facts->manifest, "clock");
	const json_t *samples = json_object_get(facts->manifest, "samples");
	double length_s = json_number_value(json_object_get(facts->manifest, "duration_s"));
	int err;

	facts->summary = (struct xp_facts_summary){
		.started_ns = parse_time(text_of(facts->manifest, "started")),
		.length_ns = length_s > 0 && length_s < 1e9 ? (uint64_t)(length_s * 1e9) : 0,
		.start_tsc = number_of(clock, "start_tsc"),
		.tsc_hz = number_of(clock, "hz"),
		.period_ns = number_of(samples, "period_ns"),
		.samples = number_of(samples, "written"),
		.cpus = number_of(samples, "cpus"),
		.lost = number_of(samples, "lost") +
			number_of(json_object_get(json_object_get(facts->manifest, "totals"), "lost"), "total"),
		.release = text_of(kernel, "release"),
		.machine = text_of(kernel, "machine"),
	};
	err = index_images(facts, json_object_get(samples, "profiles"));
	return err ? err : index_images(facts, json_object_get(facts->manifest, "processes"));
}

int xp_facts_read(struct xp_facts **facts, const char *directory)
{
	struct xp_facts *new = calloc(1, sizeof(*new));
	int err = 0;

	*facts = new;
	if (!new)
		return -ENOMEM;
	/* Whoever looked for the files has told. */
	if (directory)
		xp_read_manifest(&new->manifest, directory, true);
	if (new->manifest)
		err = summarize(new);
	if (err) {
		xp_facts_free(new);
		*facts = NULL;
	}
	return err;
}

void xp_facts_free(struct xp_facts *facts)
{
	if (!facts)
		return;
	xp_u64_map_free(&facts->by_pid);
	xp_u64_map_free(&facts->threads);
	free(facts->images);
	json_decref(facts->manifest);
	free(facts);
}

const struct xp_facts_summary *xp_facts_summary(const struct xp_facts *facts)
{
	return &facts->summary;
}

static uint64_t ns_of(const json_t *object, const char *key)
{
	double seconds = json_number_value(json_object_get(object, key));

	return (uint64_t)(XP_MIN(XP_MAX(seconds, 0.0), 1e9) * 1e9);
}

bool xp_facts_waits(const struct xp_facts *facts, struct xp_facts_waits *waits)
{
	const json_t *from = json_object_get(facts->manifest, "waits");
	const json_t *filtered = json_object_get(from, "filtered");

	*waits = (struct xp_facts_waits){
		.seen = number_of(from, "seen"),
		.written = number_of(from, "written"),
		.shorter = number_of(filtered, "shorter"),
		.not_chosen = number_of(filtered, "not_chosen"),
		.lost = number_of(from, "lost"),
		.missed = number_of(from, "missed"),
		.threads = number_of(from, "thread_count"),
		.running_ns = ns_of(from, "running_s"),
		.runnable_ns = ns_of(from, "runnable_s"),
		.blocked_ns = ns_of(from, "blocked_s"),
	};
	return json_is_object(from);
}

bool xp_facts_account(const struct xp_facts *facts, size_t index, struct xp_facts_account *account)
{
	const json_t *threads = json_object_get(json_object_get(facts->manifest, "waits"), "threads");
	const json_t *from = json_array_get(threads, index);

	*account = (struct xp_facts_account){
		.pid = number_of(from, "pid"),
		.tid = number_of(from, "tid"),
		.name = text_of(from, "name"),
		.running_ns = ns_of(from, "running_s"),
		.runnable_ns = ns_of(from, "runnable_s"),
		.blocked_ns = ns_of(from, "blocked_s"),
	};
	return index < json_array_size(threads);
}

char *xp_facts_comment(const struct xp_facts *facts)
{
	const json_t *command = json_object_get(facts->manifest, "command");
	const char *version = text_of(facts->manifest, "xprof_version");
	size_t bytes = 0;
	char *text = NULL;
	FILE *out;

	if (!version)
		return NULL;
	out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	fprintf(out, "xprof %.*s:", (int)xp_text_fit(version, 64), version);
	for (size_t i = 0; i < json_array_size(command) && ftell(out) < COMMENT_BYTES_MAX; i++) {
		const char *word = json_string_value(json_array_get(command, i));

		if (!word)
			word = "";
		fprintf(out, " %.*s", (int)xp_text_fit(word, COMMENT_BYTES_MAX), word);
	}
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

char *xp_facts_machine(const struct xp_facts *facts)
{
	const json_t *kernel = json_object_get(facts->manifest, "kernel");
	const char *release = text_of(kernel, "release"), *machine = text_of(kernel, "machine");
	char *text = NULL;

	if (release && machine && asprintf(&text, "Linux %.128s %.64s", release, machine) < 0)
		return NULL;
	return text;
}

static const struct image *first_image(const struct xp_facts *facts, uint64_t pid)
{
	const uint32_t *first = xp_u64_map_find(&facts->by_pid, pid);

	return first && *first ? &facts->images[*first - 1] : NULL;
}

static const struct image *next_image(const struct xp_facts *facts, const struct image *image)
{
	return image->next ? &facts->images[image->next - 1] : NULL;
}

uint32_t xp_facts_image(const struct xp_facts *facts, uint64_t pid, const char *comm, const char **name)
{
	const struct image *found = NULL, *first = first_image(facts, pid);
	bool only_one = true;

	for (const struct image *at = first; at; at = next_image(facts, at)) {
		const char *its = text_of(at->entry, "comm");

		only_one &= at->image == first->image;
		if (its && (!comm || strcmp(its, comm) == 0) && (!found || at->image < found->image))
			found = at;
	}
	if (!found && only_one && first && text_of(first->entry, "comm"))
		found = first;
	*name = found ? text_of(found->entry, "comm") : NULL;
	return found ? (uint32_t)XP_MIN(found->image, (uint64_t)UINT32_MAX) : 0;
}

uint32_t xp_facts_only_image(const struct xp_facts *facts, uint64_t pid)
{
	const struct image *first = first_image(facts, pid);

	for (const struct image *at = first; at; at = next_image(facts, at))
		if (at->image != first->image)
			return 0;
	return first ? (uint32_t)XP_MIN(first->image, (uint64_t)UINT32_MAX) : 0;
}

static const char *text_of_image(const struct xp_facts *facts, uint64_t pid, uint64_t image, const char *key)
{
	for (const struct image *at = first_image(facts, pid); at; at = next_image(facts, at))
		if (at->image == image && text_of(at->entry, key))
			return text_of(at->entry, key);
	return NULL;
}

const char *xp_facts_comm(const struct xp_facts *facts, uint64_t pid, uint64_t image)
{
	return text_of_image(facts, pid, image, "comm");
}

const char *xp_facts_cgroup(const struct xp_facts *facts, uint64_t pid, uint64_t image)
{
	return text_of_image(facts, pid, image, "cgroup");
}

const char *xp_facts_thread(const struct xp_facts *facts, uint64_t pid, uint64_t image, uint64_t tid)
{
	for (const struct image *at = first_image(facts, pid); at; at = next_image(facts, at)) {
		const json_t *thread =
		    at->image == image ? xp_u64_map_get(&facts->threads, thread_key(at->entry, tid)) : NULL;

		if (thread && number_of(thread, "tid") == tid)
			return text_of(thread, "name");
	}
	return NULL;
}
