#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A process of a job, or a host, is killed at a random moment (tests/lab/kills.py): the job ends with the right status,
# the cause first, and nothing is left. KILL_SECONDS: for how long, 20 by default; KILL_WAYS: which ways (kills.py),
# also mpi. Needs root, namespaces and an ssh server.
. "$top_srcdir/tests/lab/lib.sh"

make_lab 3
export HOME=$scratch/home dir
unset XDG_CONFIG_HOME
mkdir -p "$HOME"
seed=${TEST_RANDOM-$$}
python3 -u "$top_srcdir/tests/lab/kills.py" $lab "${KILL_SECONDS-20}" $seed \
    ${KILL_WAYS-local restart ssh ssh-restart third join join-restart elastic pytorchjob sagemaker srun} >"$dir/turns"
code=$?
cat "$dir/turns"
check "seed $seed" test $code = 0
