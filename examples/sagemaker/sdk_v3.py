# SPDX-License-Identifier: Apache-2.0
#
# Training with SageMaker's Python SDK v3 (sagemaker>=3), as a notebook in cells. docs/guides/sagemaker.md explains each
# choice; IMAGE, ROLE and BUCKET are yours. The images are those of containers/Dockerfile.

# %% Where things are
from sagemaker.core.training.configs import CheckpointConfig, Compute, InputData, MetricDefinition, StoppingCondition
from sagemaker.core.training.configs import Networking
from sagemaker.train import ModelTrainer

IMAGE = "ACCOUNT.dkr.ecr.REGION.amazonaws.com/halay:latest"  # without the toolkit
ROLE = "arn:aws:iam::ACCOUNT:role/ROLE"
BUCKET = "s3://BUCKET/halay"

# %% What CloudWatch is to read out of the log. No '^': under mpirun each line begins with [1,0]<stderr>:
METRICS = [
    {"Name": "train:loss", "Regex": "eval step=.* train_loss=([0-9.eE+-]+)"},
    {"Name": "validation:loss", "Regex": "eval step=.* valid_loss=([0-9.eE+-]+)"},
    {"Name": "validation:q_risk_p50", "Regex": "eval step=.* valid_p50=([0-9.eE+-]+)"},
    {"Name": "samples_per_second", "Regex": "eval step=.* samples_per_second=([0-9.eE+-]+)"},
]

# %% Without source_code the image's own entry point runs on every host: sm-entry, and so halayrun --sagemaker
trainer = ModelTrainer(
    training_image=IMAGE,
    role=ROLE,
    compute=Compute(instance_type="ml.c7i.8xlarge", instance_count=2, enable_managed_spot_training=True),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=24 * 3600, max_wait_time_in_seconds=48 * 3600),
    checkpoint_config=CheckpointConfig(s3_uri=f"{BUCKET}/checkpoints/first", local_path="/opt/ml/checkpoints"),
    networking=Networking(enable_inter_container_traffic_encryption=True),
    hyperparameters={
        "hidden_size": 160,
        "epochs": 20,
        "batch_size": 256,
        "learning_rate": 1e-3,
        "sagemaker_mpi_num_of_processes_per_host": 2,
    },
).with_metric_definitions([MetricDefinition(name=m["Name"], regex=m["Regex"]) for m in METRICS])
trainer.train(
    input_data_config=[
        InputData(channel_name="training", data_source=f"{BUCKET}/data/"),
        InputData(channel_name="schema", data_source=f"{BUCKET}/schema/"),
    ]
)

# %% A program of your own in source_dir, started the same way: this command runs on every host. The image needs python3
# and pip then, for the SDK's own start script.
#
#     SourceCode(source_dir="src", command="halayrun --sagemaker ./trainer --epochs 20")
#
# %% distributed=MPI(...) is not used here on purpose. In 3.20 its -np is the number of processes of one host, so that
# of 2 hosts x 2 only two ranks start, both on the first host, and the job "succeeds"; halay-tft train refuses to run
# so. Who needs it says the total:
#
#     distributed=MPI(process_count_per_node=2, mpi_additional_options=["-np", "4"])
#
# It starts 'python -m mpi4py ENTRY_SCRIPT'; a program that is no Python is reached by an entry script of two lines:
#
#     import os, sys
#     os.execv("/usr/local/bin/halay-tft", ["halay-tft", "train", *sys.argv[1:]])
