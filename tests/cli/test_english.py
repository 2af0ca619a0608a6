# SPDX-License-Identifier: BSD-2-Clause
"""
Rejects phrases that have a plainer word, in comments, messages and pages. Many readers learned English as a second
language.
"""
import functools
import re

import pytest

import project

PLAINER = {
    r"nobody vouches for": "untrusted",
    r"(?<!oh )\bdear(er|est)?\b": "expensive",
    r"\bwhat is none\b|\bthat is none\b|\bone that is none\b": "say what it is",
    r"so (many|much|few) [^.;:*]{0,40} at most\b": "at most N",
    r"\bwhoever it is\b": "name the process",
    r"\bits own from now on\b": "say who owns it",
    r"\bas little to be trusted\b": "untrusted",
    r"\bis no news\b": "is expected",
    r"\blost his way\b": "is a bug",
    r"\btells? of\b": "reports, describes",
    r"\bhave become others\b": "changed",
    r"\blook(s|ed)? at nothing\b": "ignores",
    r"\bof which nothing\b": "say what it is",
    r"\bby and by\b": "over time",
    r"\bin the place of\b": "instead of",
    r"\btake(s|n)? stock of\b": "list",
    r"\bbe put off\b": "deferred",
    r"\bis of another kind\b": "differs in",
    r"(^|[.:*] )(?-i:Of) (the|a|an|each|all|every|what) [^,.;:]{1,50} (is|are|has|have|was|were|the|what) ": "subject first",
    r"(^|[.*] )(?-i:Not) [a-z]+ (is|are) (the|those|what|who)\b": "subject first",
}
# Words that are quoted, or are names.
NAMES = {"dear_ns", "dearest_half_ns"}


def sources():
    for place, pattern in (("user", "*.[ch]"), ("bpf", "*.[ch]"), ("include", "*.h"), ("user/man", "*.in")):
        yield from (project.REPO / place).rglob(pattern)
    yield from (project.REPO / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md"))


def prose(path):
    """Returns the comments and strings of a C file, or a whole page, each with its first line number."""
    text = path.read_text()
    if path.suffix not in (".c", ".h"):
        return [(1, text)]
    found = re.finditer(r"/\*.*?\*/|(\"(?:[^\"\\\n]|\\.)*\"\s*)+", text, re.S)
    return [(text.count("\n", 0, m.start()) + 1, m[0]) for m in found]


@functools.lru_cache(maxsize=None)
def texts():
    """Returns all prose: (path, line, text). The lines of a block comment, and adjacent strings, are one text."""

    def joined(text):
        return re.sub(r"\"\s+\"|\n\s*\*? ?", lambda m: " " if "\n" in m[0] and '"' not in m[0] else "", text)

    return [(path, line, joined(text)) for path in sources() for line, text in prose(path)]


@pytest.mark.parametrize("phrase", PLAINER)
def test_plain_words(phrase):
    found = []
    for path, line, text in texts():
        for match in re.finditer(phrase, text, re.I):
            if not any(name in text[max(match.start() - 1, 0) : match.end() + 20] for name in NAMES):
                found.append(f"{path.relative_to(project.REPO)}:{line}: {match[0]!r}: rather {PLAINER[phrase]}")
    assert found == []
