"""The definitions of all client settings, read from definitions/*.tsv on first use.

One line is one setting. Its columns are those of the broker's definitions (see ottla/config/schema.py for the
notation of `default` and `valid`), with `use` instead of scope and synonyms: empty for a setting that has an
effect; `own` for one that Kafka does not have; `ignored` for one without an effect here, which causes a
warning; `refused` for one that is an error, since ignoring it would not be safe. common.tsv contains the
settings that all three clients share; a line of the same name in a client's own file replaces it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from ottla.config.values import ConfigType, Value, parse, parse_type

Kind: TypeAlias = Literal["common", "producer", "consumer", "admin"]
CLIENTS: tuple[Kind, ...] = ("producer", "consumer", "admin")

OBJECT_LISTS = frozenset(("interceptor.classes", "partition.assignment.strategy"))
"""Lists whose entries may be Python objects."""


class Parameter(NamedTuple):
    """One setting of a client. `kafka` is Kafka's default as in the file, empty if ours is the same."""

    name: str
    type: ConfigType
    default: str | None
    kafka: str
    valid: str
    importance: str
    use: str
    doc: str
    required: bool

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    @property
    def takes_objects(self) -> bool:
        return self.type is ConfigType.CLASS or self.name in OBJECT_LISTS

    @property
    def default_value(self) -> Value:
        return None if self.default is None else parse_type(self.name, self.type, self.default)

    def parse(self, text: str) -> Value:
        """Parse a string; InvalidValue if it is invalid for this setting."""
        return parse(self.name, self.type, self.valid, text)


@cache
def own_parameters(kind: Kind) -> Mapping[str, Parameter]:
    """The settings in the file of one kind."""
    content = pkgutil.get_data("ottla.client.config", f"definitions/{kind}.tsv")
    assert content is not None, f"The file definitions/{kind}.tsv is part of the package."
    rows = content.decode("utf-8").splitlines()[2:]
    return MappingProxyType({row.split("\t", 1)[0]: _parameter(row) for row in rows})


@cache
def parameters(kind: Kind) -> Mapping[str, Parameter]:
    """All settings of a client by name, sorted."""
    merged = {**own_parameters("common"), **own_parameters(kind)}
    return MappingProxyType({name: merged[name] for name in sorted(merged)})


_TYPES = {kind.name: kind for kind in ConfigType}
_DEFAULTS: dict[str, str | None] = {"-": None, "!": None, '""': ""}


def _parameter(row: str) -> Parameter:
    name, kind, default, kafka, valid, importance, use, doc = row.split("\t")
    return Parameter(
        name=name,
        type=_TYPES[kind],
        default=_DEFAULTS.get(default, default),
        kafka=kafka,
        valid=valid,
        importance=importance,
        use=use,
        doc=doc,
        required=default == "!",
    )
