"""Converts fetched bytes to Arrow record batches, and Arrow tables to Kafka record batches; needs pyarrow.

The columns are those of Spark's Kafka source: key, value, topic, partition, offset, timestamp, timestamp_type
(0 for CreateTime, 1 for LogAppendTime), headers. Rule: no Python object per record. The kernel fills and
reads the buffers (`columns.py`, `rows.py`); this module only passes them on.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import Any

from ottla.records.columns import Binaries, Columns
from ottla.records.kernel import HEADERS_IN_COLUMNS
from ottla.records.reader import RecordReader
from ottla.records.rows import Cells, Lists, Rows

try:
    import pyarrow as pa
except ImportError as missing:
    raise ImportError("Arrow needs pyarrow: install it with `pip install 'ottla[arrow]'`.") from missing

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TOPICS = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        pa.field("topic", TOPICS, nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("headers", HEADERS, nullable=False),
    ]
)

_LARGE_HEADERS = pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BINARIES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
    pa.types.is_null,
)
_COLUMN_BYTES_MAX = 1 << 30
_ROWS_MAX = 0x7FFF_FFF0


class Collector:
    """Collects the records of several readers into one Arrow record batch."""

    def __init__(self) -> None:
        self._columns = Columns()
        self._topics: dict[str, int] = {}

    @property
    def rows(self) -> int:
        return self._columns.rows

    @property
    def is_full(self) -> bool:
        """Whether a column is near its limit of 2 GiB, or there are too many headers."""
        columns = self._columns
        if columns.header_names.count >= HEADERS_IN_COLUMNS:
            return True
        binaries = (columns.keys, columns.values, columns.header_names, columns.header_values)
        return any(column.used > _COLUMN_BYTES_MAX for column in binaries)

    @property
    def bytes_gathered(self) -> int:
        """The total size of the collected keys and values."""
        return self._columns.keys.used + self._columns.values.used

    def reserve(self, rows: int, value_bytes: int) -> None:
        """Allocate memory for a batch of about this size. Larger ones are possible, but copied as they
        grow.
        """
        self._columns.reserve(min(rows, _ROWS_MAX), min(value_bytes, _COLUMN_BYTES_MAX))

    def add(self, reader: RecordReader, rows_max: int) -> int:
        """Take up to `rows_max` records of a reader; return the number taken."""
        index = self._topics.setdefault(reader.topic, len(self._topics))
        return reader.fill(self._columns, min(rows_max, _ROWS_MAX - self.rows), index)

    def finish(self) -> pa.RecordBatch:
        """Return the collected records and empty the collector."""
        columns, self._columns = self._columns, Columns()
        topics, self._topics = self._topics, {}
        count = columns.rows
        names = _names([topic.encode() for topic in topics])
        headers = pa.StructArray.from_buffers(
            HEADERS.value_type,
            columns.header_names.count,
            [None],
            children=[
                _texts(_binaries(columns.header_names, pa.binary())),
                _binaries(columns.header_values, pa.binary()),
            ],
        )
        arrays = [
            _binaries(columns.keys, pa.binary()),
            _binaries(columns.values, pa.binary()),
            pa.DictionaryArray.from_arrays(_numbers(columns.topics, pa.int32(), count), names),
            _numbers(columns.partitions, pa.int32(), count),
            _numbers(columns.offsets, pa.int64(), count),
            _numbers(columns.timestamps, pa.timestamp("ms"), count),
            _numbers(columns.timestamp_types, pa.int32(), count),
            pa.ListArray.from_buffers(
                HEADERS, count, [None, pa.py_buffer(columns.header_ends)], children=[headers]
            ),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _names(encoded: list[bytes]) -> pa.Array:
    """A short column of strings. `pa.array` would import pandas if it is installed."""
    ends = array("i", accumulate((len(one) for one in encoded), initial=0))
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def _numbers(store: Any, kind: pa.DataType, count: int) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(store)])


def _texts(column: pa.Array) -> pa.Array:
    """Names as strings. Invalid UTF-8 is replaced, as it is in single records."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in column.to_pylist()], pa.string())


def _binaries(column: Binaries, kind: pa.DataType) -> pa.Array:
    buffers = [
        pa.py_buffer(column.valid) if column.nulls else None,
        pa.py_buffer(column.ends),
        pa.py_buffer(column.data),
    ]
    return pa.Array.from_buffers(kind, column.count, buffers, column.nulls)


def rows_of(
    batch: pa.RecordBatch,
    *,
    key: str | None,
    value: str | None,
    headers: str | None = None,
    partition: str | None = None,
    timestamp: str | None = None,
    now_ms: int,
) -> Rows:
    """The rows of an Arrow record batch, by column name; None means that there is no such column.

    Keys and values are binary or strings. A row with a null partition is partitioned by its key; a null
    timestamp becomes `now_ms`.
    """
    numbers = None if timestamp is None else _timestamps(_column(batch, timestamp))
    chosen = None if partition is None else _whole(_column(batch, partition).cast(pa.int32()), -1)
    return Rows(
        batch.num_rows,
        None if key is None else _cells(_column(batch, key)),
        None if value is None else _cells(_column(batch, value)),
        None if headers is None else _lists(_column(batch, headers)),
        numbers,
        chosen,
        now_ms,
    )


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name not in batch.schema.names:
        known = ", ".join(batch.schema.names) or "none"
        raise ValueError(f"there is no column {name!r}; the columns are: {known}")
    column = batch.column(name)
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    return column


def _timestamps(column: pa.Array) -> memoryview:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    return _whole(column.cast(pa.int64()), -1)


def _whole(column: pa.Array, missing: int) -> memoryview:
    """The numbers of a column, with `missing` in place of null."""
    filled = column.fill_null(missing) if column.null_count else column
    width = filled.type.bit_width // 8
    view = memoryview(filled.buffers()[1] or b"")
    return view[filled.offset * width : (filled.offset + len(filled)) * width]


def _cells(column: pa.Array) -> Cells:
    kind = column.type
    if any(is_kind(kind) for is_kind in _TEXTS):
        column = column.cast(pa.large_string())
    elif any(is_kind(kind) for is_kind in _BINARIES):
        column = column.cast(pa.large_binary())
    else:
        raise TypeError(f"a key or value must be binary or text, not {kind}: cast the column first")
    valid, offsets, data = column.buffers()
    return Cells(column.offset, _bits(valid, column), offsets or bytes(8), data or b"")


def _bits(valid: Any, column: pa.Array) -> Any:
    """The validity bitmap of a column with nulls; None if it has no nulls."""
    return valid if column.null_count else None


def _lists(column: pa.Array) -> Lists:
    try:
        column = column.cast(_LARGE_HEADERS)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as cause:
        raise TypeError(
            f"headers must be a list of structs of a text key and a binary value, not {column.type}"
        ) from cause
    items = column.values
    names, values = items.field(0), items.field(1)
    valid, offsets = column.buffers()[:2]
    return Lists(column.offset, _bits(valid, column), offsets or bytes(8), _cells(names), _cells(values))
