# The C types of produce_fast_path.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.records.big_endian cimport int_at, put_int, put_long, short_at
from ottla.server.replicas.plain_append cimport append_as_leader

cdef int _PRODUCE, _BY_ID, _FIRST, _LAST, _FLAGS_AT, _TRANSACTIONAL_BIT, _NAME_BYTES_MAX
cdef Py_ssize_t _ID_BYTES, _START_BYTES, _HEADER_BYTES, _PARTITIONS_MAX, _PARTITIONS_AT_ONCE
cdef Py_ssize_t _ANSWER_START_BYTES, _ANSWER_PARTITION_BYTES, _ANSWER_END_BYTES
cdef long long _NOT_PLAIN

@cython.final
cdef class ProduceExpress:
    cdef object _broker
    cdef object _lateness
    cdef object _wait
    cdef public object begun

    @cython.locals(size=cython.longlong)
    cpdef answer_read(self, memoryview data, Py_ssize_t count)

    @cython.locals(
        raw="const unsigned char *",
        out="unsigned char *",
        answer=bytes,
        frame=bytes,
        size=Py_ssize_t,
        answer_size=Py_ssize_t,
        at=Py_ssize_t,
        version=int,
        position=Py_ssize_t,
        acks=int,
        timeout_ms=cython.longlong,
        now_ms=cython.longlong,
        by_id=cython.bint,
        is_writable=cython.bint,
        packed=cython.longlong,
        after_topic=Py_ssize_t,
        number=Py_ssize_t,
        stop_at=cython.double,
        topics=Py_ssize_t,
        count=Py_ssize_t,
        hosted=dict,
        waiting=list,
        first=Py_ssize_t,
        last=Py_ssize_t,
        offset=cython.longlong,
        end_offset=cython.longlong,
        log_append_time=cython.longlong,
    )
    cpdef answer(self, memoryview data, Py_ssize_t start, Py_ssize_t end)

@cython.locals(number=cython.longlong, size=Py_ssize_t, byte=int)
cdef long long _count(const unsigned char *raw, Py_ssize_t at, Py_ssize_t end) noexcept

@cython.locals(
    packed=cython.longlong,
    topics=Py_ssize_t,
    size=Py_ssize_t,
    total=Py_ssize_t,
    count=Py_ssize_t,
    length=Py_ssize_t,
    at=Py_ssize_t,
    place=Py_ssize_t,
)
cdef Py_ssize_t _answer_size(
    const unsigned char *raw, Py_ssize_t position, Py_ssize_t end, bint by_id
) noexcept

cdef Py_ssize_t _copy(
    unsigned char *out, Py_ssize_t at, const unsigned char *raw, Py_ssize_t start, Py_ssize_t end
) noexcept

cdef bytes _piece(const unsigned char *raw, Py_ssize_t start, Py_ssize_t end)
