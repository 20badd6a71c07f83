"""Profiles: what is written is read again, what is wrong is told in a line, and no key is ever in one."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import ConfigError
from anaphora.lab.money import Prices
from anaphora.lab.profiles.endpoint import endpoint_of
from anaphora.lab.profiles.presets import PRESETS
from anaphora.lab.profiles.profile import Profile
from anaphora.lab.profiles.store import ProfileStore, config_folder

CLOUD = Profile(
    name="cloud",
    base_url="https://api.example/v1",
    api_key_env="CLOUD_KEY",
    model="gpt",
    kind="openai",
    headers={"X-Team": "blue", "X-Gateway": "$GATEWAY_KEY"},
    prices=Prices(input=0.15, cached=0.075, output=0.6, currency="EUR"),
)


def test_what_is_written_is_read_again_and_is_its_owners_alone(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path / "config" / "anaphora")
    assert store.own() == {}
    store.add(CLOUD)
    store.add(Profile(name="near.by-2", base_url="127.0.0.1:8000"))
    assert ProfileStore(store.path.parent).own() == {
        "cloud": CLOUD,
        "near.by-2": Profile(name="near.by-2", base_url="127.0.0.1:8000"),
    }
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert set(store.all()) == {*PRESETS, "cloud", "near.by-2"}
    store.remove("cloud")
    assert set(store.own()) == {"near.by-2"}
    assert [path.name for path in store.path.parent.iterdir()] == ["profiles.toml"]


text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
printable = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20)


@given(model=text, value=printable)
def test_every_text_survives_the_file(model: str, value: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    profile = Profile(name="p", base_url="http://h", model=model, headers={"X-A": value})
    store = ProfileStore(tmp_path_factory.mktemp("profiles"))
    store.add(profile)
    assert store.own() == {"p": profile}


def test_one_that_is_there_is_only_replaced_when_that_is_asked_for(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.add(CLOUD)
    other = Profile(name="cloud", base_url="http://h")
    with pytest.raises(ConfigError, match="there is a profile cloud already: remove it first, or add --replace"):
        store.add(other)
    store.add(other, replace=True)
    assert store.own() == {"cloud": other}
    with pytest.raises(ConfigError, match=r"has no profile 'taotoken' \(it is a preset"):
        store.remove("taotoken")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("not toml", "is no TOML"),
        ("base_url = 'http://h'", "'base_url' stands outside of a profile"),
        ("[a]\nmodel = 'm'", "profile a: base_url is missing"),
        ("[a]\nbase_url = 'http://h'\napi_key = 'sk-1'", "profile a: unknown key 'api_key'; there are base_url"),
        ("[a]\nbase_url = 7", "profile a: base_url must be a text"),
        ("[a]\nbase_url = 'http://h'\nprices = 3", "profile a: prices must be a table"),
        ("[a]\nbase_url = 'http://h'\n[a.prices]\ninput = 1", "profile a: prices takes input and output"),
        (
            "[a]\nbase_url = 'http://h'\n[a.prices]\ninput = true\noutput = 1",
            "profile a: prices takes input and output",
        ),
        ("[a]\nbase_url = 'ftp://h'", "is no base URL"),
        ("[a]\nbase_url = 'http://h'\nkind = 'vlm'", "did you mean vllm"),
        ("[ours]\nbase_url = 'http://h'", "'ours' cannot name a profile"),
        ("[a]\nbase_url = 'http://h'\n[a.headers]\nHost = 'x'", "'Host' cannot be a further header"),
        ('[a]\nbase_url = "http://h"\n[a.headers]\nX-A = "a\\r\\nX-B: b"', "no HTTP header can carry"),
    ],
)
def test_what_is_wrong_in_the_file_is_told(content: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "profiles.toml").write_text(content, "utf-8")
    with pytest.raises(ConfigError, match=problem.replace("(", r"\(")):
        ProfileStore(tmp_path).own()
    with pytest.raises(ConfigError) as told:
        ProfileStore(tmp_path).own()
    assert str(tmp_path / "profiles.toml") in str(told.value)
    if content.startswith("["):  # of many profiles, the one that is wrong
        assert f"profile {content[1 : content.index(']')]}: " in str(told.value)


def test_a_key_in_the_place_of_a_variables_name_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigError, match="name of an environment variable is wanted, not the key itself") as error:
        Profile(name="a", base_url="http://h", api_key_env="sk-abc-123-secret")
    assert "abc" not in str(error.value)


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert config_folder({}) == Path("/home/ann/.config/anaphora")
    assert config_folder({"XDG_CONFIG_HOME": "/x"}) == Path("/x/anaphora")
    assert config_folder({"XDG_CONFIG_HOME": "/x", "ANAPHORA_CONFIG": "~/own"}) == Path("/home/ann/own")


def test_a_target_is_a_profile_a_preset_or_a_url(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.add(CLOUD)
    environment = {"CLOUD_KEY": " sk-cloud-key \n", "GATEWAY_KEY": "gate-secret", "TAOTOKEN_API_KEY": "sk-tao-key-1"}
    cloud = endpoint_of("cloud", store=store, environment=environment)
    assert (cloud.base.api_url, cloud.api_key, cloud.model) == ("https://api.example/v1", "sk-cloud-key", "gpt")
    assert cloud.headers == {"X-Team": "blue", "X-Gateway": "gate-secret"}
    assert cloud.dialect is not None
    assert (cloud.dialect.name, cloud.prices, cloud.profile) == ("openai", CLOUD.prices, "cloud")
    for secret in ("sk-cloud", "gate-secret"):
        assert secret not in repr(cloud)
    said = endpoint_of("cloud", model="other", kind="vllm", store=store, environment=environment)
    assert said.dialect is not None
    assert (said.model, said.dialect.name) == ("other", "vllm")

    tao = endpoint_of("taotoken", store=store, environment=environment)
    assert (tao.base.api_url, tao.api_key) == ("https://taotoken.net/api/v1", "sk-tao-key-1")
    moved = endpoint_of("taotoken", store=store, environment={**environment, "TAOTOKEN_BASE_URL": "http://h:1/api/v1"})
    assert moved.base.api_url == "http://h:1/api/v1"

    for url in ("http://h:8000", "h:8000", "h.example", "localhost"):
        plain = endpoint_of(url, store=store, environment={})
        assert (plain.profile, plain.api_key, plain.prices) == (None, None, None)
    with pytest.raises(ConfigError, match="no profile is called 'clowd': did you mean cloud"):
        endpoint_of("clowd", store=store, environment=environment)
    with pytest.raises(ConfigError, match="environment variable CLOUD_KEY is not set"):
        endpoint_of("cloud", store=store, environment={})
    for empty in ("", "  \n"):
        with pytest.raises(ConfigError, match="environment variable CLOUD_KEY is empty: it should hold the key"):
            endpoint_of("cloud", store=store, environment={**environment, "CLOUD_KEY": empty})
