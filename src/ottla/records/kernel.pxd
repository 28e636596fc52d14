# The C types of kernel.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.records.varints cimport headers_end, varint, varint_size, varlong, varlong_end, wrap

cdef Py_ssize_t _PROBLEMS_MAX
cdef long long _HEADERS_MAX
cdef Py_ssize_t _HEADER_BYTES

cpdef bytearray room(Py_ssize_t size)

cdef int _check_range(Py_ssize_t length, Py_ssize_t position, Py_ssize_t end) except -1

@cython.locals(raw="const unsigned char *")
cpdef tuple walk(
    const unsigned char[::1] data,
    Py_ssize_t position,
    Py_ssize_t end,
    long long count,
    long long base_timestamp,
    long long now_ms,
    long long before_max_ms,
    long long after_max_ms,
    bint check_time,
    bint need_key,
    long long first=*,
    bint is_last=*,
)

@cython.locals(
    max_timestamp=cython.longlong,
    delta_of_max=cython.longlong,
    problems=list,
    status=int,
    index=cython.longlong,
    packed=cython.longlong,
    start=Py_ssize_t,
    stop=Py_ssize_t,
    after=Py_ssize_t,
    length=cython.longlong,
    key_length=cython.longlong,
    timestamp=cython.longlong,
    age=cython.longlong,
    problem=int,
)
cdef tuple walk_raw(
    const unsigned char *raw,
    Py_ssize_t position,
    Py_ssize_t end,
    long long count,
    long long base_timestamp,
    long long now_ms,
    long long before_max_ms,
    long long after_max_ms,
    bint check_time,
    bint need_key,
    long long first,
    bint is_last,
)

@cython.locals(
    raw="const unsigned char *",
    packed=cython.longlong,
    length=cython.longlong,
    stop=Py_ssize_t,
    after=Py_ssize_t,
    found=cython.longlong,
)
cpdef tuple first_since(
    const unsigned char[::1] data,
    Py_ssize_t position,
    Py_ssize_t end,
    long long count,
    long long base_timestamp,
    long long timestamp,
    long long offset_delta,
)

@cython.locals(
    raw="const unsigned char *",
    result=list,
    index=cython.longlong,
    packed=cython.longlong,
    first=Py_ssize_t,
    stop=Py_ssize_t,
    after=Py_ssize_t,
    length=cython.longlong,
    timestamp_delta=cython.longlong,
    offset_delta=cython.longlong,
    key_start=Py_ssize_t,
    key_end=Py_ssize_t,
    value_start=Py_ssize_t,
    value_end=Py_ssize_t,
)
cpdef list spans(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end, long long count)

@cython.locals(
    result=list,
    span=tuple,
    offset_delta=cython.longlong,
    timestamp_delta=cython.longlong,
    key_start=Py_ssize_t,
    key_end=Py_ssize_t,
    value_start=Py_ssize_t,
    value_end=Py_ssize_t,
    stop=Py_ssize_t,
)
cpdef list decode(
    bytes data, Py_ssize_t position, Py_ssize_t end, long long count, long long base_offset, long long base_timestamp
)

@cython.locals(
    raw="const unsigned char *",
    result=list,
    next_offset=cython.longlong,
    next_of_batch=cython.longlong,
    stop=Py_ssize_t,
    taken=Py_ssize_t,
    count=cython.longlong,
)
cpdef tuple plain_pairs(
    bytes data, Py_ssize_t position, Py_ssize_t end, long long start_offset, Py_ssize_t most, checksum
)

@cython.locals(
    raw="const unsigned char *",
    packed=cython.longlong,
    length=cython.longlong,
    stop=Py_ssize_t,
    key=bytes,
    value=bytes,
)
cdef bint _append_pairs(bytes data, Py_ssize_t position, Py_ssize_t end, long long count, list result) except -1

@cython.locals(result=cython.longlong)
cdef long long _number(const unsigned char *data, Py_ssize_t position, int count) noexcept

@cython.locals(
    raw="const unsigned char *",
    result=list,
    packed=cython.longlong,
    count=cython.longlong,
    start=Py_ssize_t,
    length=cython.longlong,
    value=bytes,
)
cdef tuple _decode_headers(bytes data, Py_ssize_t position, Py_ssize_t stop)

@cython.locals(negative=cython.bint, byte=int)
cdef int _append_varint(bytearray out, long long value) except -1

@cython.locals(
    out=bytearray,
    offset_delta=cython.longlong,
    timestamp_delta=cython.longlong,
    size=cython.longlong,
    length=cython.longlong,
    count=Py_ssize_t,
    pairs=list,
    encoded=bytes,
)
cpdef bytearray encode(entries)

cdef int _append_bytes(bytearray out, value) except -1

@cython.locals(
    raw="const unsigned char *",
    out=bytearray,
    span=tuple,
    timestamp_delta=cython.longlong,
    first=Py_ssize_t,
    stop=Py_ssize_t,
    start=Py_ssize_t,
    after=Py_ssize_t,
    shifted=cython.longlong,
)
cpdef bytearray retain(const unsigned char[::1] data, kept, long long timestamp_shift)
