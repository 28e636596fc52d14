# What the kernels use of Python's C interface beyond what Cython declares.

from cpython.object cimport PyTypeObject

cdef extern from "Python.h":
    object new_tuple "PyType_GenericAlloc" (PyTypeObject *kind, Py_ssize_t count)

cdef extern from "Python.h":
    ctypedef struct Py_buffer:
        void *buf
        Py_ssize_t len
        int readonly
    Py_buffer *PyMemoryView_GET_BUFFER(object view)

cdef inline unsigned char *first_byte(memoryview view) noexcept:
    """Of a view on consecutive bytes that its owner keeps where they are."""
    return <unsigned char *> PyMemoryView_GET_BUFFER(view).buf

cdef inline Py_ssize_t byte_count(memoryview view) noexcept:
    return PyMemoryView_GET_BUFFER(view).len
