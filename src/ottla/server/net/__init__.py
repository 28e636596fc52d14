"""Requests and responses: listeners, connections, dispatch, limits, and requests that wait or take long.

No request may hold the event loop for long:
- A connection serves the frames of one read for up to 4 ms; the rest waits for a later turn (`turns.py`).
- Generators decode frames of 16 KB and more, and encode their responses (`codec.sliced_decoder`,
  `sliced_encoder`). A handler whose work grows with its request is a generator too.
- `long_requests.py` runs the first 4 ms slice of such a request at once; `step_runner.py` and
  `coordinator/slices.py` run the rest between other requests.
- A produce request with many partitions continues in later turns. A thread (`batch_worker.py`, one batch at a
  time) validates batches above 4 MiB, compressed or not, and recompresses batches above 16 KiB.
- A request whose response may be many times its size is handled alone on its connection. Unread responses of
  this kind share a budget, and it waits until there is room (`response_memory.py`).

Until such a request is handled, its connection serves no other request, so that none overtakes it.
"""
