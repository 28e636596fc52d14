# The C types of builder.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.records.rows cimport Rows
from ottla.records.varints cimport put_varint, varint_size, wrap

cdef double _RATIO_MARGIN
cdef Py_ssize_t _HEADER_BYTES, _RECORD_OVERHEAD_MAX, _SIZE_MAX, _ROOM_FIRST, _ROOM_SECOND
cdef Py_ssize_t _TAKEN, _FULL, _TOO_LARGE, _REFUSED, _ROOM_NEEDED
cdef Py_ssize_t _KEPT_BYTES_MAX, _kept_bytes
cdef list _VARINTS, _kept

@cython.locals(index=Py_ssize_t)
cdef bytearray _take_kept(Py_ssize_t room)

cdef _keep(bytearray data, Py_ssize_t room)

cdef class BatchBuilder:
    cdef readonly int codec
    cdef readonly object level
    cdef readonly Py_ssize_t batch_size
    cdef readonly Py_ssize_t count
    cdef readonly long long base_timestamp
    cdef readonly long long max_timestamp
    cdef readonly double ratio
    cdef Py_ssize_t _limit
    cdef Py_ssize_t _size
    cdef bytearray _data
    cdef bytearray _sealed
    cdef bint _is_closed

    cdef unsigned char *_raw
    cdef Py_ssize_t _room

    @cython.locals(estimated=double)
    cdef Py_ssize_t _estimate(self) noexcept nogil

    @cython.locals(key_bytes=bytes, value_bytes=bytes, header_bytes=bytearray, header_count=Py_ssize_t)
    cpdef bint append(self, long long timestamp, key, value, headers=*) except -1

    @cython.locals(
        header_size=Py_ssize_t,
        key_size=Py_ssize_t,
        value_size=Py_ssize_t,
        key_raw="const unsigned char *",
        value_raw="const unsigned char *",
        header_raw="const unsigned char *",
        status=Py_ssize_t,
    )
    cpdef Py_ssize_t append_packed(
        self, long long timestamp, bytes key, bytes value, Py_ssize_t header_count, bytearray header_bytes
    ) except -2

    @cython.locals(status=Py_ssize_t, before=Py_ssize_t)
    cpdef Py_ssize_t append_rows(self, Rows rows, Py_ssize_t position, Py_ssize_t end) except -1

    @cython.locals(data=bytearray)
    cdef _drop_data(self)

    cdef Py_ssize_t _append_plain_rows(self, Rows rows, Py_ssize_t position, Py_ssize_t end) noexcept nogil

    @cython.locals(
        row=Py_ssize_t,
        header_count=Py_ssize_t,
        header_bytes=bytearray,
        header_size=Py_ssize_t,
        header_raw="const unsigned char *",
        listed=list,
        status=Py_ssize_t,
    )
    cdef Py_ssize_t _append_row(self, Rows rows, Py_ssize_t position) except -1

    @cython.locals(
        row=Py_ssize_t,
        timestamp=cython.longlong,
        key_size=Py_ssize_t,
        value_size=Py_ssize_t,
        key_raw="const unsigned char *",
        value_raw="const unsigned char *",
    )
    cdef Py_ssize_t _put_row(
        self,
        Rows rows,
        Py_ssize_t position,
        Py_ssize_t header_count,
        const unsigned char *header_raw,
        Py_ssize_t header_size,
    ) noexcept nogil

    @cython.locals(
        content=Py_ssize_t,
        delta=cython.longlong,
        body=Py_ssize_t,
        size=Py_ssize_t,
        at=Py_ssize_t,
        out="unsigned char *",
    )
    cdef Py_ssize_t _append(
        self,
        long long timestamp,
        const unsigned char *key,
        Py_ssize_t key_size,
        const unsigned char *value,
        Py_ssize_t value_size,
        Py_ssize_t header_count,
        const unsigned char *header_raw,
        Py_ssize_t header_size,
    ) noexcept nogil

    @cython.locals(room=Py_ssize_t)
    cdef _grow(self, Py_ssize_t size)

    cpdef limit_to(self, Py_ssize_t size)

    @cython.locals(sealed=bytearray)
    cpdef close(self)

    cpdef release(self)

@cython.locals(out=bytearray, count=Py_ssize_t, encoded=bytes, data=bytes)
cpdef tuple pack_headers(headers)

cdef bytes _varint_bytes(long long value)

@cython.locals(room=bytearray, out="unsigned char *", end=Py_ssize_t)
cdef bytes _new_varint(long long value)
