"""Runs that are stopped: by Ctrl-C, by a clock, by a task that is cancelled."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tessera
from models import add, model, tensor
from onnx import TensorProto, helper

X = np.ones((2, 2), np.float32)


def endless():
    """A loop of more rounds than anybody waits for."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Add", ["a", "one"], ["b"]),
        ],
        "body",
        [tensor("i", [], TensorProto.INT64), tensor("go", [], TensorProto.BOOL), tensor("a", [2])],
        [tensor("go_on", [], TensorProto.BOOL), tensor("b", [2])],
    )
    return model(
        [helper.make_node("Loop", ["rounds", "", "x"], ["y"], body=body)],
        [tensor("x", [2])],
        [tensor("y", [2])],
        [("rounds", np.array(1 << 40)), ("one", np.ones(2, np.float32))],
    )


@pytest.fixture(scope="module")
def session():
    return tessera.InferenceSession(endless())


FEED = {"x": np.zeros(2, np.float32)}


def press_soon(times):
    def press():
        time.sleep(0.2)
        times.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


@pytest.mark.parametrize("how", ["run", "run_with_ort_values", "run_with_iobinding"])
def test_ctrl_c(session, how):
    pressed = []
    thread = press_soon(pressed)
    with pytest.raises(KeyboardInterrupt):
        if how == "run_with_iobinding":
            binding = session.io_binding()
            binding.bind_cpu_input("x", FEED["x"])
            binding.bind_output("y")
            session.run_with_iobinding(binding)
        else:
            getattr(session, how)(None, FEED)
    waited = time.perf_counter() - pressed[0]
    thread.join()
    assert waited < 1, f"{waited:.3f} s after Ctrl-C"
    np.testing.assert_array_equal(tessera.InferenceSession(add())(X, X), 2)  # others run on


def test_handler_of_the_program_that_raises(session):
    class Enough(Exception):
        pass

    def handler(*_):
        raise Enough

    before = signal.signal(signal.SIGINT, handler)
    try:
        thread = press_soon([])
        time.sleep(0.05)  # the library looks for a new handler now and then
        with pytest.raises(Enough):
            session.run(None, FEED)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_handler_that_raises_nothing_lets_the_run_finish(session):
    calls = []
    before = signal.signal(signal.SIGINT, lambda *_: calls.append(1))
    try:
        time.sleep(0.05)
        thread = press_soon([])
        with pytest.raises(TimeoutError):
            session.run(None, FEED, timeout=0.6)
        thread.join()
        assert calls == [1]
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_program():
    program = f"""
import numpy as np, sys, tessera
session = tessera.InferenceSession(bytes.fromhex("{endless().hex()}"))
print("running", flush=True)
session.run(None, {{"x": np.zeros(2, np.float32)}})
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "running\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors


def test_timeout(session):
    start = time.perf_counter()
    with pytest.raises(TimeoutError, match="100 ms"):
        session.run(None, FEED, timeout=0.1)
    assert time.perf_counter() - start < 2
    options = tessera.RunOptions()
    with pytest.raises(TimeoutError):
        session.run(None, FEED, options, timeout=0.1)
    quick = tessera.InferenceSession(add())
    np.testing.assert_array_equal(quick.run(None, [X, X], options, timeout=10)[0], 2)  # the options are as before


def test_timeout_in_another_thread(session):
    seen = []

    def work():
        try:
            session.run(None, FEED, timeout=0.1)
        except TimeoutError as e:
            seen.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert len(seen) == 1


def test_terminate_from_another_thread(session):
    options = tessera.RunOptions()
    timer = threading.Timer(0.2, lambda: setattr(options, "terminate", True))
    timer.start()
    with pytest.raises(tessera.Fail, match="terminate"):
        session.run(None, FEED, options)


def test_other_threads_run_meanwhile(session):
    options = tessera.RunOptions()
    thread = threading.Thread(target=lambda: pytest.raises(tessera.Fail, session.run, None, FEED, options))
    thread.start()
    count = sum(range(100_000))
    options.terminate = True
    thread.join(10)
    assert count and not thread.is_alive()


def test_arun():
    session = tessera.InferenceSession(add())

    async def main():
        results = await asyncio.gather(*(session.arun(None, {"x": X * k, "y": X}) for k in range(5)))
        return [r[0][0, 0] for r in results]

    assert asyncio.run(main()) == [1, 2, 3, 4, 5]


def test_cancelling_a_task_stops_its_run(session):
    async def main():
        ticks = 0
        task = asyncio.ensure_future(session.arun(None, FEED))
        for _ in range(10):
            await asyncio.sleep(0.01)
            ticks += 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ticks

    assert asyncio.run(main()) == 10


def test_loading_can_be_cancelled():
    options = tessera.SessionOptions()
    options.set_load_cancellation_flag(True)
    with pytest.raises(tessera.ModelLoadCanceled):
        tessera.InferenceSession(add(), options)
    options.set_load_cancellation_flag(False)
    tessera.InferenceSession(add(), options)
