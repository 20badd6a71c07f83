"""What Linux tells about processes and processors: memory and CPU time of a process group, and of the machine."""

import os
import platform
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE_FIELDS = {3, 4}  # of a cpu line: idle and iowait
_GUEST_FIELDS = {8, 9}  # already counted in user and nice


def group_members(group: int) -> list[int]:
    """Ids of the processes of a process group."""
    members = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            fields = _stat_fields(int(entry.name))
            if fields and int(fields[2]) == group:
                members.append(int(entry.name))
    return sorted(members)


def pss_mib(processes: list[int]) -> float:
    """Memory of the processes in MiB, each shared page counted once among its sharers (proportional set size)."""
    total_kib = 0
    for process in processes:
        try:
            lines = (_PROC / str(process) / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total_kib += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total_kib / 1024


def cpu_time_s(processes: list[int]) -> float:
    """CPU seconds that the processes have used, all threads."""
    ticks = 0
    for process in processes:
        fields = _stat_fields(process)
        if fields:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S


def busy_time_s() -> float:
    """CPU seconds that the machine was not idle since it started, over all cores; time stolen by its host counts."""
    fields = (_PROC / "stat").read_text().partition("\n")[0].split()[1:]
    ticks = sum(int(f) for i, f in enumerate(fields) if i not in _IDLE_FIELDS | _GUEST_FIELDS)
    return ticks / _TICKS_PER_S


def describe_hardware() -> dict[str, Any]:
    """Processor, cores, vector instructions, memory and kernel."""
    cpu = (_PROC / "cpuinfo").read_text().split("\n\n")[0]
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in cpu.splitlines())}
    memory_kib = int((_PROC / "meminfo").read_text().split()[1])
    flags = facts.get("flags", "").split()
    return {
        "cpu": facts.get("model name", platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "vector_instructions": [f for f in flags if f.startswith("avx") or f.startswith("amx") or f == "fma"],
        "cache": facts.get("cache size"),
        "memory_gib": round(memory_kib / 2**20, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _stat_fields(process: int) -> list[str]:
    """Fields of /proc/PID/stat behind the command's name, from the state on; empty if the process is gone."""
    try:
        line = (_PROC / str(process) / "stat").read_text()
    except OSError:
        return []
    return line[line.rindex(")") + 2 :].split()
