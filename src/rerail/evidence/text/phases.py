"""Where in the life of a job was it?

In: a traceback, or a line with those before it. Out: a phase of PHASES, or "" where nothing says.
From the frames (the files and functions of libraries, and the names that people give their own),
from what a line itself says, and from the last line before it that announces what begins. The
innermost telling frame decides, then the innermost telling code that is quoted; a general reader
such as `torch.load` or `json.load` only where nobody around it says what is being read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rerail.evidence.text.lines import Line
from rerail.evidence.text.tracebacks import TracebackText
from rerail.platform.patterns import LinearPattern, linear

PHASES = (
    *("import", "configuration", "launching", "rendezvous", "download", "data-opening"),
    *("sample-loading", "model-building", "checkpoint-loading", "forward", "backward", "optimizer"),
    *("collective", "evaluation", "checkpoint-saving", "export", "shutdown"),
)
MOST_LINES_BEFORE = 40
MOST_FRAMES = 60


class _Place(NamedTuple):
    phase: str
    frame: LinearPattern  # on "path:function"


def _place(phase: str, *frames: str) -> _Place:
    return _Place(phase, linear("|".join(frames), re.IGNORECASE))


# What a library's file and function, or a name of the user's own, says by itself.
_TELLING = (
    _place("import", r"<frozen importlib", r"importlib/__init__\.py:import_module"),
    _place(  # before the datasets, which have the same method
        "configuration",
        r"(?:config|cfg|omegaconf|addict|easydict|yacs|munch|registry)\S*\.py:"
        r"(?:__getitem__|__getattr__|__missing__|get|_get\w*)$",
        r"(?:^|/)os\.py:__getitem__$",
    ),
    _place(
        "checkpoint-loading",
        r":(?:\w*_)?(?:load|restore|resume|read|from)\w*(?:checkpoint|ckpt|state|weights?|pretrained"
        r"|snapshot|params|model)\w*$",
        r":(?:\w*_)?init\w*(?:checkpoint|ckpt|weights?|pretrained|snapshot)\w*$",
        r":(?:load_state_dict|from_pretrained|resume|restore|load_model|warm_start|load_weights)$",
        r":\w*(?:checkpoint|ckpt|pretrained|weights?|state_?dict|snapshot)\w*_?(?:load|restore|from)\w*$",
        r"tensorflow(?:_core)?/python/training/(?:saver|checkpoint\w*|py_checkpoint_reader)\.py:",
        r"mxnet/\S*:(?:init_params|set_params|load_parameters|load_dict)$",
        r"orbax/|flax/(?:training/checkpoints|serialization)\.py:",
        r"(?:keras|tensorflow)/\S*saving/\S*:(?:load|_load|read)\w*",
        r"(?:safetensors|mmcv/runner/checkpoint|mmengine/runner/checkpoint|fairseq/checkpoint_utils)\S*:\w*load",
        r"onnxruntime/capi/\S*:(?:_create_inference_session|__init__)",
        r"[^/]*(?:checkpoint|ckpt|load_params|load_weights|pretrained)[^/]*\.py:\w*(?:load|read|restore|from)\w*$",
        r"megatron/checkpointing\.py:load|deepspeed/\S*checkpoint\S*:\w*load",
    ),
    _place(
        "checkpoint-saving",
        r":\w*save_?(?:checkpoint|ckpt|state|weights?|pretrained|model)?\w*$",
        r"torch/serialization\.py:(?:save|_save|_legacy_save)",
        r":\w*(?:checkpoint|ckpt)_?save\w*$",
    ),
    _place(
        "rendezvous",
        r"torch/distributed/(?:rendezvous|elastic/rendezvous/\S*)\.py:",
        r"torch/distributed/distributed_c10d\.py:(?:init_process_group|_new_process_group_helper|_store_based_barrier)",
        r":(?:init_process_group|init_distribut\w+|setup_distributed|init_dist\w*|init_ddp|dist_init|ddp_setup)$",
        r"jax/_src/distributed\.py:",
        r"horovod/(?:runner|run)/\S*:\w*(?:rendezvous|driver|wait|services?)\w*",
        r"horovod/\S*:(?:init|_check_all_hosts_ssh)$",
        r"tensorflow/python/distribute/\S*:(?:enable_collective_ops|__init__|start)",
        r"tensorflow/\S*(?:server_lib|session_manager|monitored_session)\.py:\w*",
        r"lightning\S*/strategies/\S*:(?:setup_distributed|setup_environment)",
        r"paddle/distributed/\S*:(?:init_parallel_env|init)",
        r"kvstore\S*:create",
    ),
    _place(
        "launching",
        r"deepspeed/launcher/",
        r"horovod/(?:runner|run)/(?:launch|gloo_run|mpi_run|util/remote)\S*",
        r"torch/distributed/(?:run|launch|launcher/\S*)\.py:",
        r"accelerate/commands/launch\.py:",
    ),
    _place(
        "download",
        r"huggingface_hub/(?:file_download|hf_api|_snapshot_download|utils/_http)\S*",
        r"requests/(?:adapters|sessions|api)\.py:|urllib3/|http/client\.py:|urllib/request\.py:",
        r":\w*download\w*$",
        r"datasets/(?:download|utils/file_utils)\S*",
        r"torch/hub\.py:",
    ),
    _place(
        "sample-loading",
        r":__getitem__$|:_?worker_loop$|:collate\w*$|:default_collate$",
        r"torch/utils/data/_utils/(?:fetch|worker|collate|pin_memory)\.py:",
        r"torch/utils/data/dataloader\.py:(?:__next__|_next_data|_get_data|_get_batch|_try_get_data|_try_get_batch"
        r"|_process_next_batch|_process_data|_shutdown_workers|_reset|__del__|_try_put_index)",
        r"tensorflow/\S*(?:iterator_ops|data/ops/\S*)\.py:|keras/\S*data_adapter",
        r"webdataset/|mxnet/(?:gluon/data|io|image|recordio)\S*|paddle/(?:fluid/)?(?:io|reader|dataloader)\S*",
        r":(?:load_image|read_image|imread|load_audio|read_sample|get_sample|get_item|load_mosaic|next_batch)$",
    ),
    _place(
        "data-opening",
        r":\w*(?:load|read|open|parse|prepare|build|create|get|make|init|cache)_?\w*(?:data|dataset|datasets|dataloader"
        r"|loaders?|corpus|corpora|split|examples?|annotations?|labels|vocab|index|records?|imdb|roidb|cache)\w*$",
        r":\w*(?:dataset|data_?loader|scenario|annotation|corpus)\w*$",
        r"[^/]*(?:dataset|data_?loader|data_?utils|data_?reader|corpus|annotation|scenario|voc_eval|imdb|roidb)[^/]*(?:/[^/]*)?\.py:",
        r"/data/[^/]*\.py:|/datasets?/[^/]*\.py:|^data\.py:|^load\.py:",
        r"pandas/io/|pyarrow/(?:parquet|dataset|csv|feather)\S*|datasets/(?:load|builder|arrow_reader|table)\.py:",
    ),
    _place(
        "configuration",
        r":(?:\w*_)?(?:parse|load|read|merge|get|from|update|validate|check|verify|setup)_?\w*"
        r"(?:config|cfg|(?:^|_)args?(?:_|$)|arguments|yaml|options|hparams|settings|flags)\w*$",
        r":(?:\w*_)?(?:parse|get|check|validate)_?args?(?:_\w*)?$",
        r"[^/]*(?:config|cfg|options|hparams|workspace|argparse|arguments)[^/]*\.py:",
        r"yaml/|omegaconf/|hydra/|yacs/|configparser\.py:|tomllib|argparse\.py:|absl/flags",
    ),
    _place("evaluation", r":(?:\w*_)?(?:evaluate|validate|validation|predict|infer|test)\w*$"),
    _place("export", r"torch/onnx/|:\w*export\w*$|torch/jit/_trace\.py:"),
    _place(
        "collective",
        r"torch/distributed/(?:distributed_c10d|algorithms)\S*:(?:all_|broadcast|barrier|reduce|gather|scatter)\w*",
        r":(?:allreduce|all_reduce|allgather|broadcast|barrier|synchronize)\w*$",
        r"horovod/\S*mpi_ops\.py:|mpi4py/",
    ),
    _place("backward", r"torch/autograd/|torch/_tensor\.py:backward"),
    _place("optimizer", r"torch/optim/|:optimizer_step$|/optimizers?/[^/]*\.py:"),
    _place(
        "forward",
        r":forward$|:_call_impl$|torch/nn/modules/",
        r":(?:_inner_training_loop|inner_training_loop|training_step|train_step|train_batch|compute_loss)$",
    ),
    _place("model-building", r":\w*(?:build|create|make|get)_?(?:model|net|network|module)\w*$"),
)
# General readers: what they read is told by who calls them, and only else by what they are.
_GENERAL = (
    _place("checkpoint-loading", r"torch/serialization\.py:\w*load\w*|:torch_load$"),
    _place(
        "data-opening",
        r"numpy/lib/\S*:\w*load\w*|pickle\.py:|json/__init__\.py:|scipy/io/|(?:^|/)h5py/|zarr/|tarfile\.py:",
        r"(?:^|/)(?:PIL|imageio|tifffile|cv2|av|decord|torchaudio|msgpack|pyarrow)/",
        r"(?:^|/)(?:wave|sndhdr|gzip|zipfile|lzma)\.py:|torchvision/io/|skimage/io/|SimpleITK/",
        r"netCDF4/|xarray/backends/|lmdb/|rasterio/|nibabel/|pydicom/|soundfile\.py:|librosa/core/audio",
    ),
    _place("configuration", r"configparser"),
    _place(
        "import",
        r"(?:site|dist)-packages/\S*(?:__init__|[^_/])\.py:<module>$",
        r"__init__\.py:<module>$",
    ),
)
# The code that a traceback quotes, where no frame's name says anything.
_QUOTED = (
    _place(
        "checkpoint-loading",
        r"\b(?:load_weights|load_state_dict|load_model|load_checkpoint|from_pretrained|restore\w*|torch\.load"
        r"|jit\.load|load_from_checkpoint|load_learner|load_params|load_parameters|InferenceSession)\(",
        r"\.(?:pth|ckpt|safetensors|pdparams|params|gguf|onnx)['\"]|checkpoint|ckpt",
    ),
    _place(
        "rendezvous",
        r"\b(?:init_process_group|init_distributed|distributed\.initialize|hvd\.init)\(",
    ),
    _place(
        "data-opening",
        r"\b(?:h5py\.File|read_(?:csv|json|parquet|table|excel|feather|hdf|pickle)|np\.load\w*|numpy\.load\w*"
        r"|Image\.open|imread|librosa\.load|sf\.read|torchaudio\.load|read_video|VideoReader|load_dataset"
        r"|nib\.load|dcmread|loadmat|sio\.loadmat|TFRecordDataset|ImageFolder|lmdb\.open|open_dataset)\(",
        r"\bin (?:enumerate\()?(?:tqdm\()?\w*(?:loader|dataset|iterator)\w*\b",
        r"\bnext\(\w*(?:iter|loader|data)",
    ),
    _place(
        "configuration",
        r"\b(?:yaml\.\w*load|parse_args|parse_known_args|OmegaConf\.\w+|fromfile|configparser|tomllib\.load)\(",
    ),
)
# What a line without a traceback says of itself, or the line before it announces.
_SAID = (
    _place(
        "rendezvous",
        r"rendezvous|init_process_group|MASTER_ADDR|TCPStore|c10d|coordination[ _]service",
        r"still waiting for response from worker|distributed\.initialize|gloo context",
        r"connectFullMesh|store based barrier",
    ),
    _place("launching", r"\bssh\b|\bpdsh\b|mpirun|mpiexec|orted|ORTE|PMIX|srun: error|horovodrun"),
    _place(
        "checkpoint-loading",
        r"(?:load(?:ing|s)?|(?:restor|resum)\w*)\b.{0,40}(?:checkpoint|ckpt|weights|pretrained|snapshot)",
        r"(?:load|restor)(?:e|ing)?\b.{0,40}model from",
    ),
    _place("checkpoint-saving", r"sav\w+ .{0,40}(?:checkpoint|ckpt|weights|snapshot|model to)"),
    # An address by number, or localhost, is a dashboard or a rendezvous, not a place to load from.
    _place("download", r"download|huggingface\.co|hf-mirror|https?://(?:[a-km-z]|l[a-np-z])"),
    _place(
        "data-opening",
        r"(?:load|read|build|prepar|creat)\w* .{0,30}(?:dataset|data set|training data|corpus)",
        r"(?:load|read)\w* .{0,30}annotations",
    ),
    _place("evaluation", r"(?:evaluat|validat)ing\b"),
    _place(
        "forward",
        r"^\W*(?:start(?:ing|ed)?|begin(?:ning)?|run(?:ning)?) (?:\w+ ){0,2}train(?:ing)?\b",
        r"^\W*training(?:\.{2,3}|:)?$|\bmain: begin training\b",
    ),
    _place(
        "collective",
        r"all_?reduce|all_?gather|ncclAll|WorkNCCL|ProcessGroupNCCL|SeqNum=|stalled",
    ),
    # By the name of the file that is spoken of, where nothing else says it.
    _place(
        "checkpoint-loading",
        r"\.(?:pth?|pth\.tar|ckpt|safetensors|pdparams|gguf|onnx|t7|caffemodel|msgpack)\b",
    ),
    _place(
        "data-opening",
        r"\.(?:tar(?:\.gz)?|tgz|zip|csv|tsv|parquet|arrow|feather|tfrecords?|rec|lmdb|mdb|hdf5|npz|npy|jpe?g"
        r"|png|tiff?|mp4|avi|wav|flac|mp3|jsonl|mds|nii(?:\.gz)?|dcm|zarr)\b",
    ),
)


# Words of code that have a checkpoint in them and load none.
_NO_CHECKPOINT = linear(
    r"(?i)\w*resume_from_checkpoint\w*|(?:gradient|activation|use|enable)\w*_checkpoint\w*"
    # Handed on to whoever trains, or one of many settings.
    r"|\w*(?:ckpt|checkpoint)\w* ?= ?[\w.]+[,)]|\bargs\.\w*(?:ckpt|checkpoint)\w*[,)]"
    r"|checkpoint_(?:activations|wrapper|sequential)\w*|utils\.checkpoint|\bcheckpoint\("
)


# Where more is to be read about a warning: nothing is loaded from there.
_TO_READ = linear(
    r"(?i)\b(?:see|visit|refer to|details|information)\b[^\n]{0,30}\bhttps?://\S+"
    r"|https?://\S*(?:/docs?/|readthedocs|/wiki/|/issues/|stackoverflow)\S*"
)


def phase_of_traceback(traceback: TracebackText, quoted: Sequence[str] = ()) -> str:
    """The innermost telling frame; then the innermost telling code; then a general reader.

    `quoted`: the lines of code that the traceback quotes.
    """
    frames = [f"{file}:{function}".replace("\\", "/") for file, _, function in traceback.frames]
    inner_first = frames[::-1][:MOST_FRAMES]
    code = [_NO_CHECKPOINT.sub("", line[:400]) for line in quoted[::-1][:MOST_FRAMES]]
    for places, texts in ((_TELLING, inner_first), (_QUOTED, code), (_GENERAL, inner_first)):
        for text in texts:
            for place in places:
                if place.frame.search(text):
                    return place.phase
    return ""


def phase_of_line(lines: Sequence[Line], index: int) -> str:
    """Of a line without a traceback: its own words, then the last announcement before it."""
    for line in reversed(lines[max(0, index - MOST_LINES_BEFORE) : index + 1]):
        text = line.text[:400]
        text = _TO_READ.sub("", text) if "://" in text else text
        for place in _SAID:
            if place.frame.search(text):
                return place.phase
    return ""
