// SPDX-License-Identifier: BSD-2-Clause
#include "model/facts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "format/manifest_reader.h"

#define COMMENT_BYTES_MAX 4096

/* An image of a process. */
struct image {
	uint64_t pid;
	uint64_t image;
	const char *comm, *cgroup; /* NULL: unknown */
	uint64_t since_tsc;	   /* time of its first sample or wait; 0: none */
};

struct xp_facts {
	json_t *manifest; /* NULL: none */
	struct xp_facts_summary summary;
	struct image *images;
	size_t image_count, image_room;
	struct xp_u64_map by_image; /* by PID and number: index of an image, to be compared */
	struct xp_u64_map threads;  /* by index of the image and TID: entry of the thread */
};

static uint64_t image_key(uint64_t pid, uint64_t image)
{
	return xp_hash_mix(pid, image);
}

static struct image *find_image(const struct xp_facts *facts, uint64_t pid, uint64_t image)
{
	const uint32_t *index = xp_u64_map_find(&facts->by_image, image_key(pid, image));
	struct image *found = index ? &facts->images[*index] : NULL;

	return found && found->pid == pid && found->image == image ? found : NULL;
}

static uint64_t thread_key(size_t image, uint64_t tid)
{
	return (uint64_t)image << 32 | (uint32_t)tid;
}

static int index_threads(struct xp_facts *facts, size_t image, const json_t *threads)
{
	int err = 0;

	for (size_t i = 0; !err && i < json_array_size(threads); i++) {
		json_t *thread = json_array_get(threads, i);

		err = xp_u64_map_put(&facts->threads, thread_key(image, xp_manifest_number(thread, "tid")), thread);
	}
	return err;
}

static struct image *image_of(struct xp_facts *facts, uint64_t pid, uint64_t number)
{
	struct image *image = find_image(facts, pid, number);

	if (image)
		return image;
	if (XP_ARRAY_RESERVE(facts->images, facts->image_room, facts->image_count + 1) ||
	    !xp_u64_map_add(&facts->by_image, image_key(pid, number), (uint32_t)facts->image_count))
		return NULL;
	facts->images[facts->image_count] = (struct image){ .pid = pid, .image = number };
	return &facts->images[facts->image_count++];
}

static int index_image(struct xp_facts *facts, const json_t *entry)
{
	const char *comm = xp_manifest_string(entry, "comm"), *cgroup = xp_manifest_string(entry, "cgroup");
	struct image *image = image_of(facts, xp_manifest_number(entry, "pid"), xp_manifest_number(entry, "image"));
	uint32_t index = image ? (uint32_t)(image - facts->images) : 0;

	if (!image)
		return -ENOMEM;
	/* The name from a profile has priority. The name of a process may be that of its next program. */
	image->comm = image->comm ? image->comm : comm;
	image->cgroup = cgroup ? cgroup : image->cgroup;
	image->since_tsc = xp_manifest_number(entry, "since_tsc") ?: image->since_tsc;
	return index_threads(facts, index, json_object_get(entry, "threads"));
}

static int index_images(struct xp_facts *facts, const json_t *list)
{
	int err = 0;

	for (size_t i = 0; !err && i < json_array_size(list); i++)
		err = index_image(facts, json_array_get(list, i));
	return err;
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

void xp_facts_stack_ends(uint64_t ends[XP_UNWIND_ENDS], const json_t *stacks)
{
	for (int end = 0; end < XP_UNWIND_ENDS; end++)
		ends[end] = xp_manifest_number(stacks, xp_unwind_end_key((enum xp_unwind_end)end));
}

static int summarize(struct xp_facts *facts)
{
	const json_t *kernel = json_object_get(facts->manifest, "kernel");
	const json_t *clock = json_object_get(facts->manifest, "clock");
	const json_t *samples = json_object_get(facts->manifest, "samples");
	double length_s = json_number_value(json_object_get(facts->manifest, "duration_s"));
	double from_s = json_number_value(json_object_get(facts->manifest, "attached_after_s"));
	int err;

	facts->summary = (struct xp_facts_summary){
		.started_ns = parse_time(xp_manifest_string(facts->manifest, "started")),
		.from_ns = from_s > 0 && from_s < 1e9 ? (uint64_t)(from_s * 1e9) : 0,
		.length_ns = length_s > 0 && length_s < 1e9 ? (uint64_t)(length_s * 1e9) : 0,
		.start_tsc = xp_manifest_number(clock, "start_tsc"),
		.goes_on_tsc = xp_manifest_number(clock, "goes_on_tsc"),
		.tsc_hz = xp_manifest_number(clock, "hz"),
		.period_ns = xp_manifest_number(samples, "period_ns"),
		.samples = xp_manifest_number(samples, "written"),
		.cpus = xp_manifest_number(samples, "cpus"),
		.lost =
		    xp_manifest_number(samples, "lost") +
		    xp_manifest_number(json_object_get(json_object_get(facts->manifest, "totals"), "lost"), "total"),
		.release = xp_manifest_string(kernel, "release"),
		.machine = xp_manifest_string(kernel, "machine"),
	};
	xp_facts_stack_ends(facts->summary.stack_ends, json_object_get(samples, "stacks"));
	err = index_images(facts, json_object_get(samples, "profiles"));
	return err ? err : index_images(facts, json_object_get(facts->manifest, "processes"));
}

int xp_facts_new(struct xp_facts **facts, json_t *manifest)
{
	int err = 0;

	*facts = calloc(1, sizeof(**facts));
	if (!*facts)
		return -ENOMEM;
	(*facts)->manifest = json_incref(manifest);
	if (manifest)
		err = summarize(*facts);
	if (err) {
		xp_facts_free(*facts);
		*facts = NULL;
	}
	return err;
}

void xp_facts_free(struct xp_facts *facts)
{
	if (!facts)
		return;
	xp_u64_map_free(&facts->by_image);
	xp_u64_map_free(&facts->threads);
	free(facts->images);
	json_decref(facts->manifest);
	free(facts);
}

const struct xp_facts_summary *xp_facts_summary(const struct xp_facts *facts)
{
	return &facts->summary;
}

uint64_t xp_facts_ns_between(const struct xp_facts *part, const struct xp_facts *next)
{
	const struct xp_facts_summary *first = xp_facts_summary(part), *second = xp_facts_summary(next);
	uint64_t length_ns = first->from_ns + first->length_ns;

	if (first->goes_on_tsc && first->goes_on_tsc == second->start_tsc && first->goes_on_tsc > first->start_tsc)
		length_ns = xp_scale(first->goes_on_tsc - first->start_tsc, XP_NS_PER_S, first->tsc_hz);
	else if (second->started_ns > first->started_ns)
		length_ns = XP_MAX(length_ns, second->started_ns - first->started_ns);
	return length_ns;
}

static uint64_t ns_of(const json_t *object, const char *key)
{
	double seconds = json_number_value(json_object_get(object, key));

	return (uint64_t)(XP_MIN(XP_MAX(seconds, 0.0), 1e9) * 1e9);
}

bool xp_facts_waits(const struct xp_facts *facts, struct xp_facts_waits *waits)
{
	const json_t *from = json_object_get(facts->manifest, "waits");

	*waits = (struct xp_facts_waits){
		.seen = xp_manifest_number(from, "seen"),
		.written = xp_manifest_number(from, "written"),
		.shorter = xp_manifest_number(json_object_get(from, "filtered"), "shorter"),
		.lost = xp_manifest_number(from, "lost"),
		.missed = xp_manifest_number(from, "missed"),
		.threads = xp_manifest_number(from, "thread_count"),
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
	uint64_t waits = xp_manifest_number(from, "waits");

	*account = (struct xp_facts_account){
		.pid = xp_manifest_number(from, "pid"),
		.tid = xp_manifest_number(from, "tid"),
		.image = xp_manifest_number(from, "image"),
		.name = xp_manifest_string(from, "name"),
		.seen = waits - XP_MIN(waits, xp_manifest_number(from, "missed")),
		.running_ns = ns_of(from, "running_s"),
		.runnable_ns = ns_of(from, "runnable_s"),
		.blocked_ns = ns_of(from, "blocked_s"),
	};
	return index < json_array_size(threads);
}

char *xp_facts_comment(const struct xp_facts *facts)
{
	const json_t *command = json_object_get(facts->manifest, "command");
	const char *version = xp_manifest_string(facts->manifest, "xprof_version");
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
	const char *release = xp_manifest_string(kernel, "release"), *machine = xp_manifest_string(kernel, "machine");
	char *text = NULL;

	if (release && machine && asprintf(&text, "Linux %.128s %.64s", release, machine) < 0)
		return NULL;
	return text;
}

bool xp_facts_sampled(const struct xp_facts *facts, size_t index, uint64_t *pid, uint64_t *image, uint64_t *samples)
{
	const json_t *list = json_object_get(json_object_get(facts->manifest, "samples"), "profiles");
	const json_t *profile = json_array_get(list, index);

	*pid = xp_manifest_number(profile, "pid");
	*image = xp_manifest_number(profile, "image");
	*samples = xp_manifest_number(profile, "samples");
	return profile;
}

bool xp_facts_since(const struct xp_facts *facts, uint64_t pid, uint64_t image, uint64_t *tsc)
{
	const struct image *found = find_image(facts, pid, image);

	*tsc = found ? found->since_tsc : 0;
	return found;
}

static size_t add_triggered(const json_t *flight, const char **names, size_t count)
{
	const json_t *calls = json_object_get(json_object_get(flight, "slow_call"), "calls");
	const char *name = xp_manifest_string(json_array_get(calls, 0), "name");

	if (!name || *name == '!') /* a pattern that excludes functions (select.h) */
		return count;
	for (size_t i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return count;
	names[count] = name;
	return count + 1;
}

size_t xp_facts_triggered(const struct xp_facts *facts, const char **names, size_t max)
{
	const json_t *processes = json_object_get(facts->manifest, "processes");
	size_t count = 0;

	for (size_t i = 0; i < json_array_size(processes); i++) {
		const json_t *flights = json_object_get(json_array_get(processes, i), "flights");

		for (size_t f = 0; f < json_array_size(flights) && count < max; f++)
			count = add_triggered(json_array_get(flights, f), names, count);
	}
	return count;
}

const char *xp_facts_comm(const struct xp_facts *facts, uint64_t pid, uint64_t image)
{
	const struct image *found = find_image(facts, pid, image);

	return found ? found->comm : NULL;
}

const char *xp_facts_cgroup(const struct xp_facts *facts, uint64_t pid, uint64_t image)
{
	const struct image *found = find_image(facts, pid, image);

	return found ? found->cgroup : NULL;
}

const char *xp_facts_thread(const struct xp_facts *facts, uint64_t pid, uint64_t image, uint64_t tid)
{
	const struct image *found = find_image(facts, pid, image);
	const json_t *thread =
	    found ? xp_u64_map_get(&facts->threads, thread_key((size_t)(found - facts->images), tid)) : NULL;

	return thread && xp_manifest_number(thread, "tid") == tid ? xp_manifest_string(thread, "name") : NULL;
}
