# The C types of classic_fast_path.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.records.big_endian cimport int_at, short_at

cdef int _JOIN_FIRST, _JOIN_LAST, _REASON_FROM, _SYNC_FIRST, _SYNC_LAST, _PROTOCOL_FROM, _ONE_BYTE
cdef Py_ssize_t _BYTES_MIN, _BYTES_MAX
cdef bytes _NO_ERROR

@cython.final
cdef class JoinFastPath:
    cdef object _broker

    @cython.locals(
        raw="const unsigned char *",
        size=Py_ssize_t,
        position=Py_ssize_t,
        group_at=Py_ssize_t,
        group_end=Py_ssize_t,
        session_ms=cython.longlong,
        rebalance_ms=cython.longlong,
        least_ms=cython.longlong,
        member_at=Py_ssize_t,
        member_end=Py_ssize_t,
        type_at=Py_ssize_t,
        type_end=Py_ssize_t,
        left=int,
        start=Py_ssize_t,
        length=Py_ssize_t,
        protocols=list,
        correlation=bytes,
    )
    cpdef bint take(self, connection, memoryview frame, int version, long long correlation_id) except -1

@cython.final
cdef class SyncFastPath:
    cdef object _broker

    @cython.locals(
        raw="const unsigned char *",
        size=Py_ssize_t,
        position=Py_ssize_t,
        group_at=Py_ssize_t,
        group_end=Py_ssize_t,
        generation=cython.longlong,
        member_at=Py_ssize_t,
        member_end=Py_ssize_t,
        protocol_at=Py_ssize_t,
        protocol_end=Py_ssize_t,
        type_at=Py_ssize_t,
        type_end=Py_ssize_t,
        name_at=Py_ssize_t,
        name_end=Py_ssize_t,
        correlation=bytes,
        body=bytes,
    )
    cpdef bint take(self, connection, memoryview frame, int version, long long correlation_id) except -1

cdef bytes _piece(const unsigned char *raw, Py_ssize_t start, Py_ssize_t end)

@cython.locals(length=Py_ssize_t, out=bytearray)
cdef bytes _compact(bytes data)

cdef bytes _framed(bytes correlation, bytes body)
