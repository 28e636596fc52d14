# The C types of offset_commit_fast_path.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.records.big_endian cimport int_at, short_at

cdef int _FIRST, _LAST, _BY_ID, _ONE_BYTE
cdef Py_ssize_t _BYTES_MIN, _BYTES_MAX, _ID_BYTES, _PARTITION_BYTES, _ROW_BYTES, _POSITION_BYTES, _ROWS_MAX
cdef Py_ssize_t _ANSWER_HEAD_BYTES
cdef bytes _ROW_END

@cython.final
cdef class CommitFastPath:
    cdef object _broker

    @cython.locals(
        raw="const unsigned char *",
        size=Py_ssize_t,
        position=Py_ssize_t,
        group_at=Py_ssize_t,
        group_end=Py_ssize_t,
        epoch=cython.longlong,
        member_at=Py_ssize_t,
        member_end=Py_ssize_t,
        instance_at=Py_ssize_t,
        instance_size=Py_ssize_t,
        topics_at=Py_ssize_t,
        topics_left=int,
        topic_at=Py_ssize_t,
        rows_left=int,
        index=cython.longlong,
        record_bytes=Py_ssize_t,
        records=list,
        answer=list,
        group_bytes=bytes,
        group_part=bytes,
        name_bytes=bytes,
        key_start=bytes,
        value_start=bytes,
        value_end=bytes,
        index_bytes=bytes,
        key=bytes,
        value=bytes,
        body=bytes,
        head=bytes,
        frame_out=bytes,
    )
    cpdef bint take(self, connection, memoryview frame, int version, long long correlation_id) except -1

cdef bytes _piece(const unsigned char *raw, Py_ssize_t start, Py_ssize_t end)
