# What the kernels use of Python's C interface beyond what Cython declares.

from cpython.object cimport PyTypeObject

cdef extern from "Python.h":
    object new_tuple "PyType_GenericAlloc" (PyTypeObject *kind, Py_ssize_t count)
