#!/usr/bin/env bash
# The job scripts submit themselves again on exit code 3, a limited number of times, and on no other code.
# srun, mpirun, scontrol, qsub are replaced by small stand-ins that record how they were called.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for tool in srun mpirun; do
    printf '#!/bin/sh\necho "$0 $*" >>%s/calls\nexit $CODE\n' "$work" >"$work/$tool"
done
for tool in scontrol qsub; do
    printf '#!/bin/sh\necho "again: $*" >>%s/calls\n' "$work" >"$work/$tool"
done
chmod +x "$work"/srun "$work"/mpirun "$work"/scontrol "$work"/qsub
export PATH=$work:$PATH

failed=0
# expect SCRIPT CODE RESTARTS_SO_FAR WANTED_EXIT WANTED_SUBMISSIONS [WANTED_ARGUMENTS]
expect() {
    : >"$work/calls"
    local got=0 again
    CODE=$2 SLURM_JOB_ID=1 SLURM_CPUS_PER_TASK=2 SLURM_RESTART_COUNT=$3 RESTART=$3 MAX_RESTARTS=5 PBS_JOBID=1.host \
        PBS_O_WORKDIR=$root OUTPUT=$work/o.vtkhdf bash "$root/jobscripts/$1" >"$work/out" 2>&1 || got=$?
    again=$(grep -c '^again' "$work/calls" || true)
    if [ "$got" != "$4" ] || [ "$again" != "$5" ] || ! grep -q -- "${6:-farfield predict}" "$work/calls"; then
        echo "$1 with code $2 after $3 restarts: exit $got (expected $4), $again submissions (expected $5)"
        cat "$work/out" "$work/calls"
        failed=1
    fi
}
for script in farfield.slurm farfield.pbs farfield_gpu.slurm farfield_gpu.pbs; do
    expect $script 0 0 0 0
    expect $script 1 0 1 0
    expect $script 2 0 2 0
    expect $script 3 0 0 1
    expect $script 3 4 0 1
    expect $script 3 5 3 0
    VERB=train expect $script 3 0 0 1 "farfield train .*--checkpoints $work/o.checkpoints"
done
[ $failed -eq 0 ] && echo "check_jobscripts: 28 cases passed"
exit $failed
