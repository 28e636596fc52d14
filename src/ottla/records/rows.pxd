# The C types of rows.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.records.key_hash cimport key_partition

cdef bytes _NOTHING

@cython.final
cdef class Cells:
    cdef readonly Py_ssize_t first
    cdef readonly bint has_nulls
    cdef const unsigned char[::1] valid
    cdef const long long[::1] offsets
    cdef const unsigned char[::1] data

    @cython.locals(at=Py_ssize_t)
    cdef bint is_null(self, Py_ssize_t row) noexcept nogil

    cdef Py_ssize_t start(self, Py_ssize_t row) noexcept nogil

    cdef const unsigned char *at(self, Py_ssize_t row, Py_ssize_t size) noexcept nogil

    cdef Py_ssize_t size(self, Py_ssize_t row) noexcept nogil

@cython.final
cdef class Lists:
    cdef readonly Py_ssize_t first
    cdef readonly bint has_nulls
    cdef const unsigned char[::1] valid
    cdef const long long[::1] offsets
    cdef readonly Cells names
    cdef readonly Cells values

    @cython.locals(at=Py_ssize_t, index=Py_ssize_t, found=list)
    cdef list pack(self, Py_ssize_t row)

    @cython.locals(size=Py_ssize_t, start=Py_ssize_t)
    cdef bytes _cell(self, Cells cells, Py_ssize_t index)

@cython.final
cdef class Rows:
    cdef readonly Py_ssize_t count
    cdef readonly Cells keys
    cdef readonly Cells values
    cdef readonly Lists headers
    cdef readonly bint has_timestamps
    cdef readonly bint has_partitions
    cdef readonly long long now_ms
    cdef const unsigned char *nothing
    cdef const long long[::1] timestamps
    cdef const int[::1] partitions
    cdef readonly bint is_arranged
    cdef long long[::1] order

    @cython.locals(keys=Cells, row=Py_ssize_t, place=Py_ssize_t, partition=int, size=Py_ssize_t, raw="const unsigned char *")
    cdef Py_ssize_t _choose(
        self, Py_ssize_t partition_count, bint ignore_keys, long long[::1] starts, int[::1] chosen
    ) except -2

    @cython.locals(next_places="long long[::1]", row=Py_ssize_t, place=Py_ssize_t)
    cdef _sort(self, Py_ssize_t partition_count, long long[::1] starts, int[::1] chosen)
