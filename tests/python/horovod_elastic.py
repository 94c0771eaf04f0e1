# SPDX-License-Identifier: Apache-2.0
"""An elastic training of Horovod's API in which rank 1 is killed once: the weights are those of an undisturbed one.

Every rank's gradient is the number of the step, so that their average does not depend on how many ranks there are.
"""
import os
import signal
import sys
import time

import torch

import halay.torch as hvd

STEPS = 20
mark = sys.argv[1]

hvd.init()
torch.set_num_threads(1)
model = torch.nn.Linear(3, 1, bias=False)
torch.nn.init.zeros_(model.weight)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5),
                                     named_parameters=model.named_parameters())
sampler = hvd.elastic.ElasticSampler(list(range(40)), shuffle=False)
resets = []


def has_reset():
    resets.append((hvd.rank(), hvd.size()))


@hvd.elastic.run
def train(state):
    if hvd.rank() == 0:
        print(f"{hvd.size()} ranks begin at step {state.step}", flush=True)
    while state.step < STEPS:
        optimizer.zero_grad()
        (model.weight.sum() * (state.step + 1)).backward()
        optimizer.step()
        state.step += 1
        sampler.record_batch(0, 1)
        state.history.append(state.step)
        if state.step == 7 and hvd.rank() == 1 and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        if state.step % 3 == 0:
            state.commit()
        while state.step == 15 and hvd.size() == 1:  # the new process may be late: it joins in a commit
            time.sleep(0.05)
            state.commit()
        time.sleep(0.02)


state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, step=0, history=[])
state.register_reset_callbacks([has_reset])
train(state)

weight, moment = 0.0, 0.0
for step in range(1, STEPS + 1):
    moment = 0.5 * moment + step
    weight -= moment
assert torch.allclose(model.weight, torch.full((1, 3), weight)), (model.weight, weight)
assert state.history == list(range(1, STEPS + 1)), state.history
assert hvd.size() == 2 and 0 < sampler.processed_num <= 2 * STEPS, sampler.processed_num
if hvd.rank() == 0:
    assert resets, "the job was never re-formed"
    print(f"the weights of an undisturbed run after {len(resets)} changes", flush=True)
hvd.shutdown()
