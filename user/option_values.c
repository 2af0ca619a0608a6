/* SPDX-License-Identifier: BSD-2-Clause */
/* Parses the values of options. */
#include "option_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/util.h"

/* Parses "12" or "1.5" up to the unit. Returns value * scale in *value, truncated to whole units of the result. */
static int scaled(const char *text, size_t digits, uint64_t scale, uint64_t *value)
{
	uint64_t fraction = 0, place = scale;
	bool point = false;

	*value = 0;
	for (size_t i = 0; i < digits; i++) {
		if (text[i] == '.') {
			if (point || i == 0 || i + 1 == digits)
				return -EINVAL;
			point = true;
		} else if (point) {
			place /= 10;
			fraction += place * (uint64_t)(text[i] - '0');
		} else if (__builtin_mul_overflow(*value, 10, value) ||
			   __builtin_add_overflow(*value, (uint64_t)(text[i] - '0'), value)) {
			return -ERANGE;
		}
	}
	if (__builtin_mul_overflow(*value, scale, value) || __builtin_add_overflow(*value, fraction, value))
		return -ERANGE;
	return 0;
}

int xp_duration_parse(const char *text, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "", 1000000000 }, { "s", 1000000000 },  { "ms", 1000000 },	  { "us", 1000 },
		{ "ns", 1 },	    { "m", 60000000000 }, { "h", 3600000000000 },
	};
	size_t digits = strspn(text, "0123456789.");

	if (!digits)
		return -EINVAL;
	for (size_t i = 0; i < XP_ARRAY_SIZE(units); i++)
		if (strcmp(text + digits, units[i].name) == 0)
			return scaled(text, digits, units[i].ns, ns);
	return -EINVAL;
}

int xp_size_parse(const char *text, uint64_t *bytes)
{
	size_t digits = strspn(text, "0123456789");
	const char *unit = text + digits;
	uint64_t scale = 1;

	if (!digits)
		return -EINVAL;
	if (*unit == 'k' || *unit == 'K')
		scale = 1 << 10;
	else if (*unit == 'm' || *unit == 'M')
		scale = 1 << 20;
	else if (*unit == 'g' || *unit == 'G')
		scale = 1 << 30;
	else if (*unit)
		return -EINVAL;
	if (*unit && unit[1] && strcmp(unit + 1, "iB") != 0)
		return -EINVAL;
	return scaled(text, digits, scale, bytes);
}

/* Returns the index of the first `length` characters of text in "a|b|c", or -1. */
static int choice_find(const char *choices, const char *text, size_t length)
{
	for (int index = 0;; index++) {
		size_t span = strcspn(choices, "|");

		if (span == length && memcmp(choices, text, span) == 0)
			return index;
		if (!choices[span])
			return -1;
		choices += span + 1;
	}
}

static int add_text(struct xp_text_list *list, const char *text)
{
	return XP_ARRAY_ADD(list->texts, list->count, list->room, text);
}

static int set_pattern(struct xp_text_list *list, const char *name, const char *text)
{
	if (!*text || strcmp(text, "!") == 0)
		return xp_fail(-EINVAL, "--%s takes a pattern such as 'parse_*' or '!*::operator*', not '%s'", name,
			       text);
	return add_text(list, text);
}

static int set_duration(const char *name, uint64_t *ns, const char *text)
{
	int err = xp_duration_parse(text, ns);

	/* Rejects --duration 0, because in the options 0 means no end. */
	if (!err && !*ns && strcmp(name, "duration") == 0)
		err = -EINVAL;
	if (err)
		xp_error("--%s takes a time such as 10s, 500ms, 5us or 2m, not '%s'%s", name, text,
			 err == -ERANGE ? ", which is too long" : "");
	return err ? -EINVAL : 0;
}

static int set_moment(const char *name, struct xp_moment *moment, const char *text)
{
	*moment = (struct xp_moment){ .kind = XP_MOMENT_OF_RECORDING };
	if (xp_duration_parse(text, &moment->ns) && xp_moment_parse(text, (uint64_t)time(NULL), moment))
		return xp_fail(
		    -EINVAL,
		    "--%s takes a time since the start such as 10s or 500ms, or a time in UTC such as 14:00 or "
		    "yesterdayT14:00, not '%s'",
		    name, text);
	return 0;
}

static int set_size(const struct xp_option *option, uint64_t *bytes, const char *text)
{
	const char *smallest = option->choices ? option->choices : "4K";
	uint64_t min = 0;
	int err = xp_size_parse(smallest, &min);

	if (!err)
		err = xp_size_parse(text, bytes);
	if (err || *bytes < min || *bytes > 1 << 30 || (*bytes & (*bytes - 1)))
		return xp_fail(-EINVAL, "--%s takes a power of two from %s to 1G, such as 4M, not '%s'", option->name,
			       smallest, text);
	return 0;
}

#define BYTES_MIN (1u << 20)

static int set_bytes(const char *name, uint64_t *bytes, const char *text)
{
	if (xp_size_parse(text, bytes) || *bytes < BYTES_MIN)
		return xp_fail(-EINVAL, "--%s takes a size from 1M on, such as 500M or 20G, not '%s'", name, text);
	return 0;
}

/* 10m are minutes, 10M are bytes. */
static int set_time_or_bytes(const char *name, struct xp_time_or_bytes *value, const char *text)
{
	*value = (struct xp_time_or_bytes){ .given = true };
	if (!xp_duration_parse(text, &value->ns) && value->ns)
		return 0;
	value->ns = 0;
	if (!xp_size_parse(text, &value->bytes) && value->bytes >= BYTES_MIN)
		return 0;
	return xp_fail(-EINVAL, "--%s takes a time such as 60s or 24h, or a size from 1M on, such as 200M, not '%s'",
		       name, text);
}

static int set_count(const struct xp_option *option, uint64_t *count, const char *text)
{
	size_t digits = strspn(text, "0123456789");

	if (option->choices && choice_find(option->choices, text, strlen(text)) >= 0) {
		*count = UINT64_MAX;
		return 0;
	}
	if (!digits || text[digits] || scaled(text, digits, 1, count) || !*count || *count > INT64_MAX)
		return xp_fail(-EINVAL, "--%s takes a whole number above 0%s%s, not '%s'", option->name,
			       option->choices ? " or " : "", option->choices ? option->choices : "", text);
	return 0;
}

static int set_percent(const char *name, double *share, const char *text)
{
	char *end;

	*share = *text >= '0' && *text <= '9' ? strtod(text, &end) / 100 : 0;
	if (!(*share > 0) || *share >= 1 || (strcmp(end, "%") != 0 && *end))
		return xp_fail(-EINVAL, "--%s takes a percentage such as 5%% or 0.5%%, below 100%%, not '%s'", name,
			       text);
	return 0;
}

static int set_choice(const struct xp_option *option, void *to, const char *text)
{
	int index = choice_find(option->choices, text, strlen(text));

	if (index < 0)
		return xp_fail(-EINVAL, "--%s takes one of %s, not '%s'", option->name, option->choices, text);
	if (option->type == XP_OPTION_NUMBER)
		*(unsigned int *)to = (unsigned int)strtoul(text, NULL, 10);
	else
		*(int *)to = index;
	return 0;
}

static int set_list(const struct xp_option *option, unsigned int *list, const char *text)
{
	const char *at = text;

	*list = 0;
	for (;;) {
		size_t length = strcspn(at, ",");
		int index = choice_find(option->choices, at, length);

		if (index < 0)
			return xp_fail(-EINVAL, "--%s takes a comma-separated list of %s, not '%s'", option->name,
				       option->choices, text);
		*list |= 1u << index;
		if (!at[length])
			return 0;
		at += length + 1;
	}
}

int xp_option_set(struct xp_options *options, const struct xp_option *option, const char *text)
{
	void *to = (char *)options + option->offset;

	switch (option->type) {
	case XP_OPTION_FLAG:
		*(bool *)to = true;
		return 0;
	case XP_OPTION_DURATION:
		return set_duration(option->name, to, text);
	case XP_OPTION_MOMENT:
		return set_moment(option->name, to, text);
	case XP_OPTION_OPTIONAL_DURATION:
		((struct xp_optional_duration *)to)->given = true;
		((struct xp_optional_duration *)to)->ns = 0;
		return text ? set_duration(option->name, &((struct xp_optional_duration *)to)->ns, text) : 0;
	case XP_OPTION_TIME_OR_BYTES:
		return set_time_or_bytes(option->name, to, text);
	case XP_OPTION_SIZE:
		return set_size(option, to, text);
	case XP_OPTION_BYTES:
		return set_bytes(option->name, to, text);
	case XP_OPTION_NUMBER:
	case XP_OPTION_CHOICE:
		return set_choice(option, to, text);
	case XP_OPTION_LIST:
		return set_list(option, to, text);
	case XP_OPTION_COUNT:
		return set_count(option, to, text);
	case XP_OPTION_PERCENT:
		return set_percent(option->name, to, text);
	case XP_OPTION_PIDS:
	case XP_OPTION_PROCESSES:
		return xp_option_pids_set(to, text, option->type == XP_OPTION_PROCESSES);
	case XP_OPTION_PATTERNS:
		return set_pattern(to, option->name, text);
	case XP_OPTION_TEXTS:
		return add_text(to, text);
	case XP_OPTION_TRIGGERS:
		return xp_option_trigger_add(to, text);
	case XP_OPTION_FILE:
	case XP_OPTION_DIRECTORY:
	case XP_OPTION_TEXT:
		break;
	}
	if (!*text)
		return xp_fail(-EINVAL, "--%s takes a %s, not an empty string", option->name, option->argument);
	*(const char **)to = text;
	return 0;
}
