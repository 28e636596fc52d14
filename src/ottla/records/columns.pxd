# The C types of columns.py, read by Cython alone; plain Python does without.

cimport cython

cdef Py_ssize_t _BYTES_MAX, _ROOM_FIRST

@cython.final
cdef class Binaries:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t nulls
    cdef readonly Py_ssize_t used
    cdef readonly bytearray valid
    cdef readonly bytearray ends
    cdef readonly bytearray data

    cdef bint has_room(self, Py_ssize_t size) noexcept

    @cython.locals(count=Py_ssize_t, size=Py_ssize_t, bits="unsigned char *")
    cdef int add(self, const unsigned char *raw, Py_ssize_t start, Py_ssize_t end) except -1

@cython.final
cdef class Columns:
    cdef readonly Py_ssize_t rows
    cdef readonly Binaries keys
    cdef readonly Binaries values
    cdef readonly Binaries header_names
    cdef readonly Binaries header_values
    cdef readonly bytearray offsets
    cdef readonly bytearray timestamps
    cdef readonly bytearray timestamp_types
    cdef readonly bytearray partitions
    cdef readonly bytearray topics
    cdef readonly bytearray header_ends

    cdef bint has_room(self, Py_ssize_t size) noexcept

    @cython.locals(row=Py_ssize_t)
    cdef int add(
        self, long long offset, long long timestamp, int timestamp_type, int partition, int topic
    ) except -1

cdef int _grow(bytearray store, Py_ssize_t size) except -1
