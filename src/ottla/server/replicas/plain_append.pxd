# The C types of plain_append.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.log.plain_append cimport append_to_log

cdef long long _NOT_PLAIN, _FLUSH_NEVER

@cython.locals(in_sync=Py_ssize_t, offset=cython.longlong, end_offset=cython.longlong)
cpdef long long append_as_leader(
    partition, memoryview data, Py_ssize_t start, Py_ssize_t end, long long acks, long long now_ms
) except? -1
