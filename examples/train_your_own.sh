#!/usr/bin/env bash
# From a folder of simulations to a prediction on a new mesh, in about two minutes on two cores:
#   make a folder as a solver would leave it (VTP meshes with C_p and U_t, a table of parameters)
#   turn it into training samples, train a small model, predict a body it has never seen, draw curves and result
#
#   examples/train_your_own.sh [FOLDER]       default: build/train_your_own; FARFIELD names the program
source "$(dirname "$0")/../tools/lib.sh"
farfield=${FARFIELD:-$root/build/farfield}
[ -x "$farfield" ] || farfield=$root/build/quick/farfield
[ -x "$farfield" ] || die "$farfield is not there; build it first (tools/quickstart), or set FARFIELD"
python=$root/.venv/bin/python
[ -x "$python" ] || python=python3
out=${1:-$root/build/train_your_own}
mkdir -p "$out/solver"

say "simulations: 48 ellipsoids with the exact potential flow past them, and one more to try the model on"
"$python" - "$root" "$out/solver" <<'PY'
import sys

import numpy as np

sys.path.insert(0, sys.argv[1] + "/tools")
import make_inputs as mi

rng = np.random.default_rng(1)
rows = ["file, lengths.L, global.U_dir.x, global.U_dir.y, global.U_dir.z"]
for k in range(49):
    axes = np.exp(rng.uniform(-0.5, 0.5, 3))
    axes /= np.prod(axes) ** (1 / 3)
    u = rng.normal(size=3)
    u /= np.linalg.norm(u)
    p, c, cp, ut = mi.ellipsoid(axes, mi.rotation(*rng.uniform(0, 3, 2)), 2, u)
    name = f"body_{k:02d}.vtp" if k < 48 else "new.vtp"
    mi.write_vtp(f"{sys.argv[2]}/{name}", p, c, {"C_p": cp, "U_t": ut})
    if k < 48:
        rows.append(f"{name}, 1, {u[0]}, {u[1]}, {u[2]}")
    else:
        open(f"{sys.argv[2]}/new_direction.txt", "w").write(f"[{u[0]},{u[1]},{u[2]}]")
open(f"{sys.argv[2]}/parameters.csv", "w").write("\n".join(rows) + "\n")
PY

say "samples"
"$python" "$root/tools/make_samples.py" folder "$out/solver" -o "$out/samples" --boundary body --field C_p --field U_t \
    --farfield "$farfield" --jobs 2 | tail -n 1
head -n 42 "$out/samples/samples.txt" >"$out/samples/train.txt"
tail -n 6 "$out/samples/samples.txt" >"$out/samples/valid.txt"

say "training"
"$farfield" train "$out/samples/train.txt" --validation "$out/samples/valid.txt" \
    --architecture "$root/inputs/ellipsoid_small.json" --steps 300 --batch 4 --warmup 20 --lr 0.01 --lr-end 0.001 --rest adamw \
    --checkpoints "$out/checkpoints" --log "$out/training.jsonl" -o "$out/model.h5" --force --log-every 50 --validate-every 100
"$python" "$root/tools/plot_training.py" "$out/training.jsonl" -o "$out/training.png"

say "a body the model has never seen"
"$farfield" predict "$out/solver/new.vtp" -m "$out/model.h5" --set lengths.L=1 \
    --set "global.U_dir=$(cat "$out/solver/new_direction.txt")" -o "$out/new.vtkhdf" --force
"$python" "$root/tools/render.py" "$out/new.vtkhdf" "$out/new.png" --field C_p
"$python" - "$out/new.vtkhdf" "$out/solver/new.vtp" "$farfield" <<'PY'
import subprocess
import sys

import h5py
import numpy as np

subprocess.run([sys.argv[3], "convert", sys.argv[2], sys.argv[1] + ".true.h5", "--force"], check=True, capture_output=True)
with h5py.File(sys.argv[1]) as f, h5py.File(sys.argv[1] + ".true.h5") as g:
    got, want = f["VTKHDF/CellData/C_p"][()], g["cell_data/C_p"][()]
print(f"relative L2 error of C_p on the new body: {100 * np.linalg.norm(got - want) / np.linalg.norm(want):.1f} %")
PY
say "see $out: training.png, new.png, new.vtkhdf, model.h5"
