# SPDX-License-Identifier: Apache-2.0
"""halay.ray.RayExecutor: ranks that are Ray's actors meet, run functions and end together. With Ray, or with the
stand-in for it in tests/python/stand_ins."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:1] + [os.environ.get("PYTHONPATH", "")])

import ray  # noqa: E402
from checks import raises  # noqa: E402


def add(amount=0):
    """The sum over the ranks; contexts of a process may follow each other."""
    import array

    import halay

    for _ in range(2):
        with halay.Context() as ctx:
            given = array.array("f", [ctx.rank + amount])
            ctx.allreduce(given, out=given, name="sum")
            assert str(ctx.rank) == os.environ["RANK"] and str(ctx.size) == os.environ["WORLD_SIZE"]
    return ctx.rank, ctx.size, given[0], os.environ.get("GIVEN")


def fail_on_one():
    import array

    import halay

    with halay.Context() as ctx:
        if ctx.rank == 1:
            raise ValueError("one has failed")
        ctx.allreduce(array.array("f", [0]), name="never")


class Counter:
    def __init__(self, first):
        self.value = first


def count(counter):
    counter.value += 1
    return counter.value


def main():
    from halay.ray import RayExecutor

    raises(ValueError, RayExecutor, "num_workers", "num_hosts")
    raises(ValueError, lambda: RayExecutor(num_workers=1, gpus_per_worker=1), "use_gpu")
    executor = RayExecutor(RayExecutor.create_settings(timeout_s=60), num_workers=3)
    raises(RuntimeError, lambda: executor.run(add), "call start()")
    executor.start(executable_cls=Counter, executable_args=[5], extra_env_vars={"GIVEN": "this"})
    assert executor.run(add, [1.5]) == [(rank, 3, 7.5, "this") for rank in range(3)]
    assert ray.get(executor.run_remote(add, kwargs={"amount": 1})) == [(rank, 3, 6.0, "this") for rank in range(3)]
    assert executor.execute(count) == [6, 6, 6] and executor.execute_single(count) == 7
    try:
        executor.run(fail_on_one)
    except Exception as failure:
        assert "one has failed" in str(failure), failure
    else:
        raise AssertionError("a rank's failure is not reported")
    raises(RuntimeError, lambda: executor.run(add), "call start()")
    executor.start()
    assert [result[2] for result in executor.run(add)] == [3.0, 3.0, 3.0]
    executor.shutdown()
    print("ranks of Ray's meet, and end together")


if __name__ == "__main__":
    ray.init(num_cpus=4, log_to_driver=False, include_dashboard=False)
    main()
    ray.shutdown()
