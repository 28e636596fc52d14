"""Generates the Python source that decodes one version of one message.

The source is straight-line code: adjacent fields of fixed size are one `struct` call, together with the first
byte of the following length; structs are decoded inline; nothing is looked up per field at run time. Two
rules keep it safe. A count is checked against the remaining bytes before its loop starts. A slice past the
end is not checked at once, because it cannot be longer than the input: either a later read fails, or the
comparison at the end does.

An empty string takes one byte on the wire and fifty in memory. For large frames of untrusted senders the
`bounded` form counts the memory of objects before it creates them, and refuses a message that would take far
more than its frame. The `sliced` form is a generator that does the same and yields after every few elements,
so that its caller can let other tasks run.
"""

from __future__ import annotations

from ottla.wire.schema import Field
from ottla.wire.source import LETTER_BYTES, LETTERS, NUMBERS_IN_STEP, SHORT_ARRAY, Plan, Source, add_step

ROOM_BYTES = 32 * 1024 * 1024
"""The memory that the objects of a bounded message may take in addition to the size of its frame."""
TAG_MEMORY = 170
"""The memory of an unknown tagged field: a number, its bytes and a dictionary entry."""
TEXT_GROWTH = 4
"""A string with one rare character takes four bytes for each of its characters."""


class DecoderSource:
    """Builds the body of `decode(buffer, position) -> (message, end)`.

    `p` is the position. It lags behind by `ahead` bytes, a number known at compile time, so that most reads
    need no addition of their own. `run` holds the adjacent fixed-size fields that are not read yet.
    """

    def __init__(self, plan: Plan, *, bounded: bool = False, sliced: bool = False) -> None:
        self.plan = plan
        self.bounded = bounded or sliced
        self.sliced = sliced
        self.source = Source(depth=2)
        self.ahead = 0
        self.run: list[tuple[str, str]] = []
        self.layouts: set[str] = set()
        self.short_arrays: set[str] = set()

    def text(self) -> str:
        """The complete function."""
        head = ["def decode(buffer, p):", "    try:", "        size = len(buffer)"]
        if self.bounded:
            head.append(f"        room = {ROOM_BYTES} + size")
        if self.sliced:
            head += ["        k, m = 0, None", "        if size < 0:", "            yield"]
        if self.plan.has_records():
            head.append("        view = memoryview(buffer)")
        self.source.add("m = new(outer)")
        self._struct(None, "m")
        self._settle()
        with self.source.block("if p > size:"):
            self.source.add('raise MalformedMessage("it ends too early")')
        self.source.add("return m, p")
        name = f"{self.plan.schema.name} version {self.plan.version}"
        tail = [
            "    except MalformedMessage as error:",
            *self._refusal(f'f"{name} cannot be read: {{error}}"'),
            "    except (IndexError, LayoutError) as error:",
            *self._refusal(f'"{name} cannot be read: it ends too early"'),
            "    except UnicodeDecodeError as error:",
            *self._refusal(f'"{name} cannot be read: a text in it is not UTF-8"'),
        ]
        return "\n".join([*head, *self.source.lines, *tail])

    def _refusal(self, message: str) -> list[str]:
        return [
            f"        refusal = MalformedMessage({message})",
            *(["        refusal.unfinished = m"] if self.sliced else []),
            "        raise refusal from error",
        ]

    # Positions and runs.

    def _at(self, more: int = 0) -> str:
        offset = self.ahead + more
        return f"p + {offset}" if offset else "p"

    def _fixed(self, letter: str, target: str) -> None:
        self.run.append((letter, target))

    def _flush(self) -> None:
        """Read the run."""
        if not self.run:
            return
        letters = "".join(letter for letter, _ in self.run)
        size = sum(LETTER_BYTES[letter] for letter, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        if letters in ("B", "?"):
            self.source.add(f"{targets} = buffer[{self._at()}]" + (" != 0" if letters == "?" else ""))
        else:
            self.layouts.add(letters)
            comma = "," if len(self.run) == 1 else ""
            self.source.add(f"{targets}{comma} = {unpacker(letters)}(buffer, {self._at()})")
        self.run.clear()
        self.ahead += size

    def _settle(self) -> None:
        """Read the run and bring `p` up to date."""
        self._flush()
        if self.ahead:
            self.source.add(f"p += {self.ahead}")
            self.ahead = 0

    # Structs.

    def _struct(self, struct: str | None, target: str) -> None:
        plan = self.plan
        tagged = plan.tagged(struct)
        for member in plan.members(struct):
            if plan.is_present(member) and not plan.is_tagged(member):
                self._member(member, f"{target}.{member.name}", member.is_nullable(plan.version))
            else:
                self._default(member, f"{target}.{member.name}")
        if not plan.flexible:
            self.source.add(f"{target}.unknown_tagged_fields = None")
            return
        count = self.source.name("n")
        self._fixed("B", count)
        self._settle()
        self.source.add(f"{target}.unknown_tagged_fields = None")
        with self.source.block(f"if {count}:"):
            if tagged:
                self._tags(tagged, target, count)
            else:
                self.source.add(f"{target}.unknown_tagged_fields, p = read_unknown_tags(buffer, p, {count})")
                if self.bounded:
                    self._take(f"{TAG_MEMORY} * len({target}.unknown_tagged_fields)")

    def _default(self, member: Field, target: str) -> None:
        literal = member.default_literal
        if literal is None and member.is_array:
            literal = "[]"
        if literal is not None:
            self.source.add(f"{target} = {literal}")
            return
        part = self.source.name("d")
        self.source.add(f"{target} = {part} = new({member.type})")
        for inner in self.plan.members(member.type):
            self._default(inner, f"{part}.{inner.name}")
        self.source.add(f"{part}.unknown_tagged_fields = None")

    def _tags(self, tagged: list[Field], target: str, count: str) -> None:
        source = self.source
        with source.block(f"if {count} > 127:"):
            source.add(f"{count}, x = long_varint(buffer, p, {count})")
            source.add("p += x")
            source.add(f"check_tag_count({count})")
        with source.block(f"for _ in range({count}):"):
            tag = source.name("t")
            source.add(f"{tag}, p = read_unsigned_varint(buffer, p)")
            source.add("n, p = read_unsigned_varint(buffer, p)")
            word = "if"
            for member in tagged:
                with source.block(f"{word} {tag} == {member.tag}:"):
                    self._member(member, f"{target}.{member.name}", member.is_nullable(self.plan.version))
                    self._settle()
                word = "elif"
            with source.block("else:"):
                with source.block(f"if {target}.unknown_tagged_fields is None:"):
                    source.add(f"{target}.unknown_tagged_fields = {{}}")
                if self.bounded:
                    self._take(str(TAG_MEMORY))
                source.add(f"{target}.unknown_tagged_fields[{tag}] = bytes(buffer[p : p + n])")
                source.add("p += n")

    # Fields.

    def _member(self, member: Field, target: str, nullable: bool) -> None:
        if member.is_array:
            self._array(member, target, nullable)
        elif member.is_struct:
            self._inner_struct(member, target, nullable)
        elif member.type in LETTERS:
            self._fixed(LETTERS[member.type], target)
        else:
            self._sequence(member, target, nullable)

    def _inner_struct(self, member: Field, target: str, nullable: bool) -> None:
        part = self.source.name("m")
        if not nullable:
            # The fields before it may still be in the run: create only the object here.
            self.source.add(f"{target} = {part} = new({member.type})")
            self._struct(member.type, part)
            return
        mark = self.source.name("n")
        self._fixed("b", mark)
        self._settle()
        tagged = self.plan.is_tagged(member)
        with self.source.block(f"if {mark} {'<=' if tagged else '<'} 0:"):
            self.source.add(f"{target} = None")
        with self.source.block("else:"):
            self.source.add(f"{target} = {part} = new({member.type})")
            self._struct(member.type, part)
            self._settle()

    def _sequence(self, member: Field, target: str, nullable: bool) -> None:
        """A string, bytes or records."""
        source, count = self.source, self.source.name("n")
        compact = self.plan.is_compact(member)
        self._fixed("B" if compact else "h" if member.type == "string" else "i", count)
        self._flush()
        if not nullable:
            if compact:
                reader = "long_text" if member.type == "string" else "long_length"
                with source.block(f"if not 0 < {count} < 128:"):
                    source.add(f'{count}, x = {reader}(buffer, {self._at()}, {count}, "{member.name}")')
                    source.add("p += x")
            else:
                with source.block(f"if {count} < 0:"):
                    source.add(f'refuse_null("{member.name}")')
            self._slice(member, target, count, compact)
            return
        self._settle()
        with source.block(f"if {count} {'== 0' if compact else '< 0'}:"):
            source.add(f"{target} = None")
        with source.block("else:"):
            if compact:
                reader = "long_text" if member.type == "string" else "long_length"
                with source.block(f"if {count} > 127:"):
                    source.add(f'{count}, x = {reader}(buffer, p, {count}, "{member.name}")')
                    source.add("p += x")
            self._slice(member, target, count, compact)

    def _slice(self, member: Field, target: str, count: str, compact: bool) -> None:
        """Take the bytes and move `p` after them. A compact `count` is one more than the number of bytes."""
        end = self.ahead - (1 if compact else 0)
        sign = f" + {end}" if end > 0 else f" - {-end}" if end < 0 else ""
        start = self._at()
        self.source.add(f"e = p + {count}{sign}")
        if member.type == "string":
            if self.bounded:
                self._take(f"{TEXT_GROWTH} * (e - p)")
            self.source.add(f'{target} = str(buffer[{start} : e], "utf-8")')
        elif member.type == "bytes":
            self.source.add(f"{target} = bytes(buffer[{start} : e])")
        else:
            self.source.add(f"{target} = view[{start} : e]")
        self.source.add("p = e")
        self.ahead = 0

    def _array(self, member: Field, target: str, nullable: bool) -> None:
        source, count = self.source, self.source.name("n")
        compact = self.plan.is_compact(member)
        self._fixed("B" if compact else "i", count)
        self._settle()
        if compact:
            with source.block(f"if {count} > 127:"):
                source.add(f"{count}, x = long_varint(buffer, p, {count})")
                source.add("p += x")
            source.add(f"{count} -= 1")
        if nullable:
            with source.block(f"if {count} < 0:"):
                source.add(f"{target} = None")
            with source.block("else:"):
                self._elements(member, target, count)
            return
        with source.block(f"if {count} < 0:"):
            source.add(f'refuse_null("{member.name}")')
        self._elements(member, target, count)

    def _elements(self, member: Field, target: str, count: str) -> None:
        source = self.source
        least = self.plan.element_bytes_min(member)
        with source.block(f"if {count}{f' * {least}' if least > 1 else ''} > size - p:"):
            source.add(f'refuse_count("{member.name}", {count}, size - p)')
        if self.bounded:
            self._take(f"{count} * {8 + self.plan.element_memory(member)}")
        if member.type == "uuid":
            source.add(f"e = p + {count} * 16")
            source.add(f"{target} = [bytes(buffer[i : i + 16]) for i in range(p, e, 16)]")
            source.add("p = e")
            if self.sliced:
                source.add("yield")
        elif self.sliced and member.type in LETTERS:
            self._numbers_in_steps(LETTERS[member.type], target, count)
        elif member.type in LETTERS:
            letter = LETTERS[member.type]
            self.short_arrays.add(letter)
            source.add(
                f"{target} = list({short_unpackers(letter)}[{count}](buffer, p)) if {count} <= {SHORT_ARRAY} "
                f'else read_fixed_array(buffer, p, {count}, "{letter}")'
            )
            source.add(f"p += {count} * {LETTER_BYTES[letter]}")
        else:
            items, item = source.name("l"), source.name("m")
            source.add(f"{target} = {items} = []")
            with source.block(f"for _ in range({count}):"):
                if member.is_struct:
                    source.add(f"{item} = new({member.type})")
                    source.add(f"{items}.append({item})")
                    self._struct(member.type, item)
                else:
                    self._sequence(member, item, False)
                    source.add(f"{items}.append({item})")
                self._settle()
                if self.sliced:
                    add_step(source)

    def _numbers_in_steps(self, letter: str, target: str, count: str) -> None:
        source, items, size = self.source, self.source.name("l"), LETTER_BYTES[letter]
        source.add(f"{target} = {items} = []")
        with source.block(f"for i in range(0, {count}, {NUMBERS_IN_STEP}):"):
            source.add(f"n = min({NUMBERS_IN_STEP}, {count} - i)")
            source.add(f'{items} += read_fixed_array(buffer, p + i * {size}, n, "{letter}")')
            with source.block(f"if n == {NUMBERS_IN_STEP}:"):
                source.add("yield")
        source.add(f"p += {count} * {size}")

    def _take(self, memory: str) -> None:
        """Count memory before it is used."""
        self.source.add(f"room -= {memory}")
        with self.source.block("if room < 0:"):
            self.source.add("refuse_memory(size)")


def short_unpackers(letter: str) -> str:
    """The name of the list of functions that unpack short arrays, by their length."""
    return f"unpacks_{letter.replace('?', 'o')}"


def unpacker(letters: str) -> str:
    """The name of the function that unpacks a run."""
    return f"unpack_{letters.replace('?', 'o')}"
