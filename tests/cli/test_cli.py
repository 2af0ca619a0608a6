# SPDX-License-Identifier: BSD-2-Clause
"""Checks the command line: help, usage errors, exit codes, completion, man pages, README."""
import os
import pathlib
import re
import shutil

import pytest

import project

GOLDEN = pathlib.Path(__file__).with_name("golden")
COMMANDS = ["record", "report", "export", "view", "explain", "list", "recover", "restore", "doctor", "help", "version"]


def one_line(text):
    lines = text.splitlines()
    assert len(lines) == 1, text
    return lines[0]


def options_in_help(xprof, name):
    options = re.findall(r"^  (?:-.,|   ) (--[a-z-]+)", xprof("help", name).stdout, re.M)
    assert "--help" in options
    return options


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_golden(xprof, name):
    done = xprof("help", *([name] if name else []))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (GOLDEN / f"help-{name or 'xprof'}.txt").read_text()


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["help"], ["help", "--help"]])
def test_help_without_command(xprof, args):
    assert xprof(*args).stdout == (GOLDEN / "help-xprof.txt").read_text()


@pytest.mark.parametrize("args", [["record", "--help"], ["record", "-h"], ["record", "-p", "1", "-h"]])
def test_help_of_command(xprof, args):
    done = xprof(*args)
    assert done.returncode == 0
    assert done.stdout == (GOLDEN / "help-record.txt").read_text()


def test_help_width(xprof):
    for name in COMMANDS:
        for line in xprof("help", name).stdout.splitlines():
            assert len(line) <= 80 or line.startswith("Usage:"), line


def test_child_keeps_its_own_help(xprof):
    """Options after -- belong to the command, such as its --help and -d."""
    done = xprof("record", "--output", "", "--", "ls", "--help")
    assert done.returncode == 2
    assert "--output" in done.stderr


@pytest.mark.parametrize("args", [["version"], ["--version"], ["-V"]])
def test_version(xprof, args):
    done = xprof(*args)
    assert done.returncode == 0
    assert re.fullmatch(r"xprof \d+\.\d+\.\d+ \(libbpf 1\.\d+\)\n", done.stdout)


@pytest.mark.parametrize(
    "args, message",
    [
        (["recrod"], "unknown command 'recrod'; did you mean 'record'?"),
        (["exprot"], "unknown command 'exprot'; did you mean 'export'?"),
        (["frobnicate"], "unknown command 'frobnicate'; see 'xprof help'"),
        (["x" * 200], f"unknown command '{'x' * 200}'; see 'xprof help'"),
        (["-p", "1"], "unknown option '-p'; options follow the command, see 'xprof help'"),
        (["help", "frobnicate"], "there is no command 'frobnicate'; see 'xprof help'"),
        (["record"], "no target; give exactly one of -p PID, -t TID, -a, --exec PATH or -- CMD [ARG...]"),
        (["record", "--"], "no target; give exactly one of -p PID, -t TID, -a, --exec PATH or -- CMD [ARG...]"),
        (["record", "-p", "1", "--", "ls"], "more than one target; give exactly one of -p PID, -t TID, -a, --exec PATH or -- CMD [ARG...]"),
        (["record", "-p", "1", "--exec", "/bin/ls"], "more than one target; give exactly one of -p PID, -t TID, -a, --exec PATH or -- CMD [ARG...]"),
        (["export", "."], "no format; give --format with pprof, folded, html or perfetto"),
        (["export", ".", "--format", "html,pprof", "-o", "x"], "--output can be used with only one format"),
        (["record", "ls"], "unexpected 'ls'; a process is given by -p PID, a command to start by -- CMD [ARG...]"),
        (["record", "-p", "1", "2"], "unexpected '2'; a process is given by -p PID, a command to start by -- CMD [ARG...]"),
        (["record", "-Z"], "unknown option '-Z'; see 'xprof help record'"),
        (["record", "-a", "-p", "1"], "more than one target; give exactly one of -p PID, -t TID, -a, --exec PATH or -- CMD [ARG...]"),
        (["record", "-a", "-F", "0"], "--freq takes a whole number above 0 or max, not '0'"),
        (["record", "-a", "-F", "many"], "--freq takes a whole number above 0 or max, not 'many'"),
        (["record", "-a", "-c", "max"], "--count takes a whole number above 0, not 'max'"),
        (["record", "-a", "--no-samples"], "--no-samples cannot be used with --all or --tid, which record only samples; to record calls, use -p PID"),
        (["record", "-p", "1", "--no-samples", "--no-sleds"], "--no-sleds cannot be used with --no-samples: nothing would be recorded"),
        (["record", "--exec", "/bin/ls", "--no-sleds"], "--no-sleds cannot be used with --exec, which records only calls"),
        (["record", "-a", "--flight", "64M"], "--flight cannot be used with --no-sleds, --all or --tid, which record no calls"),
        *((["record", *args, "--min-duration", "1us"],
           "--min-duration cannot be used with --no-sleds, --all or --tid, which record no calls")
          for args in (["-a"], ["-t", "1"], ["-p", "1", "--no-sleds"])),
        (["record", "-p", "1", "--max-overhead", "100%"], "--max-overhead takes a percentage such as 5% or 0.5%, below 100%, not '100%'"),
        (["record", "-p", "1", "--max-overhead", "-1"], "--max-overhead takes a percentage such as 5% or 0.5%, below 100%, not '-1'"),
        (["record", "-p", "1", "--max-overhead", "5s"], "--max-overhead takes a percentage such as 5% or 0.5%, below 100%, not '5s'"),
        (["record", "-a", "--rotate", "0"], "--rotate takes a time such as 60s or 24h, or a size from 1M on, such as 200M, not '0'"),
        (["record", "-a", "--keep", "60s"], "--keep requires --rotate"),
        *((["record", "-p", "1", "--usdt", text], "--usdt takes PROVIDER:NAME or OBJECT:PROVIDER:NAME, such as 'python:gc__*'")
          for text in ("", "gc", ":gc", "a::b", "a:b:c:d", "a:")),
        (["record", "-t", "1", "--usdt", "a:b"], "--usdt cannot be used with --tid or --exec; use -p PID, CMD, or --all with /PATH:PROVIDER:NAME"),
        *((["record", "-a", "--usdt", text], "--usdt with --all requires the path of a binary: /PATH:PROVIDER:NAME") for text in ("a:b", "c:a:b", "/a:b")),
        (["record", "-p", "1", "--no-samples", "--usdt", "a:b"], "--usdt cannot be used with --no-samples or --dry-run: it writes to perf.data"),
        (["record", "-a", "--rotate", "60s", "--open"], "--rotate cannot be used with --dry-run or --open"),
        (["record", "-a", "--rotate", "60s", "--max-size", "1G"], "--max-size ends a recording; with --rotate, limit a part by --rotate SIZE, and all parts by --keep SIZE"),
        (["record", "-a", "--max-size", "1000"], "--max-size takes a size from 1M on, such as 500M or 20G, not '1000'"),
        (["record", "-p", "1", "--max-overhead", "5", "--call-mode", "probe"], "--max-overhead cannot be used with --call-mode probe: it requires patched sleds"),
        (["explain", "--request", "f", "--function", "f", "x"], "--request and --function cannot be used together"),
        (["export", "--format", "folded", "--request", "f", "x"], "--request requires --format html or perfetto without a selection"),
        (["export", "--format", "html", "--request", "f", "--from", "1s", "x"], "--request requires --format html or perfetto without a selection"),
        (["explain", "--tail", "1%", "--above", "1ms", "x"], "--tail and --against cannot be used with --above or --slowest"),
        (["record", "-a", "--max-overhead", "5"], "--max-overhead cannot be used with --no-sleds, --all or --tid, which record no calls"),
        (["record", "-p", "1", "--flight", "64K"], "--flight takes a power of two from 1M to 1G, such as 4M, not '64K'"),
        (["record", "-p", "1", "--trigger", "f>1ms"], "--trigger requires --flight, such as --flight 64M"),
        *((["record", "-p", "1", "--flight", "1M", "--trigger", wrong],
           f"--trigger takes a function and the time of a call, such as 'handle_request>50ms', not '{wrong}'")
          for wrong in ("f", "f>", ">1ms", "  >1ms", "f>0", "f>1 ms", "f>-1ms", "!f>1ms", "f<1ms", "f>1ms>")),
        (["record", "-p", "1", "--flight", "1M", "--min-duration", "2ms", "--trigger", "f>1ms"],
         "--trigger f>1ms: --min-duration discards calls of this duration"),
        (["record", "-p", "1", "--flight", "1M", *["--trigger=f>1ms"] * 65], "more than 64 --trigger"),
        (["record", "-p", "1", "--flight", "1M", "--trigger", "f>1ms", "--trigger-limit", "3601"], "--trigger-limit takes at most 3600"),
        (["record", "-p", "1", "--flight", "1"], "--flight takes a power of two from 1M to 1G, such as 4M, not '1'"),
        (["record", "-p", "1", "--call-mode", "both"], "--call-mode takes one of probe|patch|memory|auto, not 'both'"),
        (["restore"], "no process; give -p PID"),
        (["record", "-a", "--push-auth", "f"], "--push-auth requires --push"),
        (["record", "-a", "--label", "a=b"], "--label requires --push"),
        (["record", "-a", "--push", "parca=http://h", "--dry-run"], "--push cannot be used with --dry-run, which records nothing"),
        (["record", "-a", "-z", "--no-compression"], "--compress cannot be used with --no-compression"),
        (["record", "-p", "1", "-C", "0"], "--cpu requires --all"),
        (["record", "-p"], "option '-p' needs a value; see 'xprof help record'"),
        (["record", "--args"], "option '--args' needs a value; see 'xprof help record'"),
        (["record", "--bogus"], "unknown option '--bogus'; see 'xprof help record'"),
        (["record", "--bogus" * 50], f"unknown option '{'--bogus' * 50}'; see 'xprof help record'"),
        (["record", "--of-cpu=1ms"], "unknown option '--of-cpu'; did you mean '--off-cpu'?"),
        (["explain", "--functions", "f"], "unknown option '--functions'; did you mean '--function'?"),
        (["record", "--f"], "ambiguous option '--f'; see 'xprof help record'"),
        (["record", "-p", "no such name"], "no process has the name 'no such name'"),
        (["record", "-a", "--open", "--dry-run"], "--export and --open cannot be used with --dry-run, which records nothing"),
        (["record", "--strict=1"], "option '--strict' takes no argument"),
        (["record", "-p", "1", "-v", "-q"], "--verbose cannot be used with --quiet"),
        (["report", "--sort", "name", "x"], "--sort takes one of flat|cum|time, not 'name'"),
        (["list"], "'xprof list' needs PID|NAME|FILE...; see 'xprof help list'"),
        (["list", "-d", "1", "x"], "unknown option '-d'; see 'xprof help list'"),
        (["recover"], "'xprof recover' needs DIR...; see 'xprof help recover'"),
        (["recover", "-p", "1"], "unknown option '-p'; see 'xprof help recover'"),
        (["doctor", "1", "2"], "unexpected '2'; see 'xprof help doctor'"),
        (["version", "1"], "unexpected '1'; see 'xprof help version'"),
    ],
)
def test_usage_error(xprof, args, message):
    done = xprof(*args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert one_line(done.stderr).endswith(message)


def test_without_a_command(xprof):
    """Bare xprof fails in a script, and prints the usage on a terminal."""
    done = xprof()
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout == (GOLDEN / "help-xprof.txt").read_text()


NO_RECORDING = "there is no recording {} here; give the directory of one, or make one with 'sudo xprof record'"


@pytest.mark.parametrize("command", [["report"], ["explain"], ["export", "--format", "html"], ["view"], ["diff"]])
def test_recording_by_default(xprof, tmp_path, command):
    """
    Without a directory, commands read xprof.out. Without operands, perf diff compares perf.data.old with perf.data.
    """
    missing = ["xprof.out.old", "xprof.out"] if command == ["diff"] else ["xprof.out"]
    for name in missing:
        done = xprof(*command, cwd=tmp_path)
        assert done.returncode == 2
        assert one_line(done.stderr).endswith(NO_RECORDING.format(name))
        (tmp_path / name).mkdir()
    done = xprof(*command, cwd=tmp_path)
    assert done.returncode == 1
    assert "xprof.out" in done.stderr and "there is no recording" not in done.stderr


def test_diff_with_one_recording(xprof, tmp_path):
    assert one_line(xprof("diff", "B", cwd=tmp_path).stderr).endswith(NO_RECORDING.format("xprof.out"))


@pytest.mark.parametrize("text", ["", "0", "-1", "1,", ",1", "1,,2", "2147483648", "99999999999999999999"])
def test_bad_pid(xprof, text):
    done = xprof("record", "-p", text)
    assert done.returncode == 2
    assert "--pid takes process IDs or names separated by commas" in one_line(done.stderr)


def test_export_takes_no_names(xprof, tmp_path):
    """export accepts no process names, because the recorded processes have ended."""
    done = xprof("export", tmp_path, "--format", "html", "-p", "sleep")
    assert done.returncode == 2
    assert "--pid takes process IDs separated by commas, not 'sleep'" in one_line(done.stderr)


@pytest.fixture
def named(start, tmp_path):
    """Starts a process with a unique name, whose program is in a directory: returns (name, process)."""
    name = f"{os.getpid()}-is-longer-than-comm"

    def run(directory="."):
        (tmp_path / directory).mkdir(exist_ok=True)
        shutil.copy(shutil.which("tail"), tmp_path / directory / name)
        return name, start([tmp_path / directory / name, "-f", "/dev/null"])

    return run


def test_process_of_a_name(xprof, named):
    name, _ = named()
    for text in (name, name[:15]):  # the name of the file, and the comm, which has at most 15 bytes
        done = xprof("record", "-p", text, "--dry-run", "-o", "")
        assert done.returncode == 2 and "--output" in one_line(done.stderr)


def test_name_of_several_processes(xprof, named):
    """Candidates are listed one per line, even if a path contains a line break."""
    (name, first), (_, second) = named(), named("\x1b[31m\n9 evil")
    done = xprof("record", "-p", f"1,{name}")
    assert done.returncode == 2
    error, *found = done.stderr.splitlines()
    assert error.endswith(f"2 processes have the name '{name}'; give the PID of one:")
    assert [int(line.split()[0]) for line in found] == sorted([first.pid, second.pid])
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("text", ["", "0", "0s", "x", "10x", "s", ".", "1.", ".5", "1.2.3", "-1", "+1", " 1", "1 s", "1e3", "99999999999999999999", "5124095576030431h"])
def test_bad_duration(xprof, text):
    done = xprof("record", "-p", "1", "-d", text)
    assert done.returncode == 2
    assert "--duration takes a time such as 10s, 500ms, 5us or 2m" in one_line(done.stderr)


@pytest.mark.parametrize("text", ["", "0", "x", "5M", "4MM", "2K", "2G", "1T", "-4M", "4.0M", "18446744073709551616"])
def test_bad_buffer(xprof, text):
    done = xprof("record", "-p", "1", "--buffer", text)
    assert done.returncode == 2
    assert "--buffer takes a power of two from 4K to 1G" in one_line(done.stderr)


@pytest.mark.parametrize(
    "option, text, choices",
    [
        ("--args", "0", "1|2|3|4|5|6"),
        ("--args", "7", "1|2|3|4|5|6"),
        ("--args", "", "1|2|3|4|5|6"),
        ("--args", "1|2", "1|2|3|4|5|6"),
        ("--fdr-version", "2", "1|5"),
        ("--uprobes", "many", "auto|multi|single"),
        ("--uprobes", "mult", "auto|multi|single"),
    ],
)
def test_bad_choice(xprof, option, text, choices):
    done = xprof("record", "-p", "1", option, text)
    assert done.returncode == 2
    assert one_line(done.stderr).endswith(f"{option} takes one of {choices}, not '{text}'")


@pytest.mark.parametrize("text", ["", "x", "pprof,", ",pprof", "pprof,x", "pprof|html", "pp"])
def test_bad_list(xprof, text):
    for args in (["export", ".", "--format"], ["record", "-p", "1", "--export"]):
        done = xprof(*args, text)
        assert done.returncode == 2
        assert one_line(done.stderr).endswith(f"{args[-1]} takes a comma-separated list of pprof|folded|html|perfetto, not '{text}'")


@pytest.mark.parametrize("text", ["", "!"])
def test_bad_pattern(xprof, text):
    done = xprof("record", "-p", "1", "--functions", text)
    assert done.returncode == 2
    assert "--functions takes a pattern" in one_line(done.stderr)


def test_output_full(xprof):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = xprof("help", stdout=full)
    assert done.returncode == 1
    assert "No space left" in one_line(done.stderr)


# Completion


def complete(*words):
    """Returns bash's completions of the last word."""
    script = project.OUTPUT / "man" / "xprof.bash"
    quoted = " ".join(f"'{w}'" for w in words)
    return project.run(
        ["bash", "--norc", "-c", f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _xprof; "
         'printf "%s\\n" "${COMPREPLY[@]}"'],
        cwd=project.REPO / "tests" / "cli",
    ).stdout.split()


@pytest.mark.parametrize(
    "words, offered",
    [
        (["xprof", "re"], ["record", "report", "recover", "restore"]),
        (["xprof", "report", "--sort", ""], ["flat", "cum", "time"]),
        (["xprof", "record", "--uprobes", ""], ["auto", "multi", "single"]),
        (["xprof", "record", "--uprobes", "="], ["auto", "multi", "single"]),
        (["xprof", "record", "--uprobes", "=", "s"], ["single"]),
        (["xprof", "record", "--f"], ["--follow", "--functions", "--freq", "--flight", "--fdr-version"]),
        (["xprof", "record", "--fdr-version", ""], ["1", "5"]),
        (["xprof", "record", "-o", "gold"], ["golden"]),
        (["xprof", "record", "-o", "test_cli"], []),
        (["xprof", "list", "--s"], ["--sleds"]),
        (["xprof", "report", "test_cl"], ["test_cli.py"]),
        (["xprof", "help", "ver"], ["version"]),
        (["xprof", "v"], ["view", "version"]),
        (["xprof", "record", "--", "llvm-xr--", "test_cl"], ["test_cli.py"]),
        (["xprof", "version", ""], []),
    ],
)
def test_bash_completion(xprof, words, offered):
    assert complete(*words) == offered


def test_bash_completion_has_every_option(xprof):
    for name in COMMANDS:
        in_help = set(options_in_help(xprof, name))
        offered = set(complete("xprof", name, "--")) - {"--"}
        assert offered == in_help, name


def test_bash_completion_of_processes(xprof):
    assert "1" in complete("xprof", "record", "-p", "1")


def test_zsh_completion(xprof):
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")
    done = project.run(["zsh", "-n", project.OUTPUT / "man" / "xprof.zsh"])
    assert (done.returncode, done.stderr) == (0, "")


# Man pages

PAGES = sorted(path.stem for path in (project.REPO / "user" / "man").glob("*.in"))
# xprof(1) describes these; each other command has a page.
WITHOUT_PAGE = ["help", "version"]


def man_page(name):
    return (project.OUTPUT / "man" / name).read_text().replace("\\-", "-")


@pytest.mark.parametrize("name", PAGES)
def test_man_page_without_warnings(xprof, name):
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    done = project.run(["groff", "-man", "-Tutf8", "-ww", "-z", project.OUTPUT / "man" / name])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", PAGES)
def test_man_page_has_no_word_left_to_replace(xprof, name):
    assert not re.search(r"^@|@[A-Z]+@", man_page(name), re.M)


@pytest.mark.parametrize("name", PAGES)
def test_man_page_is_titled_by_its_name(xprof, name):
    title, section = name.rsplit(".", 1)
    page = man_page(name)
    assert f'\n.TH {title.upper()} {section} "" "xprof ' in page
    assert f"\n.SH NAME\n{title} - " in page


def test_man_pages_refer_to_pages_that_exist(xprof):
    for name in PAGES:
        text = re.sub(r"\\f.|^\.[A-Z]+ ", "", man_page(name), flags=re.M)
        for title, section in re.findall(r"\b(xprof[a-z-]*) ?\((\d)\)", text):
            assert f"{title}.{section}" in PAGES, (name, title)


def test_overview_page_has_every_command(xprof):
    page = man_page("xprof.1")
    for name in COMMANDS:
        assert f"\n\\fBxprof {name}\\fR [" in page
        assert (f"\n.BR xprof-{name} (1)." in page) == (name not in WITHOUT_PAGE)


@pytest.mark.parametrize("name", COMMANDS)
def test_man_page_has_every_option(xprof, name):
    page = man_page("xprof.1" if name in WITHOUT_PAGE else f"xprof-{name}.1")
    for option in options_in_help(xprof, name):
        assert f"{option}\\fR" in page, option


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in WITHOUT_PAGE])
def test_man_page_of_a_command_has_no_other_option(xprof, name):
    """The command accepts each option that its page lists."""
    listed = re.findall(r"^\.TP\n(?:\\fB-.\\fR, )?\\fB(--[a-z-]+)\\fR", man_page(f"xprof-{name}.1"), re.M)
    assert sorted(listed) == sorted(options_in_help(xprof, name))


# README


def test_readme_is_short():
    """The README stays short: definitions and details are in CONTRIBUTING.md and the man pages."""
    assert len((project.REPO / "README.md").read_text().splitlines()) <= 150


def test_readme_names_every_command_and_every_page():
    readme = (project.REPO / "README.md").read_text()
    for name in COMMANDS:
        assert re.search(rf"`xprof [^`]*\b{name}\b", readme), name
    for page in PAGES:
        title, section = page.rsplit(".", 1)
        assert f"{title}({section})" in readme, page


def test_links_of_the_texts_lead_to_files():
    for text in project.REPO.glob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", text.read_text()):
            assert (project.REPO / link).exists(), (text.name, link)
