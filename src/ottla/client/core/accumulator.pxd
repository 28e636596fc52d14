# The C types of accumulator.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.records.builder cimport BatchBuilder as Builder
from ottla.records.key_hash cimport key_partition

cdef int _NEEDS_TOPIC, _NEEDS_ROOM
cdef Py_ssize_t _GROWN_BYTES_MAX

@cython.final
@cython.freelist(64)
cdef class DeliveryReport:
    cdef readonly object topic
    cdef readonly int partition
    cdef readonly long long offset
    cdef readonly long long timestamp
    cdef readonly object status
    cdef readonly object error

# Without garbage collection: a delivery is in a cycle only until its batch has called it back.
@cython.final
@cython.freelist(256)
@cython.no_gc
cdef class Delivery:
    cdef readonly long long timestamp
    cdef readonly object callback
    cdef Batch _batch
    cdef Py_ssize_t _index

    @cython.locals(batch=Batch, offset=cython.longlong, timestamp=cython.longlong, report=DeliveryReport)
    cpdef DeliveryReport _report(self)

@cython.final
cdef class Batch:
    cdef readonly PartitionQueue queue
    cdef readonly Builder builder
    cdef readonly double created
    cdef public Py_ssize_t reserved
    cdef public bint is_open
    cdef public bint is_taking
    cdef public bint is_done
    cdef public long long base_offset
    cdef public long long log_append_time
    cdef public object status
    cdef public object error
    cdef public dict record_errors
    cdef public list pieces
    cdef public list watched
    cdef public list listeners
    cdef public int attempts
    cdef public bint is_in_flight
    cdef public bint is_doubtful
    cdef public bint is_split
    cdef public bint is_reset
    cdef public long long producer_id
    cdef public int producer_epoch
    cdef public int sequence

    @cython.locals(delivery=Delivery, watched=list, failures=list)
    cpdef list call_back(self)

@cython.final
cdef class PartitionQueue:
    cdef readonly TopicQueues topic
    cdef readonly int index
    cdef public Batch open
    cdef public object batches
    cdef public int in_flight
    cdef public double blocked_until
    cdef public object sequences
    cdef public Batch probe

@cython.final
cdef class TopicQueues:
    cdef readonly Accumulator accumulator
    cdef readonly str name
    cdef public object view
    cdef public double ratio
    cdef public bint may_grow
    cdef public Py_ssize_t proven_bytes
    cdef public double last_used
    cdef public list queues
    cdef public object sticky
    cdef public PartitionQueue sticky_queue
    cdef public Py_ssize_t sticky_bytes

    @cython.locals(made=TopicQueues, queue=PartitionQueue)
    cpdef TopicQueues recreated(self, view, sticky)

@cython.final
cdef class Accumulator:
    cdef readonly Py_ssize_t batch_size
    cdef readonly int codec
    cdef readonly object level
    cdef readonly long long buffer_memory
    cdef readonly Py_ssize_t max_request_size
    cdef readonly bint ignores_keys
    cdef readonly bint may_grow
    cdef readonly object random
    cdef public long long used
    cdef public bint is_fast
    cdef public dict topics
    cdef public dict active
    cdef public dict incomplete
    cdef public object block
    cdef public object wait
    cdef public object lock
    cdef object _now_ns
    cdef object _monotonic
    cdef object _wake
    cdef object _fallback
    cdef bint _locks

    @cython.locals(
        queues=TopicQueues,
        queue=PartitionQueue,
        delivery=Delivery,
        sticky=bint,
        header_count=Py_ssize_t,
        header_bytes=bytearray,
        missing=int,
        raw="const unsigned char *",
    )
    cpdef object append(
        self, str topic, bytes key, bytes value, headers, Py_ssize_t partition, long long timestamp, callback
    )

    @cython.locals(batch=Batch)
    cdef bint _put_open(
        self,
        PartitionQueue queue,
        Delivery delivery,
        bytes key,
        bytes value,
        Py_ssize_t header_count,
        bytearray header_bytes,
    ) except -1

    @cython.locals(index=Py_ssize_t)
    cdef bint _put(
        self,
        Batch batch,
        Delivery delivery,
        bytes key,
        bytes value,
        Py_ssize_t header_count,
        bytearray header_bytes,
    ) except -1

    @cython.locals(made=Batch, builder=Builder, size=Py_ssize_t, batch_size=Py_ssize_t, reserved=Py_ssize_t, share=Py_ssize_t)
    cdef int _put_new(
        self,
        TopicQueues queues,
        PartitionQueue queue,
        bint sticky,
        Delivery delivery,
        bytes key,
        bytes value,
        Py_ssize_t header_count,
        bytearray header_bytes,
    ) except -1

    @cython.locals(waiting=Py_ssize_t, grown=Py_ssize_t)
    cdef Py_ssize_t _new_batch_size(self, TopicQueues queues, PartitionQueue queue) except -1

    cdef _check_size(self, Py_ssize_t size, str what, str topic)
