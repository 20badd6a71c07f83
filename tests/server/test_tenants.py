"""Names of tenants tell them apart, and tell nothing else."""

import pytest

from anaphora.errors import RequestError
from anaphora.server.access import Access, namespace_of
from anaphora.server.settings import ServerSettings
from anaphora.server.tenants import Tenants
from anaphora.types import Namespace

KEYS = Access(ServerSettings(served_model_names=("demo",), api_keys=("one", "two"))).key_digests


@pytest.mark.parametrize("salt", ["s", "a;b", "key:1:x;salt:1:y", "ü"])
def test_a_salt_adds_a_digest_that_lasts_until_the_end(salt: str) -> None:
    for tenants, key, base in ((Tenants(()), None, "default"), (Tenants(KEYS), KEYS[1], "key-2")):
        plain, salted, other = (namespace_of(key, given) for given in (None, salt, salt + "!"))
        assert tenants.name(plain) == base
        name = tenants.name(salted)
        assert name.startswith(f"{base}:salt-")
        assert len(name) == len(base) + 6 + 16
        assert name == tenants.name(salted) != tenants.name(other)
        assert tenants.find(name, [plain, other, salted]) == salted
        assert tenants.find(name, [plain, other]) is None
    assert Tenants(()).name(Namespace(f"salt:1:{salt}")) != Tenants(()).name(Namespace(f"salt:1:{salt}"))


def test_a_key_is_named_by_its_place() -> None:
    tenants = Tenants(KEYS)
    assert [tenants.namespace(f"key-{n}", None) for n in (1, 2)] == [namespace_of(key, None) for key in KEYS]
    assert tenants.namespace("key-1", "s") == namespace_of(KEYS[0], "s")
    assert Tenants(()).namespace(None, "s") == Tenants(()).namespace("default", "s") == namespace_of(None, "s")


@pytest.mark.parametrize(
    ("keys", "name", "message"),
    [
        (KEYS, None, "^say whose: tenant must be key-1 to key-2$"),
        (KEYS, "default", r"^tenant must be key-1 to key-2 \(a salt goes into cache_salt\)$"),
        (KEYS[:1], "key-2", "^tenant must be key-1 "),
        ((), "key-1", "^tenant must be default "),
    ],
)
def test_a_tenant_that_is_not_there_is_refused(keys: tuple[bytes, ...], name: str | None, message: str) -> None:
    with pytest.raises(RequestError, match=message) as refused:
        Tenants(keys).namespace(name, None)
    assert refused.value.param == "tenant"
