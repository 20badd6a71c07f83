"""A probe as a person sees it: what it will send, its progress, its findings, and what remains after Ctrl-C."""

import asyncio
import datetime
import json
import os
import secrets
import shlex
import signal
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from anaphora.errors import ConfigError
from anaphora.lab import environment
from anaphora.lab.command_line import words_of
from anaphora.lab.options import OURS, BenchOptions
from anaphora.lab.probe.asking import Asked
from anaphora.lab.probe.finding import Finding
from anaphora.lab.probe.probe import Probe, Watcher
from anaphora.lab.probe.report import PAGE_FILE, ProbeReport, costs_table
from anaphora.lab.probe.settings import ProbeSettings, costs
from anaphora.lab.probe.tables import label
from anaphora.lab.progress import Progress
from anaphora.lab.report.languages import language_of
from anaphora.lab.servers import describe, open_servers
from anaphora.lab.targets.openai import OpenAITarget
from anaphora.lab.targets.tokenizer import LocalTokenizer
from anaphora.report.language import table_in
from anaphora.report.output_folder import make_folder
from anaphora.report.terminal import print_table


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """``target``: whom to ask. ``other_key_env``: the variable with a second key, to see whether two keys share."""

    target: BenchOptions
    settings: ProbeSettings
    other_key_env: str | None = None

    def __post_init__(self) -> None:
        if self.other_key_env is not None and self.target.target == OURS:
            raise ConfigError("--other-api-key-env needs a server that stands: name it with --target URL")

    def command(self) -> str:
        """The command line that asks the same again."""
        other = [] if self.other_key_env is None else ["--other-api-key-env", self.other_key_env]
        return shlex.join(["anaphora", "bench", "probe", *words_of(self.settings), *words_of(self.target), *other])


def print_costs(options: ProbeOptions, console: Console) -> None:
    """The dry run."""
    settings, say = options.settings, language_of(options.target.lang).say
    print_table(table_in(costs_table(costs(settings), settings.max_tokens), say), console)


def run_probe(options: ProbeOptions, out: Path | None, *, as_json: bool) -> None:
    """Ask, write the folder, print. Ctrl-C keeps what was found and passes on."""
    language_of(options.target.lang)  # refused before anything is asked
    folder = _new_folder(out)
    console, errors = Console(), Console(stderr=True)
    session = _Session(options, folder)
    with Progress(errors) as progress:
        session.progress = progress
        try:
            asyncio.run(session.run())
        finally:
            progress.stop()
            report = session.report()
            if report is not None:
                report.write(folder)
                if not session.is_complete:
                    said = f"cut short: what was found until then is in {folder / PAGE_FILE}"
                    errors.print(Text(said), soft_wrap=True)
            elif not any(folder.iterdir()):
                folder.rmdir()
                errors.print(Text("nothing was found"))
    assert report is not None
    if as_json:
        console.print_json(json.dumps(report.as_json(with_requests=False), ensure_ascii=False))
        return
    report.print(console)
    console.print(Text(f"report: {folder / PAGE_FILE}"), soft_wrap=True)


def _new_folder(out: Path | None) -> Path:
    now = datetime.datetime.now().astimezone()
    folder = out or Path("reports") / f"{now:%Y%m%d-%H%M%S}-probe"
    make_folder(folder)
    return folder


@dataclass(slots=True)
class _Session:
    options: ProbeOptions
    folder: Path
    progress: Progress = field(init=False)
    started_at: str = ""
    is_complete: bool = False
    probe: Probe | None = None
    described: dict[str, Any] = field(default_factory=dict)

    async def run(self) -> None:
        """SIGTERM ends it as Ctrl-C does, so that no server is left behind either."""
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        self.started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        try:
            async with AsyncExitStack() as stack:
                servers = await open_servers(self.options.target, self.folder, stack, self.progress)
                await self._ask(servers["main"], stack)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    async def _ask(self, target: OpenAITarget, stack: AsyncExitStack) -> None:
        published = dict(await target.cache_settings())
        self.described = await describe(self.options.target, target, published)
        tokenizer = self.options.target.tokenizer
        self.probe = Probe(
            target,
            LocalTokenizer.of_model(tokenizer) if tokenizer else target,
            self.options.settings,
            secrets.token_hex(4),
            other=await self._other(target, stack),
            max_model_len=target.max_model_len,
            published=published,
            watcher=Watcher(self._on_step, self._on_asked, self._on_finding),
        )
        await self.probe.run()
        self.is_complete = True

    async def _other(self, target: OpenAITarget, stack: AsyncExitStack) -> OpenAITarget | None:
        name = self.options.other_key_env
        if name is None:
            return None
        if not (key := os.environ.get(name)):
            raise ConfigError(f"the environment variable {name} is not set: it should hold the second key")
        other = OpenAITarget(target.base, clock=time.monotonic_ns, api_key=key, api_key_env=name)
        stack.push_async_callback(other.close)
        await other.choose_model(target.model)
        await other.identify()
        return other

    def report(self) -> ProbeReport | None:
        """What was found until now; ``None`` if nothing was asked."""
        if self.probe is None or not self.probe.asker.log:
            return None
        return ProbeReport(
            started_at=self.started_at,
            command=self.options.command(),
            target=self.described,
            environment=environment.describe(),
            findings=self.probe.findings,
            log=self.probe.asker.log,
            num_tokens_sent=self.probe.asker.num_tokens_sent,
            num_foreign_tokens=self.probe.asker.num_foreign_tokens,
            is_complete=self.is_complete,
            language=language_of(self.options.target.lang),
        )

    def _on_step(self, name: str) -> None:
        self.progress.waiting(name.replace("_", " "))

    def _on_asked(self, asked: Asked) -> None:
        assert self.probe is not None
        sent, limit = self.probe.asker.num_tokens_sent, self.options.settings.max_tokens
        self.progress.watch(f"{asked.step.replace('_', ' ')}: {sent:,} of at most {limit:,} tokens sent")

    def _on_finding(self, finding: Finding) -> None:
        self.progress.note(f"{label(finding)}: {finding.answer}")
