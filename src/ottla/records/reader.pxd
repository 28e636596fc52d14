# The C types of reader.py, read by Cython alone; plain Python does without.

cimport cython
from cpython.object cimport PyTypeObject

from ottla.records.columns cimport Binaries, Columns
from ottla.records.varints cimport headers_end, varint, varlong, varlong_end, wrap

cdef int _TIMESTAMP_DELTA, _OFFSET_DELTA, _KEY_START, _KEY_END, _VALUE_START, _VALUE_END
cdef int _HEADER_COUNT, _HEADERS_START, _NOTES
cdef Py_ssize_t _RECORD_FIELDS
cdef long long _HEADERS_MAX, _HEADERS_AT_ONCE, _HEADERS_IN_COLUMNS
cdef tuple _NO_HEADERS, _TIMESTAMP_TYPES
cdef object _RECORD

cdef class RecordReader:
    cdef readonly object topic
    cdef readonly object partition
    cdef readonly long long next_offset
    cdef readonly bint exhausted
    cdef readonly object last_leader_epoch
    cdef public bint check_crcs
    cdef public Py_ssize_t decompressed_bytes_max
    cdef public object key_deserializer
    cdef public object value_deserializer
    cdef public list aborted
    cdef public set aborted_now
    cdef public Py_ssize_t allowance
    cdef readonly bint ended_early
    cdef long long _headers_left
    cdef object _buffer
    cdef Py_ssize_t _at
    cdef object _failure
    cdef long long[::1] _notes
    cdef const unsigned char[::1] _content
    cdef Py_ssize_t _position
    cdef Py_ssize_t _end
    cdef long long _left
    cdef long long _base_offset
    cdef long long _base_timestamp
    cdef long long _append_timestamp
    cdef long long _offset_after
    cdef object _timestamp_type
    cdef object _leader_epoch
    cdef long long _timestamp
    cdef object _timestamp_object
    cdef list _legacy

    @cython.locals(out=list)
    cpdef list take(self, Py_ssize_t count)

    @cython.locals(before=Py_ssize_t)
    cpdef Py_ssize_t fill(self, Columns columns, Py_ssize_t count, int topic_index=*) except -1

    @cython.locals(
        content="const unsigned char[::1]",
        raw="const unsigned char *",
        notes="long long *",
        end=Py_ssize_t,
        stamped=int,
        partition=int,
        room=bint,
        after=Py_ssize_t,
        offset=cython.longlong,
        timestamp=cython.longlong,
    )
    cdef bint _fill(self, Columns columns, Py_ssize_t count, int topic_index) except -1

    cdef _fill_legacy(self, Columns columns, Py_ssize_t count, int topic_index)

    cdef _settle(self, Py_ssize_t taken)

    @cython.locals(at=Py_ssize_t, room=Py_ssize_t, length=cython.longlong)
    cdef bint _next_batch(self) except -1

    cdef bint _open(self, Py_ssize_t at, header) except -1

    cdef _share(self, header)

    cdef bint _is_aborted(self, Py_ssize_t at, header) except -1

    cdef _corrupt(self, why)

    @cython.locals(
        content="const unsigned char[::1]",
        raw="const unsigned char *",
        notes="long long *",
        end=Py_ssize_t,
        taken=Py_ssize_t,
        after=Py_ssize_t,
        offset=cython.longlong,
    )
    cdef int _take(self, list out, Py_ssize_t count) except -1

    @cython.locals(timestamp=cython.longlong)
    cdef int _add(self, list out, const unsigned char *raw, long long *notes, long long offset) except -1

    cdef _deserialize(self, deserializer, part, data, headers, offset)

    cdef _take_legacy(self, list out, Py_ssize_t count)

    cdef _legacy_record(self, offset, timestamp, key, value)

cdef void _set(record, Py_ssize_t index, field) noexcept

cdef _fill_bytes(Binaries column, bytes data)

@cython.locals(packed=cython.longlong, length=cython.longlong, start=Py_ssize_t)
cdef int _fill_headers(
    Columns columns, const unsigned char *raw, Py_ssize_t position, Py_ssize_t stop, long long count
) except -1

@cython.locals(
    packed=cython.longlong,
    length=cython.longlong,
    stop=Py_ssize_t,
    after=Py_ssize_t,
)
cdef Py_ssize_t _scan(
    const unsigned char *raw, Py_ssize_t position, Py_ssize_t end, long long *notes
) noexcept

@cython.locals(
    result=list,
    packed=cython.longlong,
    start=Py_ssize_t,
    length=cython.longlong,
    encoded=bytes,
)
cdef tuple _read_headers(const unsigned char *raw, Py_ssize_t position, Py_ssize_t stop, long long count)
