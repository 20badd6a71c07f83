from hashlib import sha256

from anaphora.kvcache.block_key import ROOT_KEY, KeyKind, extend_key, namespace_key, prefix_keys
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace

BLOCKS = TokenBlocks([1, 2, 3, 4, 5], 2).full


def test_a_key_is_a_chained_digest_tagged_by_kind_and_length() -> None:
    first = sha256(ROOT_KEY + b"\x01" + b"\x08" + bytes(7) + bytes([1, 0, 0, 0, 2, 0, 0, 0])).digest()
    second = sha256(first + b"\x01" + b"\x08" + bytes(7) + bytes([3, 0, 0, 0, 4, 0, 0, 0])).digest()
    assert list(prefix_keys(Namespace(""), BLOCKS)) == [first, second]


def test_keys_never_change() -> None:
    """They stand on disks and in other processes: a change here is a new version of the root key."""
    assert ROOT_KEY.hex() == "f8e5cd035506b6df8bf893b682b3f76983b7dc4f113d307b3299df733cfde3d8"
    assert (
        list(prefix_keys(Namespace("tenant"), BLOCKS))[-1].hex()
        == "aaa417c7aa904d03b3d487b5b307b95351529e5ee9c1a64eaddbf2a3f6af3766"
    )


def test_a_salt_an_adapter_and_tokens_of_the_same_bytes_have_different_keys() -> None:
    assert len({extend_key(ROOT_KEY, kind, b"same") for kind in KeyKind}) == len(KeyKind)


def test_parts_cut_elsewhere_have_different_keys() -> None:
    ab_c = extend_key(extend_key(ROOT_KEY, KeyKind.NAMESPACE, b"ab"), KeyKind.NAMESPACE, b"c")
    a_bc = extend_key(extend_key(ROOT_KEY, KeyKind.NAMESPACE, b"a"), KeyKind.NAMESPACE, b"bc")
    assert ab_c != a_bc


def test_the_default_namespace_adds_nothing_and_any_other_does() -> None:
    assert namespace_key(ROOT_KEY, Namespace("")) == ROOT_KEY
    assert namespace_key(ROOT_KEY, Namespace("a")) == extend_key(ROOT_KEY, KeyKind.NAMESPACE, b"a")


def test_callers_may_put_weights_before_everything() -> None:
    weights = extend_key(ROOT_KEY, KeyKind.WEIGHTS, b"generation 2")
    assert not set(prefix_keys(Namespace(""), BLOCKS, weights)) & set(prefix_keys(Namespace(""), BLOCKS))
