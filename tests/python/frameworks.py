# SPDX-License-Identifier: Apache-2.0
"""A small training by a framework over a backend of torch.distributed: frameworks.py FRAMEWORK BACKEND

Each rank prints the sum of its final weights, in full. Lightning, Accelerate and transformers' Trainer: 2 ranks that
something has started. Ray Train starts its own workers.
"""
import sys

import torch

STEPS, RANKS = 8, 2


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))


def data():
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(STEPS * RANKS * 4, 8, generator=generator)
    return torch.utils.data.TensorDataset(x, x[:, :1] * 2)


def loss_of(model, batch):
    return torch.nn.functional.mse_loss(model(batch[0]), batch[1])


def say(model, backend):
    import torch.distributed as dist
    assert dist.get_backend() == backend, dist.get_backend()
    print(f"weights {sum(p.detach().double().sum() for p in model.parameters()).item()!r}", flush=True)


def lightning(backend):
    import lightning
    from lightning.pytorch.strategies import DDPStrategy

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = network()

        def training_step(self, batch, _):
            return loss_of(self.model, batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(accelerator="cpu", devices=RANKS, strategy=DDPStrategy(process_group_backend=backend),
                                max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False)
    module = Module()
    trainer.fit(module, torch.utils.data.DataLoader(data(), batch_size=4))
    say(module, backend)


def accelerate(backend):
    import torch.distributed as dist
    from accelerate import Accelerator

    dist.init_process_group(backend)  # Accelerate takes what is there; it knows the names of some backends only
    accelerator = Accelerator(cpu=True)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(data(), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        optimizer.zero_grad()
        accelerator.backward(loss_of(model, batch))
        optimizer.step()
    assert accelerator.num_processes == RANKS
    say(accelerator.unwrap_model(model), backend)
    accelerator.end_training()


def transformers(backend):
    import tempfile

    import torch.distributed as dist
    from transformers import Trainer, TrainingArguments

    dist.init_process_group(backend)  # ddp_backend takes some names only; the Trainer uses the group that is there

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network()

        def forward(self, x, labels):
            out = self.network(x)
            return {"loss": torch.nn.functional.mse_loss(out, labels), "logits": out}

    rows = [{"x": x, "labels": y} for x, y in data()]
    arguments = TrainingArguments(tempfile.mkdtemp(), use_cpu=True, per_device_train_batch_size=4, max_steps=STEPS,
                                  optim="sgd", learning_rate=0.1, report_to=[], save_strategy="no", disable_tqdm=True)
    assert arguments.world_size == RANKS
    trainer = Trainer(Model(), arguments, train_dataset=rows)
    trainer.train()
    say(trainer.model.network, backend)


def ray(backend):
    import ray.train.torch
    from ray.train import ScalingConfig

    # Before a worker's training begins; where halay is installed by pip torch finds the backend without it.
    ray.init(runtime_env={"worker_process_setup_hook": "halay.distributed.register"})

    def train():
        model = ray.train.torch.prepare_model(network())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = ray.train.torch.prepare_data_loader(torch.utils.data.DataLoader(data(), batch_size=4))
        for batch in loader:
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            optimizer.step()
        say(model.module, backend)

    ray.train.torch.TorchTrainer(
        train, scaling_config=ScalingConfig(num_workers=RANKS, use_gpu=False),
        torch_config=ray.train.torch.TorchConfig(backend=backend)).fit()


if sys.argv[2] == "halay":
    import halay.distributed  # noqa: F401
torch.set_num_threads(1)
{"lightning": lightning, "accelerate": accelerate, "transformers": transformers, "ray": ray}[sys.argv[1]](sys.argv[2])
