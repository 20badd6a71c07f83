"""Settings of clients, as people paste them: all three there, or which is lacking."""

from pathlib import Path

import pytest

from anaphora.cli.main import run
from anaphora.errors import ConfigError
from anaphora.lab.doctor.check import Status
from anaphora.lab.doctor.client_config import check_client_config

COMPLETE = {
    "flat.json": '{"base_url": "https://h/api", "api_key": "sk-secret", "model": "m"}',
    "nested.json": '{"env": {"ANTHROPIC_BASE_URL": "https://h", "ANTHROPIC_AUTH_TOKEN": "sk-secret"}, "model": "m"}',
    "camel.json": '{"providers": [{"baseURL": "https://h/v1", "apiKey": "sk-secret", "modelId": "m"}]}',
    "codex.toml": 'model = "m"\n[model_providers.x]\nbase_url = "https://h/v1"\nenv_key = "SOME_KEY"\n',
    "list.yaml": "models:\n  - apiBase: https://h/v1\n    apiKey: sk-secret\n    model: m\n",
    ".env": "# mine\nexport OPENAI_BASE_URL=https://h/v1\nOPENAI_API_KEY='sk-secret'\nOPENAI_MODEL=m\n",
}


@pytest.mark.parametrize("name", COMPLETE)
def test_complete_settings(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(COMPLETE[name])
    check = check_client_config(tmp_path / name)
    assert (check.status, check.seen) == (Status.OK, "base URL, key and model are all there")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ('{"api_key": "sk-secret", "model": "m"}', "the file names key and model, and lacks base URL"),
        ('{"api_key": "sk-secret"}', "the file names key, and lacks base URL and model"),
        ('{"base_url": "", "api_key": null}', "none of base URL, key and model, and lacks base URL and key and model"),
    ],
)
def test_what_is_lacking_is_named_and_no_value_is_shown(text: str, seen: str, tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text(text)
    check = check_client_config(tmp_path / "auth.json")
    assert check.status is Status.FAULT
    assert seen in check.seen
    assert "log-in fails" in check.fix
    assert "secret" not in check.seen + check.fix


@pytest.mark.parametrize("content", [b"just some words", b"\xff\xfe\x00", b""])
def test_what_holds_no_settings(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"notes.txt"):
        check_client_config(path)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "auth.json"
    path.write_text('{"api_key": "sk-secret", "model": "m"}')
    assert run(["doctor", "--client-config", str(path)]) == 1
    assert "lacks base URL" in " ".join(capsys.readouterr().out.split())
    assert run(["doctor", "--client-config", str(tmp_path / "none.json")]) == 2
    assert "cannot read" in capsys.readouterr().err
