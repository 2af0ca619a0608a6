// SPDX-License-Identifier: BSD-2-Clause
#include "option_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* Parses 'GLOB>TIME'. The glob can contain '>', as in operators and templates: the last '>' is before the time. */
static int parse(struct xp_trigger_option *trigger, const char *text)
{
	const char *sign = strrchr(text, '>');
	const char *from = text + strspn(text, " "), *end = sign;

	if (!sign || xp_duration_parse(sign + 1 + strspn(sign + 1, " "), &trigger->above_ns) || !trigger->above_ns)
		return -EINVAL;
	while (end > from && end[-1] == ' ')
		end--;
	if (end <= from || *from == '!')
		return -EINVAL;
	trigger->text = text;
	trigger->glob = strndup(from, (size_t)(end - from));
	return trigger->glob ? 0 : -ENOMEM;
}

int xp_option_trigger_add(struct xp_trigger_list *triggers, const char *text)
{
	struct xp_trigger_option trigger, *list;
	size_t at = triggers->count;
	int err;

	if (triggers->count == XP_TRIGGERS_MAX)
		return xp_fail(-EINVAL, "more than %d --trigger", XP_TRIGGERS_MAX);
	err = parse(&trigger, text);
	if (err == -EINVAL)
		xp_error("--trigger takes a function and the time of a call, such as 'handle_request>50ms', not '%s'",
			 text);
	if (err)
		return err;
	list = reallocarray(triggers->list, triggers->count + 1, sizeof(*list));
	if (!list) {
		free(trigger.glob);
		return -ENOMEM;
	}
	for (; at && list[at - 1].above_ns > trigger.above_ns; at--)
		list[at] = list[at - 1];
	list[at] = trigger;
	triggers->list = list;
	triggers->count++;
	return 0;
}

int xp_option_triggers_check(const struct xp_options *options)
{
	if (options->triggers.count && !options->flight_bytes)
		return xp_fail(-EINVAL, "--trigger requires --flight, such as --flight 64M");
	if (options->triggers.count && options->triggers.list[0].above_ns < options->min_duration_ns)
		return xp_fail(-EINVAL, "--trigger %s: --min-duration discards calls of this duration",
			       options->triggers.list[0].text);
	if (options->trigger_limit > XP_TRIGGER_LIMIT_MAX)
		return xp_fail(-EINVAL, "--trigger-limit takes at most %d", XP_TRIGGER_LIMIT_MAX);
	return 0;
}

void xp_option_triggers_free(struct xp_trigger_list *triggers)
{
	for (size_t i = 0; i < triggers->count; i++)
		free(triggers->list[i].glob);
	free(triggers->list);
	*triggers = (struct xp_trigger_list){ 0 };
}
