# SPDX-License-Identifier: BSD-2-Clause
"""Reads the output of `xprof report`, for a terminal or not."""
import os
import re
import shutil

import pytest

import project


def table(text):
    """Returns {function: {column: cell}} of the last table."""
    return {row["Function"]: row for row in rows(text)}


def rows(text):
    """Returns [{column: cell}] of the last table."""
    found, header = [], None
    for line in text.splitlines():
        if line.endswith("Object"):
            header, found = line, []
        elif header and (not line.strip() or line.startswith("...")):
            header = None
        elif header:
            # Numbers end where their heading ends; texts start where their heading starts.
            start = header.index("Function")
            row = {m.group(): line[:m.end()].split("  ")[-1].strip() for m in re.finditer(r"\S+", header[:start])}
            row["Function"], *rest = re.split(r"  +", line[start:])
            row["Object"] = rest[0] if rest else ""
            found.append(row)
    return found


def report(xprof, *args, status=0, short=False, **options):
    done = xprof("report", *([] if short else ["--full-names"]), *args, **options)
    assert done.returncode == status, done.stderr
    return done


def on_terminal(xprof, path, columns=100, **environment):
    """Returns the output on a terminal of this width."""
    if not shutil.which("script"):
        pytest.skip("script is not installed")
    inherited = {k: v for k, v in os.environ.items() if k not in ("PAGER", "LESS", "NO_COLOR")}
    command = f"stty cols {columns} rows 200; {xprof.path} report {path}"
    done = project.run(["script", "-qec", command, "/dev/null"], env={**inherited, "TERM": "xterm", **environment}, timeout=20)
    return done.stdout.replace("\r\n", "\n")


def without_colours(text):
    return re.sub(r"\x1b\[[0-9;]*m|\x1b\[\??[0-9]*[a-zA-Z]|\x1b[=>]", "", text)
