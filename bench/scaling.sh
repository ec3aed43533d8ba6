#!/usr/bin/env bash
# Strong and weak scaling over GPUs, in one command on any machine: farfield bench globe on 1, 2, 4, ... GPUs, a row each in
# DIR/scaling.csv and DIR/scaling.md, a plot with the ideal line in DIR/scaling.svg (tools/plot_scaling). A run that fails is
# a row that says so; the exit code says whether any did, or whether fields differed between numbers of GPUs.
#
#   bench/scaling.sh [options]
#     --farfield PATH   program, default build/farfield
#     --gpus LIST       numbers of GPUs, the least first, default "1 2"
#     --out DIR         default build/scaling
#     --launch TEXT     what starts N ranks, N in its place, default "mpirun --bind-to none -n N"; with Slurm
#                       "srun --gpu-bind=none --ntasks=N"
#     --repeat N        calls a row, default 5 (min and median are kept)
#     --studies LIST    default "wide train n255 n663 weak"; also "sum": those that are run
#     --limit SECONDS   of one run, default 600
#
# Studies: wide   car:6 wide bf16, inference        train  the same, a training step
#          n255, n663   default bf16, 1.3e6 and 8.8e6 faces
#          weak   default bf16, 1e6 faces a GPU     sum    the treecode, 1.6e7 points, and 4e6 a GPU
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
farfield=$root/build/farfield gpus='1 2' dir=$root/build/scaling launch='mpirun --bind-to none -n N' repeat=5 limit=600
studies='wide train n255 n663 weak'
while [ $# -gt 0 ]; do
    case $1 in
        --farfield | --gpus | --out | --launch | --repeat | --studies | --limit)
            [ $# -ge 2 ] || { echo "scaling.sh: $1 needs a value" >&2; exit 2; }
            case $1 in
                --farfield) farfield=$2 ;;
                --gpus) gpus=$2 ;;
                --out) dir=$2 ;;
                --launch) launch=$2 ;;
                --repeat) repeat=$2 ;;
                --studies) studies=$2 ;;
                --limit) limit=$2 ;;
            esac
            shift
            ;;
        -h | --help) sed -n '2,20s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "scaling.sh: unknown option \"$1\", see --help" >&2; exit 2 ;;
    esac
    shift
done
[ -x "$farfield" ] || { echo "scaling.sh: --farfield $farfield: no such program" >&2; exit 2; }
mkdir -p "$dir"
failed=0

# row STUDY GPUS ARGUMENTS ...: one run; its figures go to STUDY.GPUS.json, its log beside it.
row() {
    local name=$1.$2 n=$2 code=0
    shift 2
    rm -f "$dir/$name.json"
    # shellcheck disable=SC2086
    timeout "$limit" ${launch//N/$n} "$farfield" bench "$@" --backend cuda --repeat "$repeat" --json "$dir/$name.json" --force \
        >"$dir/$name.log" 2>&1 || code=$?
    echo "$name: code $code: $(grep -m1 'time of a call' "$dir/$name.log" || tail -n 1 "$dir/$name.log")"
    [ $code -eq 0 ] || failed=1
}
# Splits of the icosahedron's edges for about 1e6 faces a GPU: 20 F^2.
weak_splits() { awk -v n="$1" 'BEGIN { printf "%d", sqrt(n * 1004964 / 20) + 0.5 }'; }

for study in $studies; do
    for n in $gpus; do
        case $study in
            wide) row wide "$n" globe --case car:6 --config wide --precision bf16 ;;
            train) row train "$n" globe --case car:6 --config wide --precision bf16 --mode train ;;
            n255) row n255 "$n" globe --case car:n255 --config default --precision bf16 ;;
            n663) row n663 "$n" globe --case car:n663 --config default --precision bf16 ;;
            weak) row weak "$n" globe --case "car:n$(weak_splits "$n")" --config default --precision bf16 ;;
            sum)
                row sum "$n" sum --generate uniform --n 16000000 --order 5 --theta 0.8
                row sumweak "$n" sum --generate uniform --n $((4000000 * n)) --order 5 --theta 0.8
                ;;
            *) echo "scaling.sh: unknown study \"$study\", see --help" >&2; exit 2 ;;
        esac
    done
done
"$root/tools/plot_scaling" "$dir" || failed=1
exit $failed
