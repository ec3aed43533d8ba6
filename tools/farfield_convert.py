#!/usr/bin/env python3
"""Turn a PhysicsNeMo .mdlus checkpoint of GLOBE into a farfield model file (HDF5), or back.

    tools/farfield_convert.py model.mdlus model.h5
    tools/farfield_convert.py model.h5 model.mdlus

The direction follows the content of IN. The file layout is described in docs/formats.md ("Model file").
Needs torch and h5py. Nothing in a checkpoint is executed: torch.load runs with weights_only=True, args.json and
metadata.json are read as JSON, archive members are taken by name and never unpacked to disk.
"""
import argparse
import hashlib
import io
import json
import os
import sys
import tarfile
import zipfile

FORMAT = "farfield-model"
FORMAT_VERSION = 1
MEMBERS = ("model.pt", "args.json", "metadata.json")
GLOBE_NAME = "GLOBE"
GLOBE_MODULE = "physicsnemo.experimental.models.globe.model"


class ConvertError(Exception):
    """Wrong input: the message names the file, the place and what was expected."""


# ---- farfield model file -------------------------------------------------------------------------------------


def dataset_name(key):
    """HDF5 separates groups by '/', so a '/' inside a state-dict key is written '|' (and kept in an attribute)."""
    return key.replace("/", "|")


def digest(tensors):
    """sha256 over the tensors sorted by name (bytes): name, 0, shape as "64,25", 0, little-endian values."""
    h = hashlib.sha256()
    for key in sorted(tensors, key=lambda k: k.encode()):
        a = tensors[key]
        h.update(key.encode() + b"\0" + ",".join(map(str, a.shape)).encode() + b"\0")
        h.update(a.astype(a.dtype.newbyteorder("<"), order="C").tobytes())
    return h.hexdigest()


def check_tensors(path, tensors):
    import numpy as np

    if not tensors:
        raise ConvertError(f"{path}: holds no tensor, expected a GLOBE state dict")
    for key, a in tensors.items():
        if a.dtype not in (np.float32, np.float64):
            raise ConvertError(f"{path}: tensor {key} is {a.dtype}, expected floating point")
        if not np.isfinite(a).all():
            raise ConvertError(f"{path}: tensor {key} holds a NaN or an infinity, expected finite values")


def write_model(path, config, tensors, source, extra=None, torch_dtypes=None):
    """Write a model file. config: constructor arguments (dict in the model's order); tensors: key -> numpy array;
    source: where the weights come from; extra: further text attributes; torch_dtypes: key -> name of the type the
    checkpoint had, where it is not the stored one."""
    import h5py

    check_tensors(source, tensors)
    tmp = path + ".tmp"
    with h5py.File(tmp, "w") as f:
        for name, value in config.items():
            plain = isinstance(value, (int, float, str)) and not isinstance(value, bool)
            f.attrs[name] = value if plain else json.dumps(value)
        f.attrs["format"] = FORMAT
        f.attrs["format_version"] = FORMAT_VERSION
        f.attrs["source"] = source
        f.attrs["digest"] = digest(tensors)
        f.attrs["config_json"] = json.dumps(config)
        for name, text in (extra or {}).items():
            f.attrs[name] = text
        group = f.create_group("weights", track_order=True)
        for key, a in tensors.items():
            d = group.create_dataset(dataset_name(key), data=a)
            if dataset_name(key) != key:
                d.attrs["key"] = key
            if torch_dtypes and key in torch_dtypes:
                d.attrs["torch_dtype"] = torch_dtypes[key]
    os.replace(tmp, path)


def text_attr(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def read_model(path):
    """Returns (config, tensors, attributes, torch_dtypes) of a model file after checking its digest."""
    import h5py

    try:
        f = h5py.File(path, "r")
    except OSError as e:
        raise ConvertError(f"{path}: not a readable HDF5 file ({e})") from None
    with f:
        if text_attr(f.attrs.get("format", "")) != FORMAT:
            raise ConvertError(f'{path}: attribute format is "{f.attrs.get("format", "")}", expected "{FORMAT}"')
        version = int(f.attrs.get("format_version", 0))
        if version != FORMAT_VERSION:
            raise ConvertError(f"{path}: format_version = {version}, expected {FORMAT_VERSION}")
        attrs = {k: text_attr(v) for k, v in f.attrs.items()}
        tensors, dtypes = {}, {}
        for name, d in f["weights"].items():
            key = text_attr(d.attrs.get("key", name))
            tensors[key] = d[()] if d.shape else d[...]
            if "torch_dtype" in d.attrs:
                dtypes[key] = text_attr(d.attrs["torch_dtype"])
    found = digest(tensors)
    if found != attrs.get("digest"):
        raise ConvertError(f"{path}: digest of the tensors is {found}, expected {attrs.get('digest')}: file damaged")
    return json.loads(attrs["config_json"]), tensors, attrs, dtypes


# ---- PhysicsNeMo checkpoint ----------------------------------------------------------------------------------


def read_archive(path):
    """The three members of a .mdlus file (zip; tar in older versions) as bytes."""
    with open(path, "rb") as f:
        head = f.read(4)
    # The magic at the start decides: a tar that holds model.pt (itself a zip) also looks like a zip from its end.
    try:
        if head == b"PK\x03\x04":
            with zipfile.ZipFile(path) as z:
                return {n: z.read(n) for n in MEMBERS if n in z.namelist()}
        with tarfile.open(path, "r:") as t:
            names = {os.path.normpath(m.name): m for m in t.getmembers() if m.isfile()}
            return {n: t.extractfile(names[n]).read() for n in MEMBERS if n in names}
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as e:
        raise ConvertError(f"{path}: neither a zip nor a tar archive ({e}), expected a .mdlus checkpoint") from None


def read_mdlus(path):
    """Returns (args, metadata text, state dict of torch tensors)."""
    import pickle

    import torch

    parts = read_archive(path)
    for name in MEMBERS[:2]:
        if name not in parts:
            raise ConvertError(f"{path}: holds no {name}, expected the members {', '.join(MEMBERS)}")
    try:
        args = json.loads(parts["args.json"])
    except ValueError as e:
        raise ConvertError(f"{path}: args.json: {e}") from None
    if args.get("__name__") != GLOBE_NAME:
        raise ConvertError(f'{path}: args.json: __name__ = "{args.get("__name__")}", expected "{GLOBE_NAME}"')
    try:
        state = torch.load(io.BytesIO(parts["model.pt"]), map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError) as e:
        raise ConvertError(f"{path}: model.pt: {str(e).splitlines()[0]}") from None
    if not isinstance(state, dict) or not all(isinstance(v, torch.Tensor) for v in state.values()):
        raise ConvertError(f"{path}: model.pt is no state dict, expected names and tensors only")
    return args, parts.get("metadata.json", b"{}").decode(), state


def mdlus_to_h5(src, dst):
    import torch

    args, metadata, state = read_mdlus(src)
    tensors, dtypes = {}, {}
    for key, t in state.items():
        if t.dtype not in (torch.float32, torch.float64):
            dtypes[key] = str(t.dtype).removeprefix("torch.")
            t = t.float()  # exact for the 16-bit types
        tensors[key] = t.detach().contiguous().numpy()
    extra = {"mdlus_name": args["__name__"], "mdlus_module": args.get("__module__", GLOBE_MODULE),
             "mdlus_metadata_json": metadata}
    write_model(dst, args["__args__"], tensors, os.path.basename(src), extra, dtypes)
    return len(tensors), sum(a.size for a in tensors.values())


def add_buffers(tensors, config):
    """PhysicsNeMo's GLOBE keeps constants in its state dict, and its strict loading asks for them; models that farfield
    trained have none: reference_area, and the 1 of each Pade network."""
    import numpy as np

    tensors.setdefault("reference_area", np.array(config["reference_area"], dtype=np.float32))
    for key in list(tensors):
        at = key.find(".network.combined_mlp.")
        if at >= 0:
            tensors.setdefault(key[:at] + ".network._one", np.array(1, dtype=np.float32))


def h5_to_mdlus(src, dst):
    import torch

    config, tensors, attrs, dtypes = read_model(src)
    add_buffers(tensors, config)
    state = {}
    for key, a in tensors.items():
        t = torch.from_numpy(a.copy())
        state[key] = t.to(getattr(torch, dtypes[key])) if key in dtypes else t
    args = {"__name__": attrs.get("mdlus_name", GLOBE_NAME),
            "__module__": attrs.get("mdlus_module", GLOBE_MODULE), "__args__": config}
    model = io.BytesIO()
    torch.save(state, model)
    metadata = attrs.get("mdlus_metadata_json", '{"physicsnemo_version": null, "mdlus_file_version": "0.1.0"}')
    with zipfile.ZipFile(dst + ".tmp", "w", zipfile.ZIP_STORED) as z:
        for name, data in zip(MEMBERS, (model.getvalue(), json.dumps(args), metadata)):
            z.writestr(name, data)
    os.replace(dst + ".tmp", dst)
    return len(tensors), sum(a.size for a in tensors.values())


def main(argv=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("input", metavar="IN")
    p.add_argument("output", metavar="OUT")
    p.add_argument("--force", action="store_true", help="overwrite OUT")
    opts = p.parse_args(argv)
    try:
        if os.path.exists(opts.output) and not opts.force:
            raise ConvertError(f"{opts.output}: exists; give --force to overwrite it")
        with open(opts.input, "rb") as f:
            is_h5 = f.read(8) == b"\x89HDF\r\n\x1a\n"
        n, values = (h5_to_mdlus if is_h5 else mdlus_to_h5)(opts.input, opts.output)
    except ModuleNotFoundError as e:
        print(f"farfield_convert: {e}; install it with: tools/setup --torch, or pip install torch h5py", file=sys.stderr)
        return 1
    except (ConvertError, FileNotFoundError, IsADirectoryError) as e:
        print(f"farfield_convert: {e}", file=sys.stderr)
        return 2
    except OSError as e:
        print(f"farfield_convert: {e}", file=sys.stderr)
        return 1
    print(f"{opts.output}: {n} tensors, {values} values, from {opts.input}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
