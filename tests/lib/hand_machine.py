# SPDX-License-Identifier: BSD-2-Clause
"""A hand-made recording of many processes: each has samples in a function of its program and in the kernel."""
import json

import hand_made

# (comm, PID, cgroup, samples in a user function, samples in the kernel)
PROCESSES = [
    ("cc1", 100, "/build.slice", 40, 10), ("cc1", 101, "/build.slice", 30, 0), ("server", 102, "/pod/server", 8, 2),
    *(("sh", 200 + i, "/build.slice", 0, 1) for i in range(9)), ("gone", 300, None, 1, 0),
]
WORK, SYSCALL = 0x1010, 0x8010
MAPS = "1000-2000 r-xp 00000000 00:00 0 /bin/{}\n8000-9000 r-xp 00000000 00:00 0 {}/sym/kernel.1.x.so\n"


def make(directory, processes=PROCESSES, **said):
    (directory / "sym").mkdir(exist_ok=True)
    entries = []
    for comm, pid, cgroup, user, kernel in processes:
        name = f"{comm}.{pid}.prof"
        records = [(count, [pc]) for count, pc in ((user, WORK), (kernel, SYSCALL)) if count]
        (directory / name).write_bytes(hand_made.profile(records, MAPS.format(comm, directory)))
        entries.append({"pid": pid, "image": 1, "comm": comm, "file": name, "samples": user + kernel, **({"cgroup": cgroup} if cgroup else {})})
    total = sum(user + kernel for *_, user, kernel in processes)
    (directory / "manifest.json").write_text(json.dumps({
        "manifest_version": 1, "started": "2026-01-02T03:04:05.000000006Z", "duration_s": 1.0,
        "samples": {"seen": total, "written": total, "lost": 0, "period_ns": 10000000, **said, "profiles": entries}}))
    return directory
