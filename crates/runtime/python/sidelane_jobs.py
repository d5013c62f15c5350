# SPDX-License-Identifier: MIT
"""Job marks from Python: where a server's jobs begin and end, and when their answers are due.

    with Job(budget_s=0.02) as job:
        while work_is_left() and not job.should_stop(reserve_s=0.001):
            ...

A gRPC server marks each call by `@marked`, with the deadline that the client gave:

    class Greeter(GreeterServicer):
        @marked
        def SayHello(self, request, context): ...

Where no 'sidelane run' schedules the thread, marks do nothing. A job is of the thread that begins it: in asyncio, where one
thread serves many calls in turn, the last one begun tells the age. docs/runtime.md has more.
"""

import ctypes
import functools
import os

_LIBRARY = os.environ.get("SIDELANE_RUNTIME_LIBRARY", "libsidelane_runtime.so.0")
_NONE = 2**64 - 1


class _Job(ctypes.Structure):
    _fields_ = [("begin_ns", ctypes.c_uint64), ("deadline_ns", ctypes.c_uint64)]


def _load():
    # no call takes long: letting other threads of Python run meanwhile would cost more
    library = ctypes.PyDLL(_LIBRARY)

    def function(name, result, *arguments):
        found = getattr(library, "sidelane_" + name)
        found.restype, found.argtypes = result, arguments
        return found

    u64 = ctypes.c_uint64
    return (
        function("job_begin", _Job, u64),
        function("job_begun_at", _Job, u64, u64),
        function("job_time_left_ns", u64, _Job),
        function("job_should_stop", ctypes.c_bool, _Job, u64),
        function("job_end", u64, _Job),
    )


_begin, _begun_at, _time_left_ns, _should_stop, _end = _load()


def _ns(seconds):
    """As the library takes it: 0 there means that there is no deadline."""
    return 0 if seconds is None else int(min(max(seconds * 1e9, 1), 2**63))


class Job:
    """One request's worth of work, from now on or from `begun_ns`, as time.monotonic_ns() tells it."""

    def __init__(self, budget_s=None, begun_ns=None):
        budget_ns = _ns(budget_s)
        self._job = _begin(budget_ns) if begun_ns is None else _begun_at(begun_ns, budget_ns)
        self.took_s = None

    def time_left_s(self):
        """Until the deadline; 0: it has passed; None: there is none."""
        left_ns = _time_left_ns(self._job)
        return None if left_ns == _NONE else left_ns / 1e9

    def should_stop(self, reserve_s=0.0):
        """Is it time to answer with a partial result? Answering takes `reserve_s`."""
        return _should_stop(self._job, int(reserve_s * 1e9))

    def end(self):
        """Ends it, once; how long it took."""
        if self.took_s is None:
            self.took_s = _end(self._job) / 1e9
        return self.took_s

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def marked(method):
    """A gRPC method whose calls are jobs, due when the client stops to wait."""

    @functools.wraps(method)
    def call(self, request, context):
        with Job(context.time_remaining()):
            return method(self, request, context)

    return call
