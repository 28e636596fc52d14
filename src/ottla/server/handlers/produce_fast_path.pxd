# The C types of produce_fast_path.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.records.big_endian cimport int_at, put_int, put_long, short_at
from ottla.server.replicas.plain_append cimport append_as_leader

cdef int _PRODUCE, _BY_ID, _FIRST, _LAST, _ONE, _FLAGS_AT, _TRANSACTIONAL_BIT
cdef Py_ssize_t _ID_BYTES, _START_BYTES, _PARTITION_BYTES, _END_BYTES, _HEADER_BYTES
cdef Py_ssize_t _ANSWER_START_BYTES, _ANSWER_PARTITION_BYTES, _TAIL_BYTES
cdef long long _NOT_PLAIN

@cython.final
cdef class ProduceExpress:
    cdef object _broker
    cdef object _lateness

    @cython.locals(size=cython.longlong)
    cpdef bytes answer_read(self, memoryview data, Py_ssize_t count)

    @cython.locals(
        raw="const unsigned char *",
        size=Py_ssize_t,
        version=int,
        position=Py_ssize_t,
        acks=int,
        topic=Py_ssize_t,
        after_topic=Py_ssize_t,
        index=cython.longlong,
        hosted=dict,
        length=cython.longlong,
        shift=int,
        stop=Py_ssize_t,
        first=Py_ssize_t,
        last=Py_ssize_t,
        offset=cython.longlong,
        log_append_time=cython.longlong,
    )
    cpdef bytes answer(self, memoryview data, Py_ssize_t start, Py_ssize_t end)

cdef bytes _piece(const unsigned char *raw, Py_ssize_t start, Py_ssize_t end)

@cython.locals(answer=bytes, out="unsigned char *", at=Py_ssize_t, size=Py_ssize_t, topic_bytes=Py_ssize_t)
cdef bytes _answer(
    const unsigned char *raw,
    Py_ssize_t topic,
    Py_ssize_t after_topic,
    long long offset,
    long long time_ms,
    long long log_start,
)
