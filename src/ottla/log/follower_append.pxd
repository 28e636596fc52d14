# The C types of follower_append.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.records.big_endian cimport int_at, long_at, short_at, unsigned_int_at

cdef long long _NOT_PLAIN, _FLUSH_NEVER, _RELATIVE_OFFSET_MAX, _BASE_OFFSET_MAX
cdef Py_ssize_t _HEADER_BYTES, _LOG_OVERHEAD_BYTES, _MAGIC_POSITION, _ATTRIBUTES_POSITION
cdef int _NOT_PLAIN_BITS

@cython.locals(
    raw="const unsigned char *",
    segments=list,
    epoch=cython.longlong,
    first_offset=cython.longlong,
    next_offset=cython.longlong,
    last_offset=cython.longlong,
    max_timestamp=cython.longlong,
    has_producers=cython.bint,
    at=Py_ssize_t,
    size=cython.longlong,
    delta=cython.longlong,
    position=cython.longlong,
)
cpdef long long append_from_leader(
    log, memoryview data, Py_ssize_t start, Py_ssize_t end, long long leader_epoch
) except? -1
