"""Two plain caches that differ in one rule: what becomes of a block whose content another block holds already.

Lists and dictionaries, without regard to speed. ``KeepsDuplicates`` says in plain words what vLLM does, ``StoresOnce``
what ours does. Where both agree with the real ones on every operation, the rule in which they differ is the whole
difference between the two.
"""

from benchmarks.cache.schedules import BLOCK_SIZE

Key = tuple[str, tuple[int, ...]]
"""A salt and all tokens of a prefix that ends at a block border."""


class _Table:
    def __init__(self, salt: str, tokens: list[int], found: list[int]) -> None:
        self.salt = salt
        self.tokens = tokens
        self.blocks = found
        self.num_entered = len(found)

    def key(self, position: int) -> Key:
        return self.salt, tuple(self.tokens[: (position + 1) * BLOCK_SIZE])


class PlainCache:
    """Blocks in a queue: the first is taken next. A freed block goes to the end if it is cached, else in front."""

    def __init__(self, num_blocks: int) -> None:
        self._queue = list(range(num_blocks))
        self._num_holders = [0] * num_blocks
        self._keys: dict[int, Key] = {}
        self._blocks: dict[Key, list[int]] = {}
        self._tables: dict[str, _Table] = {}

    def lookup(self, name: str, salt: str, tokens: list[int]) -> int:
        table = _Table(salt, tokens, [])
        for position in range((len(tokens) - 1) // BLOCK_SIZE):
            same = self._blocks.get(table.key(position))
            if not same:
                break
            table.blocks.append(same[0])
        table.num_entered = len(table.blocks)
        self._tables[name] = table
        return len(table.blocks) * BLOCK_SIZE

    def admit(self, name: str, num_tokens: int) -> bool:
        table = self._tables[name]
        free = [block for block in self._queue if block not in table.blocks]
        if _num_blocks(num_tokens) - len(table.blocks) > len(free):
            del self._tables[name]
            return False
        for block in table.blocks:
            self._acquire(block)
        return self.allocate(name, num_tokens)

    def append(self, name: str, token: int) -> None:
        self._tables[name].tokens.append(token)

    def allocate(self, name: str, num_tokens: int) -> bool:
        table = self._tables[name]
        num_new = _num_blocks(num_tokens) - len(table.blocks)
        if num_new > len(self._queue):
            return False
        table.blocks += [self._take() for _ in range(num_new)]
        self.enter(table, num_tokens // BLOCK_SIZE)
        return True

    def free(self, name: str) -> None:
        for block in reversed(self._tables.pop(name).blocks):
            self.release(block)

    def reset(self) -> bool:
        if self._tables:
            return False
        self._keys.clear()
        self._blocks.clear()
        return True

    def num_duplicates(self) -> int:
        return len(self._keys) - len(self._blocks)

    def enter(self, table: _Table, num_full: int) -> None:
        """The first ``num_full`` blocks of the table will be full after this step."""
        raise NotImplementedError

    def commit(self, name: str, num_tokens: int) -> None:
        """The first ``num_tokens`` tokens are computed."""
        raise NotImplementedError

    def holders(self, key: Key) -> list[int]:
        """The blocks that hold the prefix's last block."""
        return self._blocks.get(key, [])

    def hold(self, block: int, key: Key) -> None:
        """The block holds the prefix's last block from now on."""
        self._keys[block] = key
        self._blocks.setdefault(key, []).append(block)

    def replace(self, table: _Table, position: int, block: int) -> None:
        """Use another block in place of the table's own."""
        own = table.blocks[position]
        self._acquire(block)
        table.blocks[position] = block
        self.release(own)

    def release(self, block: int) -> None:
        """One table less mentions the block."""
        self._num_holders[block] -= 1
        if self._num_holders[block] == 0:
            self._queue.insert(len(self._queue) if block in self._keys else 0, block)

    def table(self, name: str) -> _Table:
        return self._tables[name]

    def _acquire(self, block: int) -> None:
        if self._num_holders[block] == 0:
            self._queue.remove(block)
        self._num_holders[block] += 1

    def _take(self) -> int:
        block = self._queue.pop(0)
        self._num_holders[block] = 1
        key = self._keys.pop(block, None)
        if key is not None:
            self._blocks[key].remove(block)
            if not self._blocks[key]:
                del self._blocks[key]
        return block


class KeepsDuplicates(PlainCache):
    """A full block is cached, whoever holds the same. A lookup finds the oldest."""

    def enter(self, table: _Table, num_full: int) -> None:
        for position in range(table.num_entered, num_full):
            self.hold(table.blocks[position], table.key(position))
        table.num_entered = max(table.num_entered, num_full)

    def commit(self, name: str, num_tokens: int) -> None:
        pass


class StoresOnce(PlainCache):
    """Of equal blocks the first is cached. Who has computed another one uses the first and gives the own one up.

    Until a step is over its blocks are promises: nothing behind a block that somebody else has is promised, and nobody
    gives a block up for a promise.
    """

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self._promised: dict[Key, _Table] = {}

    def enter(self, table: _Table, num_full: int) -> None:
        for position in range(table.num_entered, num_full):
            key = table.key(position)
            if self.holders(key):
                break
            self.hold(table.blocks[position], key)
            self._promised[key] = table

    def commit(self, name: str, num_tokens: int) -> None:
        table = self.table(name)
        for position in range(table.num_entered, num_tokens // BLOCK_SIZE):
            key = table.key(position)
            if self._promised.get(key, table) is not table:
                break
            self._promised.pop(key, None)
            first = (*self.holders(key), None)[0]
            if first is None:
                self.hold(table.blocks[position], key)
            elif first != table.blocks[position]:
                self.replace(table, position, first)
            table.num_entered = position + 1


def _num_blocks(num_tokens: int) -> int:
    return -(-num_tokens // BLOCK_SIZE)
