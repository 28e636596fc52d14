# What the kernels use of Python's C interface beyond what Cython declares.

from cpython.object cimport PyTypeObject

cdef extern from *:
    """
    /* An instance of a subclass of tuple without attributes of its own. The garbage collector does not visit
       it until `PyObject_GC_Track`. Fill every place before anything else runs. */
    static inline PyObject *new_untracked_tuple(PyTypeObject *kind, Py_ssize_t count) {
        PyTupleObject *made = PyObject_GC_NewVar(PyTupleObject, kind, count);
    #if PY_VERSION_HEX >= 0x030E0000
        if (made != NULL) {
            made->ob_hash = -1;
        }
    #endif
        return (PyObject *) made;
    }
    """
    object new_untracked_tuple(PyTypeObject *kind, Py_ssize_t count)

cdef extern from "Python.h":
    bint is_collectable "PyObject_IS_GC" (object value)
    void track "PyObject_GC_Track" (object value)

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
