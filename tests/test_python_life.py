"""The Python package's life: streams, Ctrl-C, threads, forks, closing, the end of the interpreter."""

import asyncio
import copy
import gc
import multiprocessing
import os
import pickle
import threading
import time

import pytest
from python_package import LONG, PROMPT, QWEN, SLOW, interrupt, run

import munia


@pytest.fixture(scope="module")
def model():
    with munia.Model(QWEN) as loaded:
        yield loaded


@pytest.fixture
def slow():
    with munia.Model(QWEN, **SLOW) as loaded:
        yield loaded


# Streams

def test_a_stream_is_the_reply(model):
    whole = model.chat("你好", max_tokens=40)
    stream = model.chat("你好", max_tokens=40, stream=True)
    assert stream.result is None
    pieces = list(stream)
    assert "".join(pieces) == whole.text and len(pieces) > 3
    assert stream.result.ids == whole.ids and stream.result.usage.completion_tokens == 40
    assert list(stream) == []  # it has ended


def test_a_stream_comes_as_it_is_made(slow):
    """The first piece is there long before the reply is: it can be cancelled, and then has not ended."""
    stream = slow.generate(PROMPT, stream=True, **LONG)
    first = next(stream)
    stream.cancel()
    rest = list(stream)
    assert first and len(rest) < 800 and stream.result is None
    stream.cancel()
    with slow.generate(PROMPT, stream=True, **LONG) as other:
        next(other)
    assert len(list(other)) < 800 and other.result is None
    # Nothing runs any more: another reply is the one that a model gives that never did anything else.
    with munia.Model(QWEN) as fresh:
        assert slow.generate(PROMPT, max_tokens=3).ids == fresh.generate(PROMPT, max_tokens=3).ids


def test_a_dropped_stream_ends(slow):
    stream = slow.generate(PROMPT, stream=True, **LONG)
    next(stream)
    began = time.monotonic()
    del stream
    gc.collect()
    slow.close()  # waits for nothing
    assert time.monotonic() - began < 30
    with pytest.raises(munia.ModelError, match="was closed"):
        slow.generate(PROMPT)


def test_a_stream_keeps_its_model():
    text = "".join(munia.Model(QWEN).chat("你好", max_tokens=8, stream=True))
    with munia.Model(QWEN) as again:
        assert text == again.chat("你好", max_tokens=8).text


def test_errors_come_before_a_stream(model):
    with pytest.raises(ValueError, match="max_tokens is 0"):
        model.generate("a", max_tokens=0, stream=True)


def test_async_streams_at_the_same_time(model):
    prompts = [f"第{i}号" for i in range(12)]
    wanted = [model.generate(prompt, max_tokens=40).text for prompt in prompts]

    async def read(prompt):
        async with model.generate(prompt, max_tokens=40, stream=True) as stream:
            text = "".join([piece async for piece in stream])
        assert stream.result.text == text
        return text

    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        texts = await asyncio.gather(*(read(prompt) for prompt in prompts))
        ticking.cancel()
        assert ticks > 5  # the loop was not blocked
        return texts

    assert asyncio.run(main()) == wanted


def test_an_async_reader_can_be_cancelled(slow):
    async def main():
        stream = slow.generate(PROMPT, stream=True, **LONG)

        async def read():
            async with stream:
                async for _ in stream:
                    pass

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read(), 0.3)
        return [piece async for piece in stream], stream

    rest, stream = asyncio.run(main())
    assert len(rest) < 800 and stream.result is None


def test_streams_leave_no_descriptors_and_threads(model):
    async def read():
        return [piece async for piece in model.generate("a", max_tokens=2, stream=True)]

    asyncio.run(read())
    gc.collect()
    n_before = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    for _ in range(20):
        asyncio.run(read())
        model.generate("a", max_tokens=4, stream=True).cancel()
    gc.collect()
    assert (len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))) == n_before


# Threads

def test_threads_get_the_same_bytes(model):
    texts = [f"第{i}号，很好" for i in range(8)]
    wanted = [(model.predict(text, max_tokens=12).reply, model.classify(text).probabilities,
               model.logits(text).tobytes()) for text in texts]
    found, errors = [None] * len(texts), []

    def work(i):
        try:
            for _ in range(3):
                stream = model.generate(texts[i], max_tokens=5, stream=True)
                found[i] = (model.predict(texts[i], max_tokens=12).reply,
                            model.classify(texts[i]).probabilities, model.logits(texts[i]).tobytes())
                assert "".join(stream) == stream.result.text
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and found == wanted


def test_other_threads_run_while_a_call_computes(slow):
    """Without the GIL released nothing could be counted before the reply is there."""
    done = threading.Event()
    counts = []

    def count():
        while not done.is_set():
            counts.append(1)
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    slow.generate(PROMPT, **(LONG | {"max_tokens": 500}))
    done.set()
    counter.join()
    assert len(counts) > 5


def test_close_ends_what_others_wait_for(slow):
    errors = []
    begun = threading.Barrier(4)

    def work(ask):
        begun.wait()
        try:
            ask()
        except munia.ModelError as error:
            errors.append(str(error))

    asks = [lambda: slow.generate(PROMPT, **LONG), lambda: slow.chat(PROMPT, **LONG),
            lambda: list(slow.generate(PROMPT, stream=True, **LONG))]
    threads = [threading.Thread(target=work, args=(ask,)) for ask in asks]
    for thread in threads:
        thread.start()
    begun.wait()
    time.sleep(0.3)
    slow.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert len(errors) == 3 and all("closed" in error for error in errors)
    assert slow.closed and "closed" in repr(slow) and slow.info.n_layers == 2
    slow.close()
    for call in (lambda: slow.tokenize("a"), lambda: slow.classify(["a"])):
        with pytest.raises(munia.ModelError, match="the model was closed; load it again"):
            call()


# Ctrl-C

@pytest.fixture(scope="module")
def whole_seconds():
    """How long a reply takes that nobody interrupts."""
    with munia.Model(QWEN, **SLOW) as one:
        began = time.monotonic()
        one.generate(PROMPT, **LONG)
        return time.monotonic() - began


@pytest.mark.parametrize("call", [
    "model.generate(PROMPT, **LONG)",
    "model.chat(PROMPT, **LONG)",
    "model.predict(PROMPT, **LONG)",
    "list(model.generate(PROMPT, stream=True, **LONG))",
    "model.classify([f'{i:05}' * 160 for i in range(20_000)])",
    "while True: model.score(PROMPT, [f'{i:02}' * 400 for i in range(16)])",
    "while True: model.logits('很好' * 200, all=True)",
    "model.learn([f'{i:05}' * 160 for i in range(10_000)], ['a', 'b'] * 5000)",
])
def test_ctrl_c_ends_a_call_and_the_model_goes_on(call, whole_seconds):
    """Long before it would have ended by itself: Python raises KeyboardInterrupt then, too. (The last
    two would take minutes.)"""
    status, out, err, seconds = interrupt(f"""
        model = munia.Model(QWEN, **SLOW)
        print("begin", flush=True)
        try:
            {call}
            print("it ended by itself")
        except KeyboardInterrupt:
            print("interrupted", repr(model.generate(PROMPT, max_tokens=3).text))
    """)
    with munia.Model(QWEN) as one:
        assert out == f"interrupted {one.generate(PROMPT, max_tokens=3).text!r}\n", (out, err)
    assert status == 0 and err == ""
    assert seconds < max(whole_seconds * 0.7, 5), (seconds, whole_seconds)


def test_ctrl_c_without_a_handler_ends_the_program():
    status, out, err, _ = interrupt("""
        model = munia.Model(QWEN, **SLOW)
        stream = model.generate(PROMPT, stream=True, **LONG)
        print("begin", flush=True)
        model.generate(PROMPT, **LONG)
    """)
    assert status == -2 and "KeyboardInterrupt" in err and out == ""
    assert "terminate" not in err and "Fatal" not in err


def test_ctrl_c_ends_an_async_reader():
    status, out, err, _ = interrupt("""
        import asyncio
        model = munia.Model(QWEN, **SLOW)
        async def main():
            print("begin", flush=True)
            async for piece in model.generate(PROMPT, stream=True, **LONG):
                pass
        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            print("interrupted")
    """)
    assert (status, out, err) == (0, "interrupted\n", "")


def test_a_handler_that_closes_the_model():
    status, out, err, _ = interrupt("""
        import signal
        model = munia.Model(QWEN, **SLOW)
        signal.signal(signal.SIGINT, lambda *_: model.close())
        print("begin", flush=True)
        try:
            model.generate(PROMPT, **LONG)
        except munia.ModelError as error:
            print(error)
    """)
    assert (status, out, err) == (0, "the model was closed before the call had ended\n", "")


# Forks and copies

def test_a_forked_child_is_told():
    status, out, err = run("""
        model = munia.Model(QWEN)
        stream = model.generate(PROMPT, stream=True, max_tokens=40)
        threading.Thread(target=lambda: [model.generate(PROMPT, max_tokens=200)]).start()
        pid = os.fork()
        if pid == 0:
            told = 0
            for call in (lambda: model.generate(PROMPT), lambda: next(stream),
                         lambda: model.tokenize("a"), lambda: model.classify(["a"])):
                try:
                    call()
                except munia.ModelError as error:
                    told += "was forked from it" in str(error)
            model.close()
            del model, stream
            sys.exit(10 + told)   # with atexit and everything
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), "".join(stream) == stream.result.text)
    """)
    assert (status, out) == (0, "14 True\n"), err


def _reply(model):
    return model.generate(PROMPT, max_tokens=3).text


def test_a_pickled_model_is_loaded_again(model):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_reply, [model]) == [_reply(model)]
    again = pickle.loads(pickle.dumps(munia.Model(QWEN, threads=1, context=100)))
    assert (again.info.threads, again.info.context) == (1, 100)
    assert copy.deepcopy(model) is model and copy.copy(model) is model


# The end

@pytest.mark.parametrize("code", [
    "model = munia.Model(QWEN)",
    "model = munia.Model(QWEN); stream = model.generate(PROMPT, stream=True, **LONG); next(stream)",
    "import builtins; builtins.kept = munia.Model(QWEN, **SLOW).generate(PROMPT, stream=True, **LONG)",
    """
    model = munia.Model(QWEN, **SLOW)
    for _ in range(3):
        threading.Thread(target=lambda: model.generate(PROMPT, **LONG), daemon=True).start()
    stream = model.generate(PROMPT, stream=True, **LONG)
    threading.Thread(target=lambda: list(stream), daemon=True).start()
    threading.excepthook = lambda *_: None
    time.sleep(0.3)
    """,
    """
    import asyncio
    model = munia.Model(QWEN, **SLOW)
    async def read():
        async for _ in model.generate(PROMPT, stream=True, **LONG):
            return
    asyncio.run(read())
    """,
    """
    class Loop:
        pass
    loop = Loop()
    loop.itself, loop.model = loop, munia.Model(QWEN)
    loop.stream = loop.model.generate(PROMPT, stream=True, **LONG)
    """,
    "model = munia.Model(QWEN, **SLOW); stream = model.generate(PROMPT, stream=True, **LONG); sys.exit(0)",
])
def test_the_interpreter_ends_cleanly(code):
    if "\n" not in code:
        code = code.replace("; ", "\n")
    assert run(code) == (0, "", "")
