# SPDX-License-Identifier: Apache-2.0
"""Training with PyTorch on several ranks, on GPUs where there are some: halayrun -np 2 python torch_training.py

On GPUs the gradients stay there. step() waits until those of all ranks are there, not for their sums.
"""
import torch

import halay.torch as hvd

hvd.init()
device = torch.device("cpu")
if torch.cuda.is_available():
    device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)

model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # all ranks begin with the same weights

x = torch.randn(64, 16, generator=torch.Generator().manual_seed(hvd.rank())).to(device)
y = x[:, :1] * 2
losses = []
for _ in range(50):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()  # a bucket of gradients begins to be reduced when its last one is there
    optimizer.step()
    losses.append(loss.detach())

sums = hvd.allgather(torch.nn.utils.parameters_to_vector(model.parameters()).detach().sum().reshape(1))
assert (sums == sums[0]).all(), sums
assert losses[-1] < losses[0]
print(f"rank {hvd.rank()} on {device}: loss {losses[0]:.3f}, {losses[-1]:.3f} after 50 steps; "
      "all ranks have the same weights")
hvd.shutdown()
