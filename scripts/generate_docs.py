"""Write the generated parts of the documentation: room table, ledger classes, command-line help, result tables.

    python scripts/generate_docs.py            rewrite the files
    python scripts/generate_docs.py --check    exit 1 and name what is out of date

A generated part stands between ``<!-- generated:NAME -->`` and ``<!-- /generated:NAME -->``.
"""

import argparse
import ast
import importlib
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "anaphora"
sys.path.insert(0, str(ROOT))  # for the benchmarks, which render their own results


def load(name: str, path: Path) -> ModuleType:
    """A module that lies outside the package."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rooms() -> str:
    """The import table of the architecture test, with the first paragraph of each room's docstring."""
    rules = load("house_rules", ROOT / "tests" / "architecture" / "test_imports.py")
    rows = ["| room | what lives there | may import |", "| --- | --- | --- |"]
    for room, imports in rules.MAY_IMPORT.items():
        folder = SRC / room
        if not folder.is_dir():
            continue
        names = ", ".join(f"`{i}`" for i in sorted(imports)) or "–"
        rows.append(f"| `{room}/` | {_what_lives_in(folder)} | {names} |")
    return "\n".join(rows)


def inner_rooms() -> str:
    """Every package within a room, with the first paragraph of its docstring."""
    rows = ["| room | what lives there |", "| --- | --- |"]
    for path in sorted(SRC.glob("*/*/__init__.py")):
        rows.append(f"| `{path.parent.relative_to(SRC)}/` | {_what_lives_in(path.parent)} |")
    return "\n".join(rows)


def _what_lives_in(folder: Path) -> str:
    doc = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
    assert doc, f"{folder.relative_to(ROOT)}/__init__.py does not say what lives there"
    return " ".join(doc.split("\n\n")[0].replace("``", "`").split())


def ledger() -> str:
    """The classes of :class:`anaphora.kvcache.ledger.Reason`, from the docstrings beside them."""
    tree = ast.parse((SRC / "kvcache" / "ledger.py").read_text("utf-8"))
    reason = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Reason")
    rows, names = ["| class | rule |", "| --- | --- |"], list[str]()
    for node in reason.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names.append(str(node.value.value))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and names:
            rule = " ".join(str(node.value.value).replace("``", "`").split())
            rows.append(f"| {', '.join(f'`{n}`' for n in names)} | {rule} |")
            names = []
    return "\n".join(rows)


def first_light() -> dict[str, Any]:
    """The kept run of ``make bench`` that the front page quotes."""
    text = (ROOT / "benchmarks" / "results" / "first-light" / "results.json").read_text("utf-8")
    return dict[str, Any](json.loads(text))


HEADLINE = {
    "en": "With {tokens:,.0f} prompt tokens the first token came after **{on:.0f} ms** instead of {off:.0f} ms "
    "({reduction:.1f} % less); per 1000 tokens the wait grew by {on_slope:.1f} ms instead of {off_slope:.0f} ms. "
    "SmolLM2-135M-Instruct, float32, {num_cpus} cores of {processor}; `anaphora bench all`, run of {date}, kept under "
    "[benchmarks/results/first-light](benchmarks/results/first-light).",
    "zh": "prompt 为 {tokens:.0f} token 时,首个 token 用了 **{on:.0f} ms**,而不是 {off:.0f} ms(减少 {reduction:.1f} %);"
    "每 1000 个 token 只多等 {on_slope:.1f} ms,而不是 {off_slope:.0f} ms。"
    "SmolLM2-135M-Instruct,float32,{processor} 的 {num_cpus} 个核;"
    "`anaphora bench all`,{date} 的一次运行,保存在 [benchmarks/results/first-light](benchmarks/results/first-light)。",
}


def headline(language: str) -> str:
    """The longest prefix of the kept gradient experiment, in one sentence with its hardware."""
    results = first_light()
    gradient, environment = results["experiments"]["gradient"], results["environment"]
    longest = max(gradient["rows"], key=lambda row: row["prompt_tokens"])
    text = HEADLINE[language].format(
        tokens=longest["prompt_tokens"],
        on=longest["on_ttft_ms"],
        off=longest["off_ttft_ms"],
        reduction=longest["reduction_percent"],
        on_slope=gradient["fit"]["on"]["slope_ms_per_ktoken"],
        off_slope=gradient["fit"]["off"]["slope_ms_per_ktoken"],
        num_cpus=environment["num_cpus"],
        processor=environment["processor"],
        date=results["run"]["started_at"][:10],
    )
    return text.translate(str.maketrans(",;()", ",;()")) if language == "zh" else text


GPU_ROWS = "docs/performance.md#gpu-ours-and-vllm-on-one-h200"
GPU_HEADLINE = {
    "en": (
        "On one NVIDIA H200, with Qwen2.5-7B's sizes in bfloat16 (random weights), a prompt of 30,000 tokens of which "
        "all but the question is cached had its first token after **{ours:.1f} ms**; in the same run vLLM took "
        "{rust:.1f} ms with its Rust front end and {default:.0f} ms as it is started by default "
        "([all rows, the missed ones too]({rows}))."
    ),
    "zh": (
        "在一块 NVIDIA H200 上（Qwen2.5-7B 的尺寸，bfloat16，随机权重），"
        "一个 30,000 token、除问题外全部命中缓存的 prompt，首个 token 用了 **{ours:.1f} ms**；"
        "同一次运行里，vLLM 用 Rust 前端为 {rust:.1f} ms，默认启动方式为 {default:.0f} ms"
        "（[全部数据，包括未达标的]({rows})）。"
    ),
}


def gpu_headline(language: str) -> str:
    """The longest hit of the kept comparison on a GPU, in one sentence."""
    rows = json.loads((ROOT / "benchmarks" / "results" / "h200" / "summary.json").read_text("utf-8"))["rows"]
    row = next(row for row in rows if row["name"] == "hit, 30000 tokens")
    figures = {"ours": row["ours"], "rust": row["vllm_rust"], "default": row["vllm_default"]}
    return GPU_HEADLINE[language].format(**figures, rows=GPU_ROWS)


def cpu_table() -> str:
    """The CPU comparison as the benchmark rendered it from its raw samples."""
    text = (ROOT / "benchmarks" / "results" / "cpu" / "table.md").read_text("utf-8").strip()
    _, _, body = text.partition("do not edit.\n\n")
    return body.replace("\n## ", "\n### ")


def cache_table(name: str) -> str:
    """What ``benchmarks/cache/evidence_tables.py`` made of one kept result."""
    return (ROOT / "benchmarks" / "results" / "cache" / f"{name}.md").read_text("utf-8").strip()


def simulate_validation() -> str:
    """Measured and simulated first-token times, as the benchmark wrote them."""
    return (ROOT / "benchmarks" / "results" / "sim" / "table.md").read_text("utf-8").strip()


def simulate_speed() -> str:
    """What simulations take, as the benchmark wrote it."""
    return (ROOT / "benchmarks" / "results" / "sim" / "speed.md").read_text("utf-8").strip()


def few_rows() -> str:
    """Decode steps of a few requests as they are and padded, with one thread and with two."""
    lines = [
        "| requests at once | one thread: as they are, ms | padded | two threads: as they are, ms | padded |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    folder = ROOT / "benchmarks" / "results" / "cpu"
    kept = [json.loads((folder / f"few_rows_{name}.json").read_text("utf-8")) for name in ("one_thread", "two_threads")]
    samples = [one["samples_ms"][arm] for one in kept for arm in ("plain", "padded")]
    for number in samples[0]:
        cells = [f"{statistics.median(of_arm[number]):.1f}" for of_arm in samples]
        lines.append(f"| {number} | {' | '.join(cells)} |")
    return "\n".join([f"{kept[0]['hardware']['cpu']}, {kept[0]['hardware']['cores']} cores.", "", *lines])


def idle() -> str:
    """First-token times of servers that were idle, as the benchmark wrote them."""
    return (ROOT / "benchmarks" / "results" / "sim" / "idle.md").read_text("utf-8").strip()


def cpu_second_table() -> str:
    """The aims by a run of the same comparison on another machine."""
    path = ROOT / "benchmarks" / "results" / "cpu" / "2026-11-29T221732" / "table.md"
    _, _, body = path.read_text("utf-8").partition("do not edit.\n\n")
    return body.partition("\n## Also measured")[0].replace("## Aims\n\n", "").strip()


def gpu_table() -> str:
    """The GPU comparison, as its own program renders it."""
    return (ROOT / "benchmarks" / "results" / "h200" / "table.md").read_text("utf-8").strip()


def command_line() -> str:
    """Help of every verb, as the terminal shows it at 100 columns without colour."""
    env = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "_TYPER_FORCE_DISABLE_TERMINAL": "1"}
    parts = []
    for verb in (
        "",
        "serve",
        "bench load",
        "bench switch",
        "bench gradient",
        "bench costs",
        "bench scenarios",
        "bench prompts",
        "bench probe",
        "bench all",
        "fit",
        "report",
        "simulate",
        "plan",
        "fetch",
        "profile",
        "profile add",
    ):
        command = ["-m", "anaphora", *verb.split(), "--help"]
        shown = subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, check=True).stdout
        clean = "\n".join(line.rstrip() for line in shown.strip().splitlines())
        title = " ".join(("anaphora", *verb.split()))
        parts.append(f"## `{title}`\n\n```text\n{clean}\n```")
    return "\n\n".join(parts)


def dialects() -> str:
    """The dialect table of the lab, from its rows."""
    from anaphora.lab.dialects import DIALECTS

    rows = [
        "| `--kind` | server | evidence | cache counters, newest first | reset | `cache_salt` |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    salts = {True: "yes", False: "no", None: "unknown"}
    for row in DIALECTS:
        families = ", ".join(f"`{name}`" for name in dict.fromkeys(family.name for family in row.families)) or "none"
        if row.name == "generic":
            families = "all of the above"
        reset = "–" if row.reset is None else f"`POST {row.reset.path}`; needs {row.reset.needs}"
        cells = (f"`{row.name}`", row.title, row.evidence.value, families, reset, salts[row.takes_salt])
        rows.append(f"| {' | '.join(cells)} |")
    notes = [f"- **{row.title}**: {row.notes}" for row in DIALECTS if row.notes]
    return "\n".join([*rows, "", *notes])


def usage_shapes() -> str:
    """Where answers tell their token counts, from the lab's table."""
    from anaphora.lab.dialects.usage_shapes import USAGE_SHAPES

    rows = ["| shape | prompt tokens | from the cache | written into it |", "| --- | --- | --- | --- |"]
    for shape in USAGE_SHAPES:
        prompt, cached, written = (
            ", else ".join(f"`{'.'.join(path)}`" for path in paths) or "–"
            for paths in (shape.prompt, shape.cached, shape.written)
        )
        added = " + cached + written" if shape.rest else ""
        rows.append(f"| {shape.name} | {prompt}{added} | {cached} | {written} |")
    return "\n".join(rows)


PARTS: dict[str, Callable[[], str]] = {
    "dialects": dialects,
    "usage_shapes": usage_shapes,
    "rooms": rooms,
    "inner_rooms": inner_rooms,
    "ledger": ledger,
    "headline": partial(headline, "en"),
    "headline_zh": partial(headline, "zh"),
    "headline_gpu": partial(gpu_headline, "en"),
    "headline_gpu_zh": partial(gpu_headline, "zh"),
    "cpu": cpu_table,
    "cpu_second": cpu_second_table,
    "gpu": gpu_table,
    "cli": command_line,
    **{name: partial(cache_table, name) for name in ("core", "against_vllm", "radix", "timing_attack", "soak")},
    **importlib.import_module("benchmarks.cache.tables").TABLES,
    **importlib.import_module("benchmarks.serving.tables").TABLES,
    **importlib.import_module("benchmarks.lab.tables").TABLES,
    **importlib.import_module("benchmarks.gpu.tables").TABLES,
    "simulate_validation": simulate_validation,
    "simulate_speed": simulate_speed,
    "few_rows": few_rows,
    "idle": idle,
}
PAGES = [
    "README.md",
    "README.zh-CN.md",
    "docs/architecture.md",
    "docs/cli.md",
    "docs/servers.md",
    "docs/performance.md",
    "docs/policies.md",
    "docs/simulate.md",
]


def render(text: str) -> str:
    """The page with every generated part made anew."""

    def fill(match: re.Match[str]) -> str:
        name = match["name"]
        return f"<!-- generated:{name} -->\n{PARTS[name]()}\n<!-- /generated:{name} -->"

    return re.sub(r"<!-- generated:(?P<name>\w+) -->.*?<!-- /generated:(?P=name) -->", fill, text, flags=re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a page is out of date")
    check = parser.parse_args().check
    stale = []
    for page in (ROOT / name for name in PAGES):
        if not page.exists():
            continue
        before = page.read_text("utf-8")
        after = render(before)
        if before != after:
            stale.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(after, "utf-8")
    print(json.dumps({"stale" if check else "rewritten": stale}))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
