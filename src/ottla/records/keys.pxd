# The C types of keys.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.records.varints cimport put_varint, varint, varint_size, varlong, varlong_end, wrap

cdef unsigned long long _SIP_0, _SIP_1, _SIP_2, _SIP_3
cdef Py_ssize_t _SLOT_WORDS
cdef Py_ssize_t _GROWTH_MAX
cdef int _OFFSET_DELTA, _TIMESTAMP_DELTA, _KEY_START, _KEY_END, _VALUE_LENGTH, _BODY_START, _AFTER_TIMESTAMP
cdef int _SUM_0, _SUM_1, _SUM_2, _SUM_3, _NOTES

@cython.locals(
    notes="long long[::1]",
    raw="const unsigned char *",
    words="unsigned long long *",
    hidden="const unsigned char *",
    numbers="long long *",
    last=Py_ssize_t,
    index=cython.longlong,
)
cpdef tuple map_keys(
    const unsigned char[::1] data,
    Py_ssize_t position,
    Py_ssize_t end,
    long long count,
    long long base_offset,
    long long start_offset,
    unsigned long long[::1] table,
    const unsigned char[::1] secret,
    long long used,
    long long used_max,
)

@cython.locals(index=cython.longlong, offset=cython.longlong, at=Py_ssize_t)
cdef long long _map(
    const unsigned char *raw,
    Py_ssize_t position,
    Py_ssize_t end,
    long long count,
    long long base_offset,
    long long start_offset,
    unsigned long long *words,
    Py_ssize_t last,
    const unsigned char *secret,
    long long used,
    long long used_max,
    long long *notes,
) noexcept nogil

@cython.locals(
    notes="long long[::1]",
    raw="const unsigned char *",
    words="unsigned long long *",
    hidden="const unsigned char *",
    numbers="long long *",
    flags="unsigned char *",
    last=Py_ssize_t,
    kept=cython.longlong,
)
cpdef tuple mark_kept(
    const unsigned char[::1] data,
    Py_ssize_t position,
    Py_ssize_t end,
    long long count,
    long long base_offset,
    long long latest_offset,
    unsigned long long[::1] table,
    const unsigned char[::1] secret,
    bint keep_tombstones,
    unsigned char[::1] marks,
    long long base_timestamp,
)

@cython.locals(
    kept=cython.longlong,
    index=cython.longlong,
    offset=cython.longlong,
    timestamp=cython.longlong,
    is_tombstone=cython.bint,
    stays=cython.bint,
)
cdef long long _mark(
    const unsigned char *raw,
    Py_ssize_t position,
    Py_ssize_t end,
    long long count,
    long long base_offset,
    long long latest_offset,
    unsigned long long *words,
    Py_ssize_t last,
    const unsigned char *secret,
    bint keep_tombstones,
    unsigned char *marks,
    long long base_timestamp,
    long long *notes,
) noexcept nogil

@cython.locals(
    notes="long long[::1]",
    into="unsigned char[::1]",
    raw="const unsigned char *",
    flags="const unsigned char *",
    target="unsigned char *",
    numbers="long long *",
    room=Py_ssize_t,
    length=Py_ssize_t,
    out=bytearray,
)
cpdef bytearray copy_kept(
    const unsigned char[::1] data,
    Py_ssize_t position,
    Py_ssize_t end,
    long long count,
    const unsigned char[::1] marks,
    long long timestamp_shift,
)

@cython.locals(at=Py_ssize_t, index=cython.longlong, first=Py_ssize_t, shifted=cython.longlong)
cdef Py_ssize_t _copy(
    const unsigned char *raw,
    Py_ssize_t position,
    Py_ssize_t end,
    long long count,
    const unsigned char *marks,
    long long timestamp_shift,
    unsigned char *out,
    long long *notes,
) noexcept nogil

@cython.locals(packed=cython.longlong, after=Py_ssize_t, length=cython.longlong, stop=Py_ssize_t)
cdef Py_ssize_t _scan(
    const unsigned char *raw, Py_ssize_t position, Py_ssize_t end, long long *notes
) noexcept nogil

cdef Py_ssize_t _put_bytes(
    unsigned char *out, Py_ssize_t at, const unsigned char *raw, Py_ssize_t start, Py_ssize_t stop
) noexcept nogil

@cython.locals(first=cython.ulonglong, second=cython.ulonglong, at=Py_ssize_t)
cdef Py_ssize_t _find(unsigned long long *words, Py_ssize_t last) noexcept nogil

@cython.locals(
    low_secret=cython.ulonglong,
    high_secret=cython.ulonglong,
    v0=cython.ulonglong,
    v1=cython.ulonglong,
    v2=cython.ulonglong,
    v3=cython.ulonglong,
    block=cython.ulonglong,
    length=Py_ssize_t,
    blocks=Py_ssize_t,
    step=Py_ssize_t,
    rounds=int,
)
cdef void _digest(
    const unsigned char *raw,
    Py_ssize_t start,
    Py_ssize_t stop,
    const unsigned char *secret,
    unsigned long long *words,
    Py_ssize_t last,
) noexcept nogil

@cython.locals(value=cython.ulonglong)
cdef unsigned long long _word(const unsigned char *raw, Py_ssize_t start, Py_ssize_t stop) noexcept nogil

@cython.locals(table="unsigned long long[::1]")
cpdef tuple digest(bytes data, bytes secret)

cdef int _check_range(Py_ssize_t length, Py_ssize_t position, Py_ssize_t end) except -1

cdef int _check_table(Py_ssize_t words, Py_ssize_t secret_length) except -1
