"""The rendered text equals that of transformers, whose conventions the templates are written for."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import transformers
from tests.models_for_tests import write_tiny_tokenizer
from tests.tokenizer import templates_for_tests as templates

from anaphora.errors import ChatTemplateError, CheckpointError
from anaphora.tokenizer import Tokenizer, why_no_chats

Pair = Callable[[str], tuple[Tokenizer, Any]]

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "search<web>",
            "description": 'find "things" & t\u00e9l\u00e9',
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}},
        },
    },
    {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}},
]
CALL = {"id": "call00001", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": "x<y"}}}

CHATS: dict[str, list[dict[str, Any]]] = {
    "one": [{"role": "user", "content": "Hi  there \n"}],
    "system": [
        {"role": "system", "content": "  Be brief.\n"},
        {"role": "user", "content": "What is 1+1? \u4f60\u597d <|im_end|> {{ 7*7 }} {% if %}"},
        {"role": "assistant", "content": " Two. "},
        {"role": "user", "content": "And 2+2?"},
    ],
    "tools": [
        {"role": "user", "content": "Add."},
        {"role": "assistant", "content": "", "tool_calls": [CALL], "refusal": None},
        {"role": "tool", "content": '{"sum": 3}', "tool_call_id": "call00001"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nThree."},
        {"role": "user", "content": "Thanks."},
    ],
    "empty content": [{"role": "user", "content": ""}, {"role": "assistant", "content": "."}],
}


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Pair:
    """Ours and theirs, by name; each is loaded once."""

    @cache
    def pair(name: str) -> tuple[Tokenizer, Any]:
        if name in ("tiny", "qwen", "smollm"):
            tokenizer, folder = request.getfixturevalue(name), request.getfixturevalue(f"{name}_folder")
        else:
            folder = tmp_path_factory.mktemp(name)
            write_tiny_tokenizer(folder)
            (folder / "chat_template.jinja").write_text(getattr(templates, name.upper()), "utf-8")
            tokenizer = Tokenizer.from_folder(folder)
        return tokenizer, transformers.AutoTokenizer.from_pretrained(folder)

    return pair


NAMES = ["tiny", "qwen", pytest.param("smollm", marks=pytest.mark.real_model), "llama3", "mistral", "everything"]


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("name", NAMES)
def test_equal_to_transformers(pair: Pair, name: str, chat: str) -> None:
    ours, theirs = pair(name)
    for tools in (None, TOOLS):
        for add_generation_prompt in (True, False):
            options: dict[str, Any] = {"tools": tools, "add_generation_prompt": add_generation_prompt}
            text = ours.apply_chat_template(CHATS[chat], **options)
            assert text == theirs.apply_chat_template(CHATS[chat], tokenize=False, **options)
            assert ours.encode_chat(CHATS[chat], **options) == theirs.apply_chat_template(
                CHATS[chat], return_dict=False, **options
            )


def test_further_variables(pair: Pair) -> None:
    ours, theirs = pair("qwen")
    off = ours.apply_chat_template(CHATS["one"], enable_thinking=False)
    assert off == theirs.apply_chat_template(
        CHATS["one"], tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    assert off != ours.apply_chat_template(CHATS["one"])
    assert "Today: 1 May" in pair("llama3")[0].apply_chat_template(CHATS["one"], date_string="1 May")


def write(folder: Path, **config: Any) -> Path:
    write_tiny_tokenizer(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def render(folder: Path, messages: Any = None, **options: Any) -> str:
    return Tokenizer.from_folder(folder).apply_chat_template(messages or [{"role": "user", "content": "x"}], **options)


class TestWhereItStands:
    def test_nowhere(self, tmp_path: Path) -> None:
        assert not Tokenizer.from_folder(write(tmp_path)).has_chat_template

    def test_a_file_of_its_own_wins(self, tmp_path: Path) -> None:
        write(tmp_path, chat_template="config")
        assert render(tmp_path) == "config"
        (tmp_path / "chat_template.jinja").write_text("file")
        assert render(tmp_path) == "file"

    def test_several_by_name(self, tmp_path: Path) -> None:
        named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "with tools"}]
        write(tmp_path, chat_template=named)
        assert render(tmp_path) == "plain"
        assert render(tmp_path, tools=TOOLS) == "with tools"
        (tmp_path / "additional_chat_templates").mkdir()
        (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("from a file")
        assert render(tmp_path, tools=TOOLS) == "from a file"

    def test_several_and_none_for_this(self, tmp_path: Path) -> None:
        write(tmp_path, chat_template=[{"name": "rag", "template": "x"}])
        with pytest.raises(ChatTemplateError, match=r"have no default: \['rag'\]"):
            render(tmp_path)

    @pytest.mark.parametrize(
        ("template", "reason"),
        [
            (None, "it has no chat template"),
            (5, "it has no chat template"),
            ([5, {"name": 5, "template": "x"}, {"name": "default", "template": 5}], "it has no chat template"),
            ([{"name": "rag", "template": "x"}], "it has no chat template named default, only rag"),
            ("{% for %}", "the chat template failed: Expected an expression"),
            ("{{ messages[0].content }}", None),
        ],
    )
    def test_whether_there_can_be_chats(self, tmp_path: Path, template: Any, reason: str | None) -> None:
        folder = write(tmp_path, **({} if template is None else {"chat_template": template}))
        found = why_no_chats(folder)
        assert found == reason or (reason is not None and (found or "").startswith(reason))
        if reason is None:
            assert render(folder) == "x"
        else:
            with pytest.raises(ChatTemplateError):
                render(folder)

    @pytest.mark.parametrize("name", ["chat_template.jinja", "additional_chat_templates/tool_use.jinja"])
    def test_a_file_that_is_no_text(self, tmp_path: Path, name: str) -> None:
        file = write(tmp_path, chat_template="x") / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(CheckpointError, match=f"cannot read .*{file.name}: not UTF-8 text"):
            render(tmp_path)


class TestRefusals:
    def test_what_the_template_says(self, tmp_path: Path) -> None:
        write(tmp_path, chat_template="{{ raise_exception('system\n  comes first') }}")
        with pytest.raises(ChatTemplateError, match=r"^the chat template failed: system comes first$") as caught:
            render(tmp_path)
        assert caught.value.param == "messages"

    def test_a_template_that_cannot_be_compiled_spoils_chats_only(self, tmp_path: Path) -> None:
        tokenizer = Tokenizer.from_folder(write(tmp_path, chat_template="{% for %}"))
        assert tokenizer.decode(tokenizer.encode("x")) == "x"
        with pytest.raises(ChatTemplateError, match="the chat template failed: Expected an expression"):
            tokenizer.encode_chat([{"role": "user", "content": "x"}])

    @pytest.mark.parametrize("name", ["messages", "tools", "add_generation_prompt"])
    def test_variables_that_have_a_meaning(self, tmp_path: Path, name: str) -> None:
        template = Tokenizer.from_folder(write(tmp_path, chat_template="x"))._chat_template
        assert template is not None
        with pytest.raises(ChatTemplateError, match=f"{name} cannot be given"):
            template.render([], tools=None, add_generation_prompt=True, extra={name: 1})

    @pytest.mark.parametrize("messages", [["x"], [{"role": "user", "content": object()}], [{"role": b"user"}]])
    def test_what_is_no_json(self, tmp_path: Path, messages: Any) -> None:
        with pytest.raises(ChatTemplateError, match=r"must be an object|JSON values only"):
            render(write(tmp_path, chat_template="x"), messages)

    def test_nesting_without_end(self, tmp_path: Path) -> None:
        deep: Any = "x"
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(ChatTemplateError, match="nested too deeply"):
            render(write(tmp_path, chat_template="x"), [{"role": "user", "content": deep}])


def test_the_callers_messages_are_not_touched(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": ["a"], "name": None}]
    write(tmp_path, chat_template="{% for m in messages %}{{ m.name is defined }}{{ m.content }}{% endfor %}")
    assert render(tmp_path, messages) == "False['a']"
    assert messages == [{"role": "user", "content": ["a"], "name": None}]


def test_the_date(tmp_path: Path) -> None:
    text = render(write(tmp_path, chat_template="{{ strftime_now('%Y') }}"))
    assert text.isdigit()
    assert len(text) == 4
