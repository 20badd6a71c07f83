"""Settings of ``serve``: case 20, one class behind flags and keys, and a line for every wrong value."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli.keys import admin_key, api_keys
from anaphora.cli.main import run
from anaphora.cli.serve import engine_config, server_settings
from anaphora.cli.serve_settings import ServeSettings, serve_settings
from anaphora.cli.settings_sources import read_config, resolve
from anaphora.engine import EngineConfig
from anaphora.errors import ConfigError
from anaphora.server.settings import DEFAULT_MAX_BODY_BYTES, DEFAULT_MAX_CHOICES

CASE = Path(__file__).parents[1] / "data" / "cases" / "20-cli-config-false-boolean"
COMMANDS = json.loads((CASE / "commands.json").read_text())
ERRORS = {
    "serve-quoted.yaml": "serve-quoted.yaml: enable-prefix-caching must be a valid boolean, got 'false'",
    "serve-typo.yaml": "unknown key 'enable-prefix-cashing': did you mean enable-prefix-caching?",
    "no-such.yaml": "cannot read the config file no-such.yaml: No such file or directory",
    "--config": "Option '--config' requires an argument",
    "--host 127.0.0.1": "option and value came as one word; write --host 127.0.0.1 without quotes",
}


def dry_run(argv: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code = run(argv)
    shown = capsys.readouterr()
    assert code == 0, shown.err
    settings: dict[str, Any] = json.loads(shown.out)
    return settings


def refusal(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(argv) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    return shown.err


@pytest.mark.parametrize("case", COMMANDS, ids=[" ".join(case["args"][2:]) for case in COMMANDS])
def test_command_line_beats_file_beats_default(
    case: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CASE)
    verb, *rest = case["args"]
    if case["args"][-1] in ERRORS:
        assert ERRORS[case["args"][-1]] in refusal([verb, "--dry-run", *rest], capsys)
        return
    settings = dry_run([verb, "--dry-run", *rest], capsys)
    expected = case["expect"] if isinstance(case["expect"], dict) else asdict(ServeSettings())
    ignored = {"model", "api_key", "admin_key", "served_model_name"}
    assert {name: settings[name] for name in expected if name not in ignored} == {
        name: value for name, value in expected.items() if name not in ignored
    }
    assert settings["model"] == "MODEL"


def test_both_switches_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--enable-prefix-caching", "--no-enable-prefix-caching"], ["--no-access-log", "--access-log"]):
        assert "exclude each other" in refusal(["serve", *argv], capsys)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--port", "99999"], "--port must be less than or equal to 65535, got '99999'"),
        (["--port", "http"], "--port must be a valid integer, got 'http'"),
        (["--max-num-seqs", "0"], "--max-num-seqs must be greater than or equal to 1, got '0'"),
        (["--gpu-memory-utilization", "1.5"], "--gpu-memory-utilization must be less than or equal to 1, got '1.5'"),
        (["--max-pinned-share", "1.5"], "--max-pinned-share must be less than or equal to 1, got '1.5'"),
        (["--kv-cache-memory-bytes", "1XiB"], "must be a number of bytes, such as 1GiB, got '1XiB'"),
        (["--dtype", "int4"], "--dtype must be 'auto', 'float32', 'bfloat16' or 'float16', got 'int4'"),
        (["--num-threads", "99999"], "--num-threads must be less than or equal to 1024, got '99999'"),
        (["--drain-seconds", "inf"], "--drain-seconds must be less than or equal to 86400, got 'inf'"),
        (["--seed", str(2**63)], f"--seed must be less than or equal to {2**63 - 1}, got '{2**63}'"),
        (["--host", ""], "--host must have at least 1 character"),
        (["--api-key", ""], "--api-key must not be empty"),
        (["--api-key-file", "/no/such/file"], "cannot read --api-key-file /no/such/file: No such file or directory"),
    ],
)
def test_a_wrong_value_is_one_line(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refusal(["serve", "--dry-run", *argv], capsys)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--eviction-policy", "oracle"], "eviction_policy 'oracle' is not known"),
        (["/no/such/model"], "/no/such/model"),
        (["--host", "no.such.host.invalid"], "--host no.such.host.invalid cannot be resolved"),
    ],
)
def test_what_cannot_be_served_is_one_line(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refusal(["serve", "--port", "0", *argv], capsys)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port: '8000'", "port must be a valid integer, got '8000'"),
        ("port: true", "port must be a valid integer, got True"),
        ("port: null", "port must be a valid integer, got None"),
        ("model: 7", "model must be a valid string, got 7"),
        ("block-size: 8\nblock_size: 8", "block_size is there twice"),
        ("port: 8000\nhost: a\nport: 9000", "the key 'port' is there twice: keep one of them"),
        ("api_key: 5", "api_key must be a string or a list of strings"),
        ("served-model-name: {a: b}", "served-model-name must be a string or a list of strings, got {'a': 'b'}"),
        ("- port", "must have keys with values"),
        ("port: [", "is not valid YAML"),
        ("config: other.yaml", "unknown key 'config'"),
        ("7: 8", "unknown key 7"),
        ("api-key: [1]", "api-key must be a valid string"),
        (b"port: \xff", "not UTF-8 text"),
    ],
)
def test_a_wrong_file_is_one_line(text: str | bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as refused:
        read_config(path)
    assert message in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_file_may_hold_every_setting(tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text(
        "model: folder\nserved_model_name: [a, b]\nmax-model-len: 4096\ngpu_memory_utilization: 0.85\n"
        "enable-prefix-caching: false\nkv_cache_memory_bytes: 1.5GiB\nmax-body-bytes: 1000\napi-key: secret\n"
        "max-pinned-share: 0.25\n"
    )
    settings = resolve({"served_model_name": ["c"]}, tmp_path / "serve.yaml")
    assert settings == ServeSettings(
        model="folder",
        served_model_name=("c",),
        max_model_len=4096,
        gpu_memory_utilization=0.85,
        enable_prefix_caching=False,
        kv_cache_memory_bytes=3 * 2**29,
        max_body_bytes=1000,
        api_key=("secret",),
        max_pinned_share=0.25,
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [("1024", 1024), ("1GiB", 2**30), ("1gib", 2**30), ("2g", 2 * 10**9), ("512 MiB", 2**29), ("3KB", 3000), ("7B", 7)],
)
def test_sizes(text: str, size: int) -> None:
    assert resolve({"kv_cache_memory_bytes": text}, None).kv_cache_memory_bytes == size


def test_every_setting_has_help_and_a_place() -> None:
    assert set(serve_settings()) == {field.name for field in fields(ServeSettings)}
    for setting in serve_settings().values():
        assert setting.flag.help.endswith(".")
        assert bool(setting.flag.metavar) == (not setting.is_switch and setting.name != "model")


def test_the_help_lists_the_choices(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert run(["serve", "--help"]) == 0
    shown = capsys.readouterr().out
    for option, choices in {
        "--dtype": "auto, float32, bfloat16, float16",
        "--device": "auto, cpu, cuda",
        "--load-format": "auto, dummy",
        "--eviction-policy": "fifo, lfu, lru, return-rate, s3fifo, slru",
        "--request-log-content": "digests, token-ids",
    }.items():
        line = next(line for line in shown.splitlines() if f"{option} " in line)
        assert f"One of: {choices}. (default: " in line
    assert shown.count("One of: ") == 5


def test_the_engines_settings_are_all_there_with_its_defaults() -> None:
    assert engine_config(ServeSettings()) == EngineConfig()
    assert {field.name for field in fields(EngineConfig)} <= set(serve_settings())


def test_the_servers_settings() -> None:
    server = server_settings(ServeSettings(), "smol")
    assert (server.max_body_bytes, server.max_choices) == (DEFAULT_MAX_BODY_BYTES, DEFAULT_MAX_CHOICES)
    assert server.served_model_names == ("smol",)
    assert server_settings(ServeSettings(model="path/to/it"), "it").served_model_names == ("path/to/it",)
    assert server_settings(ServeSettings(model="m", served_model_name=("a", "b")), "m").served_model_names == ("a", "b")


def test_keys_come_from_everywhere_and_are_never_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "keys").write_text("# ours\nfile-one\n\n  file-two  \nargument\n")
    (tmp_path / "admin").write_text("file-admin\n")
    settings = ServeSettings(api_key=("argument",), api_key_file=str(tmp_path / "keys"))
    assert api_keys(settings, {"ANAPHORA_API_KEY": "variable"}) == ("argument", "file-one", "file-two", "variable")
    assert api_keys(ServeSettings(), {"ANAPHORA_API_KEY": ""}) == ()
    from_file = ServeSettings(admin_key_file=str(tmp_path / "admin"))
    environment = {"ANAPHORA_ADMIN_KEY": "variable"}
    assert admin_key(ServeSettings(), environment) == "variable"
    assert admin_key(from_file, environment) == "file-admin"
    assert admin_key(ServeSettings(admin_key="argument", admin_key_file="x"), environment) == "argument"
    assert admin_key(ServeSettings(), {}) is None
    shown = dry_run(
        ["serve", "--dry-run", "--api-key", "s3cret", "--api-key", "s4cret", "--admin-key", "s5cret"], capsys
    )
    assert (shown["api_key"], shown["admin_key"]) == (2, True)
    assert "cret" not in json.dumps(shown)


def test_unusable_key_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "two").write_text("a\nb\n")
    with pytest.raises(ConfigError, match="has no key in it"):
        api_keys(ServeSettings(api_key_file=str(tmp_path / "empty")), {})
    with pytest.raises(ConfigError, match="must have one line, it has 2"):
        admin_key(ServeSettings(admin_key_file=str(tmp_path / "two")), {})
    with pytest.raises(ConfigError, match="--admin-key must not be empty"):
        admin_key(ServeSettings(admin_key=""), {})
