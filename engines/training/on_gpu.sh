#!/usr/bin/env bash
# Train a head for a target on a machine with a GPU that nothing can be fetched from. Where the model is:
#
#     python -m engines.training.parts cut ~/.cache/specplay/models/smollm2-135m-instruct parts
#
# Then bring this repository and the parts along, and there, with torch and the repository's other requirements:
#
#     bash engines/training/on_gpu.sh parts smollm2-135m-instruct out [tokens] [steps]
#
# out/head is what to bring back (model.safetensors, about 20 MB, and config.json). An interruption costs little: the same
# command goes on from out/data and out/head.
set -euo pipefail
cd "$(dirname "$0")/../.."
parts=$1 target=$2 out=$3 tokens=${4:-4000000} steps=${5:-8000}
export SPECPLAY_HOME=${SPECPLAY_HOME:-$out/home}
[ -d "$SPECPLAY_HOME/models/$target" ] || python -m engines.training.parts join "$parts" "$SPECPLAY_HOME/models/$target"
resume=()
[ -e "$out/head/checkpoint.safetensors" ] && resume=(--resume)
python -m engines train head --target "$target" --store "$out/data" --self "$tokens" --rows 256 \
    --batch 8192 --steps "$steps" --steps-ahead 3 --out "$out/head" "${resume[@]}"
