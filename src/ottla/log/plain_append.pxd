# The C types of plain_append.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.records.big_endian cimport int_at, long_at, put_int, put_long, short_at
from ottla.records.plain_batch cimport PlainCheck

cdef long long _NOT_PLAIN, _RELATIVE_OFFSET_MAX, _SEQUENCE_MAX
cdef Py_ssize_t _EPOCH_POSITION
cdef object _CLIENT

@cython.locals(
    check=PlainCheck,
    segments=list,
    raw="unsigned char *",
    size=cython.longlong,
    position=cython.longlong,
    max_timestamp=cython.longlong,
    first_offset=cython.longlong,
    last_offset=cython.longlong,
    end_offset=cython.longlong,
    epoch_before=cython.longlong,
    producer_id=cython.longlong,
    last_sequence=cython.longlong,
)
cpdef long long append_to_log(
    log, memoryview data, Py_ssize_t start, Py_ssize_t end, long long leader_epoch, long long now_ms
) except? -1
