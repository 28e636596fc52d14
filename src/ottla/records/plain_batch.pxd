# The C types of plain_batch.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.records.big_endian cimport int_at, long_at, short_at, unsigned_int_at
from ottla.records.kernel cimport walk_raw

cdef long long _NOT_PLAIN
cdef Py_ssize_t _BYTES_MAX, _HEADER_BYTES, _LOG_OVERHEAD_BYTES, _ATTRIBUTES_POSITION

@cython.final
cdef class PlainCheck:
    cdef Py_ssize_t _bytes_max
    cdef bint _needs_key
    cdef long long _before_max_ms
    cdef long long _after_max_ms

    @cython.locals(
        raw="const unsigned char *",
        size=Py_ssize_t,
        count=cython.longlong,
        status=int,
        largest=cython.longlong,
    )
    cpdef long long max_timestamp(
        self, memoryview data, Py_ssize_t start, Py_ssize_t end, long long now_ms
    ) except *
