# Completion of farfield in bash. Printed by `farfield help --completion`; do not edit.
_farfield() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} flags='' words=''
    case ${COMP_WORDS[1]} in
    predict)
        flags="-c --deck --set --help --mesh --model --output --targets --target-boundary --check --dry-run --theta --leaf-size --expand-far --scale --step --areas --normals --force --json --area --length --center --drag --lift --csv --backend --precision --transport --gpu-trees --deadline --threads --memory --gpu-memory --seed --log-level --max-hours"
        case $before in
        --backend) words="auto cpu cuda" ;;
        --precision) words="f64 f32 tf32 bf16" ;;
        --transport) words="auto nccl mpi" ;;
        --gpu-trees) words="auto whole parts" ;;
        --log-level) words="error warn info debug" ;;
        esac
        ;;
    gradient)
        flags="-c --deck --set --help --mesh --model --output --target-boundary --of --component --reduce --all --theta --leaf-size --expand-far --scale --step --force --json --backend --precision --transport --gpu-trees --deadline --threads --memory --gpu-memory --seed --log-level --max-hours"
        case $before in
        --component) words="x y z" ;;
        --reduce) words="integral mean sum" ;;
        --backend) words="auto cpu cuda" ;;
        --precision) words="f64 f32 tf32 bf16" ;;
        --transport) words="auto nccl mpi" ;;
        --gpu-trees) words="auto whole parts" ;;
        --log-level) words="error warn info debug" ;;
        esac
        ;;
    train)
        flags="-c --deck --set --help --model --output --force --json --data --validation --ellipsoids --splits --fine-every --fine-batch --fine-bodies --keep --validation-bodies --architecture --steps --batch --lr --lr-end --warmup --schedule --patience --factor --muon --rest --beta2 --weight-decay --clip --ema --loss --loss-floor --faces --targets --inside --checkpoints --save-every --validate-every --log-every --log --fields --fields-of --ranks-per-sample --backend --precision --transport --gpu-trees --deadline --threads --memory --gpu-memory --seed --log-level --max-hours"
        case $before in
        --schedule) words="constant cosine linear plateau" ;;
        --rest) words="adamw radam" ;;
        --loss) words="mse relative" ;;
        --backend) words="auto cpu cuda" ;;
        --precision) words="f64 f32 tf32 bf16" ;;
        --transport) words="auto nccl mpi" ;;
        --gpu-trees) words="auto whole parts" ;;
        --log-level) words="error warn info debug" ;;
        esac
        ;;
    plan)
        flags="-c --deck --set --help --mesh --model --case --theta --leaf-size --expand-far --ranks --scale --step --force --json --backend --precision --transport --gpu-trees --deadline --threads --memory --gpu-memory --seed --log-level --max-hours"
        case $before in
        --backend) words="auto cpu cuda" ;;
        --precision) words="f64 f32 tf32 bf16" ;;
        --transport) words="auto nccl mpi" ;;
        --gpu-trees) words="auto whole parts" ;;
        --log-level) words="error warn info debug" ;;
        esac
        ;;
    check)
        flags="-c --deck --set --help --mesh --output --scale --step --force --json --write-bad --repair --outward --weld-tolerance --strict --backend --precision --transport --gpu-trees --deadline --threads --memory --gpu-memory --seed --log-level --max-hours"
        case $before in
        --backend) words="auto cpu cuda" ;;
        --precision) words="f64 f32 tf32 bf16" ;;
        --transport) words="auto nccl mpi" ;;
        --gpu-trees) words="auto whole parts" ;;
        --log-level) words="error warn info debug" ;;
        esac
        ;;
    forces)
        flags="-c --deck --set --help --mesh --scale --step --force --json --area --length --center --drag --lift --csv --pressure --shear --pressure-factor --pressure-reference --shear-factor --backend --precision --transport --gpu-trees --deadline --threads --memory --gpu-memory --seed --log-level --max-hours"
        case $before in
        --backend) words="auto cpu cuda" ;;
        --precision) words="f64 f32 tf32 bf16" ;;
        --transport) words="auto nccl mpi" ;;
        --gpu-trees) words="auto whole parts" ;;
        --log-level) words="error warn info debug" ;;
        esac
        ;;
    info)
        flags="-c --deck --set --help --file --scale --step --force --json --backend --precision --transport --gpu-trees --deadline --threads --memory --gpu-memory --seed --log-level --max-hours"
        case $before in
        --backend) words="auto cpu cuda" ;;
        --precision) words="f64 f32 tf32 bf16" ;;
        --transport) words="auto nccl mpi" ;;
        --gpu-trees) words="auto whole parts" ;;
        --log-level) words="error warn info debug" ;;
        esac
        ;;
    convert)
        flags="-c --deck --set --help --file --output --scale --step --force --json --backend --precision --transport --gpu-trees --deadline --threads --memory --gpu-memory --seed --log-level --max-hours"
        case $before in
        --backend) words="auto cpu cuda" ;;
        --precision) words="f64 f32 tf32 bf16" ;;
        --transport) words="auto nccl mpi" ;;
        --gpu-trees) words="auto whole parts" ;;
        --log-level) words="error warn info debug" ;;
        esac
        ;;
    verify)
        flags="-c --deck --set --help --file --force --json --gradients --backend --precision --transport --gpu-trees --deadline --threads --memory --gpu-memory --seed --log-level --max-hours"
        case $before in
        --backend) words="auto cpu cuda" ;;
        --precision) words="f64 f32 tf32 bf16" ;;
        --transport) words="auto nccl mpi" ;;
        --gpu-trees) words="auto whole parts" ;;
        --log-level) words="error warn info debug" ;;
        esac
        ;;
    embed)
        flags="-c --deck --set --help --output --scale --step --force --json --points --weights --group --cutoff --cell --lmax --channels --n-radial --n-hidden --degree-floor --scatter --cotangent --edges --backend --precision --transport --gpu-trees --deadline --threads --memory --gpu-memory --seed --log-level --max-hours"
        case $before in
        --scatter) words="reference fused" ;;
        --backend) words="auto cpu cuda" ;;
        --precision) words="f64 f32 tf32 bf16" ;;
        --transport) words="auto nccl mpi" ;;
        --gpu-trees) words="auto whole parts" ;;
        --log-level) words="error warn info debug" ;;
        esac
        ;;
    sum)
        flags="-c --deck --set --help --output --theta --scale --step --force --json --points --kernel --exponent --kappa --softening --gradient --rtol --order --leaf --check --targets --centroids --exact-within --density --generate --n --backend --precision --transport --gpu-trees --deadline --threads --memory --gpu-memory --seed --log-level --max-hours"
        case $before in
        --kernel) words="1/r 1/r^k log yukawa plummer dipole stokeslet" ;;
        --generate) words="uniform sphere plummer galaxies airplane plate point line" ;;
        --backend) words="auto cpu cuda" ;;
        --precision) words="f64 f32 tf32 bf16" ;;
        --transport) words="auto nccl mpi" ;;
        --gpu-trees) words="auto whole parts" ;;
        --log-level) words="error warn info debug" ;;
        esac
        ;;
    bench)
        flags="-c --deck --set --help --case --theta --leaf-size --expand-far --force --json --kind --config --mode --repeat --nodes --edges --channels --lmax --degrees --kernel --exponent --kappa --softening --gradient --rtol --order --leaf --density --generate --n --backend --precision --transport --gpu-trees --deadline --threads --memory --gpu-memory --seed --log-level --max-hours"
        case $before in
        --kind) words="globe plan scatter sum" ;;
        --config) words="wide default" ;;
        --mode) words="infer train" ;;
        --degrees) words="even skewed" ;;
        --kernel) words="1/r 1/r^k log yukawa plummer dipole stokeslet" ;;
        --generate) words="uniform sphere plummer galaxies airplane plate point line" ;;
        --backend) words="auto cpu cuda" ;;
        --precision) words="f64 f32 tf32 bf16" ;;
        --transport) words="auto nccl mpi" ;;
        --gpu-trees) words="auto whole parts" ;;
        --log-level) words="error warn info debug" ;;
        esac
        ;;
    esac
    if [ "$COMP_CWORD" -eq 1 ] || [ "$before" = help ]; then
        words="predict gradient train plan check forces info convert verify embed sum bench help --help --version"
    elif [[ $word == -* ]]; then
        words=$flags
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _farfield farfield
