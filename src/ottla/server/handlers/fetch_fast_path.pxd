# The C types of fetch_fast_path.py, read by Cython alone; plain Python does without.

cimport cython

from ottla.records.big_endian cimport int_at, long_at, put_int, put_long, short_at

cdef int _FIRST, _LAST
cdef Py_ssize_t _PARTITIONS_MAX, _ID_BYTES, _FIXED_BYTES, _ASKED_BYTES, _STATE_BYTES
cdef Py_ssize_t _START_BYTES, _ANSWERED_BYTES, _READ_NOW_BYTES_MAX
cdef double _TIMER_STEP_S, _TIMER_MAX_S, _NO_TIMER

@cython.final
cdef class FetchFastPath:
    cdef object _broker
    cdef object continued
    cdef object send
    cdef object frame_of

    @cython.locals(
        raw="const unsigned char *",
        size=Py_ssize_t,
        at=Py_ssize_t,
        fixed=Py_ssize_t,
        session_epoch=cython.longlong,
        known=dict,
        wait=_Waiting,
        named=list,
        topics=int,
        count=int,
        replica_id=cython.longlong,
        broker_epoch=cython.longlong,
    )
    cpdef bint take(self, connection, memoryview frame, int version, long long correlation_id) except *

@cython.final
cdef class _Waiting:
    cdef FetchFastPath _quick
    cdef object _broker
    cdef object _session
    cdef object _connection
    cdef object _pending
    cdef bytes _frame
    cdef int _version
    cdef long long _correlation_id
    cdef long long _wait_ms, _min_bytes, _max_bytes, _replica_id, _broker_epoch
    cdef bint _is_due
    cdef double _deadline, _timer_at
    cdef object _timer
    cdef object _loop

    cdef bint is_waiting(self) except *
    cdef void begin(
        self, long long wait_ms, long long min_bytes, long long max_bytes, long long replica_id, long long broker_epoch
    ) noexcept
    cdef answer(self, connection, memoryview frame, int version, long long correlation_id)
    @cython.locals(is_follower=cython.bint, has_grown=cython.bint, watched=list, wait_ms=cython.longlong)
    cdef _wait(self, connection, bytes frame)
    cdef _set_timer(self)
    cpdef on_growth(self)
    cpdef answer_if_enough(self)
    cpdef on_time(self)
    cdef _complete(self, parts)
    cdef _forget(self)
    cdef _look_again(self, bint is_late)
    cdef _look_safely(self, bint is_first, bint must_answer)
    @cython.locals(
        replica_id=cython.longlong,
        is_follower=cython.bint,
        awake=list,
        staying=list,
        topics=dict,
        hosted=dict,
        epoch=cython.longlong,
        offset=cython.longlong,
        end_offset=cython.longlong,
        last_epoch=cython.longlong,
        now_ms=cython.longlong,
        budget=cython.longlong,
        total=cython.longlong,
        count=cython.longlong,
        limit_bytes=cython.longlong,
        limit_offset=cython.longlong,
        log_start_offset=cython.longlong,
        found=list,
    )
    cdef _look(self, bint is_first, bint must_answer)
    @cython.locals(log_start_before=cython.longlong, end_before=cython.longlong)
    cdef _note(self, fetched, partition, log, progress, long long now_ms)
    @cython.locals(
        contents=list,
        pieces=list,
        topics=Py_ssize_t,
        in_topic=Py_ssize_t,
        topic_place=Py_ssize_t,
        number=Py_ssize_t,
        high_watermark=cython.longlong,
        stable_offset=cython.longlong,
        log_start_offset=cython.longlong,
        count=Py_ssize_t,
        is_told=cython.bint,
        size=Py_ssize_t,
    )
    cdef _parts_of(self, list found)

@cython.locals(
    end_offset=cython.longlong, positions=dict, items=list, position=cython.longlong, end=cython.longlong
)
cdef _locate(log, long long offset, long long limit_bytes, long long limit_offset, bint at_least_one)

cpdef _as_it_is(response)
cdef list _joined(list pieces)
cdef bytes _count(Py_ssize_t count)
cdef bytes _varint(Py_ssize_t value)
@cython.locals(start=bytes, out="unsigned char *")
cdef bytes _start(Py_ssize_t size, long long correlation_id, long long session_id)
@cython.locals(answered=bytes, out="unsigned char *")
cdef bytes _answered(long long index, long long high_watermark, long long stable_offset, long long log_start_offset)
