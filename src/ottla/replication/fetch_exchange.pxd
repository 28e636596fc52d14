# The C types of fetch_exchange.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.log.follower_append cimport append_from_leader
from ottla.records.big_endian cimport int_at, long_at, put_int, put_long, short_at

cdef int _FIRST, _LAST
cdef Py_ssize_t _PARTITIONS_MAX, _ID_BYTES, _RESPONSE_START_BYTES, _ANSWERED_BYTES, _HEADER_BYTES, _FIXED_BYTES, _ASKED_BYTES
cdef long long _FLUSH_NEVER, _NOT_PLAIN

@cython.final
cdef class FetchExchange:
    cdef object _following
    cdef dict _replicas
    cdef object _storage
    cdef object _throttle
    cdef object _broker_epoch
    cdef long long _partition_bytes_max
    cdef dict _known
    cdef dict _starts
    cdef long long _changes
    cdef long long _session_id
    cdef long long _asked_epoch
    cdef tuple _template
    cdef bytes _head
    cdef bytes _tail
    cdef bint _loses_answer

    @cython.locals(
        data=memoryview,
        raw="const unsigned char *",
        size=Py_ssize_t,
        found=list,
        log_start_offset=cython.longlong,
        high_watermark=cython.longlong,
        start=Py_ssize_t,
        end=Py_ssize_t,
        end_offset=cython.longlong,
    )
    cdef _take(self, bytes frame, long long correlation_id)

    @cython.locals(
        positions=dict,
        replicas=dict,
        known=dict,
        found=list,
        at=Py_ssize_t,
        start=Py_ssize_t,
        topics=int,
        partitions=int,
        length=cython.longlong,
        shift=int,
        key=tuple,
        high_watermark=cython.longlong,
        log_start_offset=cython.longlong,
    )
    cdef list _read(self, bytes frame, const unsigned char *raw, Py_ssize_t size)

    @cython.locals(known=dict, topics=dict, changed=list, parts=list, pieces=list, key=tuple, head=bytearray)
    cdef bytes _next_request(self, list found, long long correlation_id)

cdef bytes _count(Py_ssize_t count)

@cython.locals(asked=bytes, out="unsigned char *")
cdef bytes _asked(fetch, long long bytes_max)
