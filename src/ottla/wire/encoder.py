"""Generates the Python source that encodes one version of one message.

As in the decoder, adjacent fields of fixed size become one `struct` call together with the length that
follows them. The pieces are joined once, at the end. With `parts` the records are not joined: they stay
separate objects between the joined pieces. The `sliced` form is a generator that returns parts and yields
after every few elements, so that its caller can let other tasks run. A value that the version cannot
represent is refused unless the schema allows dropping it.
"""

from __future__ import annotations

from ottla.wire.schema import Field
from ottla.wire.source import LETTERS, SHORT_ARRAY, Plan, Source, add_step


class EncoderSource:
    """Builds the body of `encode(message)`.

    `run` holds the adjacent fixed-size fields that are not packed yet. `out` names the list that pieces are
    appended to: a tagged field has its own, since its size precedes its content.
    """

    def __init__(self, plan: Plan, *, parts: bool, sliced: bool = False) -> None:
        self.plan = plan
        self.parts = parts or sliced
        self.sliced = sliced
        self.source = Source(depth=2)
        self.run: list[tuple[str, str]] = []
        self.layouts: set[str] = set()
        self.short_arrays: set[str] = set()
        self.out = "out"

    def text(self) -> str:
        """The complete function."""
        source = self.source
        self._struct(None, "m")
        self._flush()
        if self.parts:
            with source.block("if out:"):
                source.add('parts.append(b"".join(out))')
            source.add("return parts")
        else:
            source.add('return b"".join(out)')
        name = f"{self.plan.schema.name} version {self.plan.version}"
        return "\n".join(
            [
                "def encode(m):",
                "    out = []",
                *(["    parts = []"] if self.parts else []),
                *(["    k = 0", "    if m is None:", "        yield"] if self.sliced else []),
                "    try:",
                *source.lines,
                "    except (LayoutError, TypeError, AttributeError, UnicodeEncodeError) as error:",
                f'        raise UnencodableMessage(f"{name} cannot be written: {{error}}") from error',
            ]
        )

    def _append(self, expression: str) -> None:
        self.source.add(f"{self.out}.append({expression})")

    def _packed(self, run: list[tuple[str, str]]) -> str:
        letters = "".join(letter for letter, _ in run)
        if letters == "x":
            return 'b"\\x00"'
        if letters == "B":
            return f"ONE_BYTE[{run[0][1]}]"
        self.layouts.add(letters)
        return f"{packer(letters)}({', '.join(value for letter, value in run if letter != 'x')})"

    def _flush(self) -> None:
        """Pack the run."""
        if self.run:
            self._append(self._packed(self.run))
            self.run.clear()

    def _flush_with_varint(self, value: str, *, is_text: bool = False) -> None:
        """Pack the run and a varint after it."""
        long = f"{'text_varint' if is_text else 'unsigned_varint'}({value})"
        if self.run:
            long = f"{self._packed(self.run)} + {long}"
        short = self._packed([*self.run, ("B", value)])
        self._append(f"{short} if {value} < 128 else {long}")
        self.run.clear()

    # Structs.

    def _struct(self, struct: str | None, value: str) -> None:
        plan = self.plan
        for member in plan.members(struct):
            field = f"{value}.{member.name}"
            if not plan.is_present(member):
                if not member.ignorable:
                    self._refuse_unless_default(member, field)
            elif not plan.is_tagged(member):
                self._member(member, field)
        if not plan.flexible:
            with self.source.block(f"if {value}.unknown_tagged_fields:"):
                self.source.add(f'refuse_tags("{plan.schema.name}", {plan.version})')
            return
        self._tags(plan.tagged(struct), value)

    def _refuse_unless_default(self, member: Field, value: str) -> None:
        with self.source.block(f"if {self.plan.differs(member, value)}:"):
            self.source.add(f'refuse_field("{self.plan.schema.name}", "{member.name}", {self.plan.version})')

    def _tags(self, tagged: list[Field], value: str) -> None:
        """The section of tagged fields. Without any it is one zero byte after the run."""
        source = self.source
        unknown, known = f"{value}.unknown_tagged_fields", "None"
        condition = f"if {unknown} is None:"
        if tagged:
            known = source.name("tags")
            source.add(f"{known} = None")
            for member in tagged:
                self._tagged(member, f"{value}.{member.name}", known)
            condition = f"if {known} is None and {unknown} is None:"
        run, self.run = self.run, []
        with source.block(condition):
            self._append(self._packed([*run, ("x", "")]))
        with source.block("else:"):
            if run:
                self._append(self._packed(run))
            self._append(f"tag_section({known}, {unknown})")

    def _tagged(self, member: Field, value: str, known: str) -> None:
        source = self.source
        outer_out, outer_run = self.out, self.run
        with source.block(f"if {self.plan.differs(member, value)}:"):
            self.out, self.run = source.name("o"), []
            source.add(f"{self.out} = []")
            self._member(member, value)
            self._flush()
            with source.block(f"if {known} is None:"):
                source.add(f"{known} = {{}}")
            source.add(f'{known}[{member.tag}] = b"".join({self.out})')
        self.out, self.run = outer_out, outer_run

    # Fields.

    def _member(self, member: Field, value: str) -> None:
        nullable = member.is_nullable(self.plan.version)
        if member.is_array:
            self._array(member, value, nullable)
        elif member.is_struct:
            self._inner_struct(member, value, nullable)
        elif member.type == "uuid":
            self.source.add(f"if len({value}) != 16: check_uuid({value})")
            self.run.append(("16s", value))
        elif member.type in LETTERS:
            self.run.append((LETTERS[member.type], value))
        else:
            self._sequence(member, value, nullable)

    def _inner_struct(self, member: Field, value: str, nullable: bool) -> None:
        part = self.source.name("m")
        self.source.add(f"{part} = {value}")
        if not nullable:
            self._struct(member.type, part)
            return
        self._flush()
        with self.source.block(f"if {part} is None:"):
            # A tagged struct marks null by a varint, any other by a signed byte.
            self._append('b"\\x00"' if self.plan.is_tagged(member) else 'b"\\xff"')
        with self.source.block("else:"):
            self.run.append(("b", "1"))
            self._struct(member.type, part)
            self._flush()

    def _sequence(self, member: Field, value: str, nullable: bool) -> None:
        """A string, bytes or records."""
        source, plan = self.source, self.plan
        piece, count = source.name("s"), source.name("n")
        is_text = member.type == "string"
        compact = plan.is_compact(member)
        source.add(f"{piece} = {value}{'.encode()' if is_text and not nullable else ''}")
        length = f"len({piece}) + 1" if compact else f"len({piece})"
        if nullable:
            with source.block(f"if {piece} is None:"):
                source.add(f"{count} = {0 if compact else -1}")
            with source.block("else:"):
                if is_text:
                    source.add(f"{piece} = {piece}.encode()")
                source.add(f"{count} = {length}")
        else:
            source.add(f"{count} = {length}")
        self._count(count, compact, "h" if is_text else "i", is_text=is_text)
        if member.type == "records" and self.parts:
            with source.block(f"if {count} > {1 if compact else 0}:"):
                source.add('parts.append(b"".join(out))')
                source.add(f"parts.append({piece})")
                source.add("out.clear()")
        elif nullable:
            with source.block(f"if {count} > {1 if compact else 0}:"):
                self._append(piece)
        else:
            self._append(piece)

    def _count(self, count: str, compact: bool, letter: str, *, is_text: bool = False) -> None:
        if compact:
            self._flush_with_varint(count, is_text=is_text)
        else:
            self.run.append((letter, count))
            self._flush()

    def _array(self, member: Field, value: str, nullable: bool) -> None:
        source, plan = self.source, self.plan
        items, count = source.name("l"), source.name("n")
        compact = plan.is_compact(member)
        source.add(f"{items} = {value}")
        length = f"len({items}) + 1" if compact else f"len({items})"
        if not nullable:
            source.add(f"{count} = {length}")
            self._count(count, compact, "i")
            self._elements(member, items)
            return
        source.add(f"{count} = {0 if compact else -1} if {items} is None else {length}")
        self._count(count, compact, "i")
        with source.block(f"if {items}:"):
            self._elements(member, items)

    def _elements(self, member: Field, items: str) -> None:
        source = self.source
        if member.type == "uuid":
            self._append(f"uuid_array({items})")
        elif member.type in LETTERS:
            letter = LETTERS[member.type]
            self.short_arrays.add(letter)
            self._append(
                f"{short_packers(letter)}[len({items})](*{items}) if len({items}) <= {SHORT_ARRAY} "
                f'else fixed_array({items}, len({items}), "{letter}")'
            )
        else:
            item = source.name("m")
            with source.block(f"for {item} in {items}:"):
                if member.is_struct:
                    self._struct(member.type, item)
                else:
                    self._sequence(member, item, False)
                self._flush()
                if self.sliced:
                    before = ('parts.append(b"".join(out))', "out.clear()") if self.out == "out" else ()
                    add_step(source, *before)


def short_packers(letter: str) -> str:
    """The name of the list of functions that pack short arrays, by their length."""
    return f"packs_{letter.replace('?', 'o')}"


def packer(letters: str) -> str:
    """The name of the function that packs a run."""
    return f"pack_{letters.replace('?', 'o')}"
