# SPDX-License-Identifier: Apache-2.0
#
# Training with SageMaker's Python SDK v2 (sagemaker>=2,<3), as a notebook in cells. docs/guides/sagemaker.md explains
# each choice; IMAGE, ROLE and BUCKET are yours. The images are those of containers/Dockerfile.

# %% Where things are
import sagemaker
from sagemaker.estimator import Estimator
from sagemaker.inputs import TrainingInput

IMAGE = "ACCOUNT.dkr.ecr.REGION.amazonaws.com/halay:latest"  # without the toolkit
IMAGE_MPI = "ACCOUNT.dkr.ecr.REGION.amazonaws.com/halay-mpi:latest"  # --target toolkit
ROLE = "arn:aws:iam::ACCOUNT:role/ROLE"
BUCKET = "s3://BUCKET/halay"

# %% What CloudWatch is to read out of the log. No '^': under mpirun each line begins with [1,0]<stderr>:
METRICS = [
    {"Name": "train:loss", "Regex": "eval step=.* train_loss=([0-9.eE+-]+)"},
    {"Name": "validation:loss", "Regex": "eval step=.* valid_loss=([0-9.eE+-]+)"},
    {"Name": "validation:q_risk_p50", "Regex": "eval step=.* valid_p50=([0-9.eE+-]+)"},
    {"Name": "validation:q_risk_p90", "Regex": "eval step=.* valid_p90=([0-9.eE+-]+)"},
    {"Name": "samples_per_second", "Regex": "eval step=.* samples_per_second=([0-9.eE+-]+)"},
]

# %% The data: every host gets all files (ShardedByS3Key is refused), a schema says what the columns mean
channels = {
    "training": TrainingInput(f"{BUCKET}/data/", distribution="FullyReplicated", input_mode="File"),
    "schema": TrainingInput(f"{BUCKET}/schema/", distribution="FullyReplicated", input_mode="File"),
}
# Keys of the configuration, with '_': a name with '-' is lost as an environment variable in the toolkit.
parameters = {"hidden_size": 160, "epochs": 20, "batch_size": 256, "learning_rate": 1e-3, "dtype": "bf16"}

# %% What every job has: spot instances, with checkpoints that outlive them
common = dict(
    role=ROLE,
    instance_count=2,
    instance_type="ml.c7i.8xlarge",
    metric_definitions=METRICS,
    use_spot_instances=True,
    max_run=24 * 3600,
    max_wait=48 * 3600,  # not below max_run
    checkpoint_s3_uri=f"{BUCKET}/checkpoints/first",  # one place for one run: it goes on from what it finds there
    checkpoint_local_path="/opt/ml/checkpoints",
    debugger_hook_config=False,
    disable_profiler=True,
    encrypt_inter_container_traffic=True,
)

# %% Without the toolkit: sm-entry starts halayrun --sagemaker on both hosts; no ssh, no MPI, no Python in the image
estimator = Estimator(
    image_uri=IMAGE,
    hyperparameters={**parameters, "sagemaker_mpi_num_of_processes_per_host": 2},
    **common,
)
estimator.fit(channels)

# %% With the toolkit: its mpirun. A generic Estimator ignores distribution={'mpi': ...}, so the same is said by
# hyperparameters.
estimator = Estimator(
    image_uri=IMAGE_MPI,
    hyperparameters={
        **parameters,
        "sagemaker_mpi_enabled": True,
        "sagemaker_mpi_num_of_processes_per_host": 2,
        # More than a second for the ranks, should mpirun be ended; '-mca pml' again would abort it.
        "sagemaker_mpi_custom_mpi_options": "-mca odls_base_sigkill_timeout 45",
        "sagemaker_program": "halay-train.sh",
    },
    **common,
)
estimator.fit(channels)

# %% The model: run.json, model.safetensors and calibration.json, for halay-tft predict
print(estimator.model_data)
