#!/bin/sh
# Builds the fuzz targets with clang-14 and runs each for SECONDS_EACH (default 60) or RUNS executions.
# Usage: tests/fuzz/run.sh [BUILD_DIR] [TARGET...]     targets: image_file npy workflow scenario
#                                                 manifest cluster config safetensors tokenizer gguf trace segment wire message
#                                                 links control registry host shm_word pages page_batches reads weights
# Not in the package lists: clang++-14
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build-fuzz}
[ $# -gt 0 ] && shift
targets=${*:-image_file npy workflow scenario manifest cluster config safetensors tokenizer gguf trace segment wire message links control registry host shm_word pages page_batches reads weights}
flags="-std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I$root"
mkdir -p "$build"

# What the targets share is compiled once.
sources() {
  case $1 in
    image_file) echo "$root/engine/picture/image_file.cpp $root/base/*.cpp" ;;
    npy) echo "$root/roles/npy_file.cpp $root/base/*.cpp" ;;
    workflow | manifest | cluster) echo "$root/graph/*.cpp $root/workflows/*.cpp $root/base/*.cpp" ;;
    config | safetensors | tokenizer | gguf) echo "$root/engine/family/architecture*.cpp $root/engine/checkpoint/safetensors.cpp \
      $root/engine/checkpoint/mapped_file.cpp $root/engine/*/gguf*.cpp $root/kernels/quant_ref.cpp $root/kernels/quant_avx*.cpp $root/kernels/isa.cpp \
      $root/engine/text/tokenizer*.cpp $root/engine/layers/rope.cpp $root/engine/picture/picture_input.cpp \
      $root/engine/picture/resample.cpp $root/engine/text/chat.cpp $root/base/*.cpp" ;;
    wire | message) echo "$root/graph/*.cpp $root/workflows/*.cpp $root/base/*.cpp \
      $root/runtime/wire/*.cpp" ;;
    control) echo "$root/graph/*.cpp $root/workflows/*.cpp $root/base/*.cpp $root/runtime/wire/*.cpp \
      $root/runtime/windows.cpp $root/runtime/node/control.cpp $root/runtime/node/history_parcel.cpp $root/runtime/replicas/parcel.cpp" ;;
    shm_word) echo "$root/runtime/shm/word.cpp $root/base/*.cpp" ;;
    links) echo "$root/runtime/zmq/parcel.cpp $root/runtime/zmq/peer*.cpp $root/runtime/zmq/door.cpp $root/base/*.cpp" ;;
    registry) echo "$root/runtime/redis/reply.cpp $root/runtime/registry/*.cpp $root/base/*.cpp" ;;
    host) echo "$root/runtime/hosts/host_protocol.cpp $root/runtime/hosts/pool_codec.cpp $root/runtime/hosts/channel.cpp $root/runtime/wire/payload_codec.cpp $root/base/*.cpp" ;;
    trace | segment) echo "$root/dataplane/$1*.cpp $root/base/*.cpp" ;;
    pages) echo "$root/dataplane/page_[ahknprs]*.cpp $root/dataplane/page_messages.cpp $root/base/*.cpp" ;;
    page_batches) echo "$root/dataplane/page_client.cpp $root/dataplane/page_manager.cpp $root/dataplane/page_requests.cpp \
      $root/dataplane/page_table.cpp $root/dataplane/page_tenants.cpp $root/dataplane/hit_watch.cpp \
      $root/dataplane/optimum.cpp $root/base/*.cpp" ;;
    reads) echo "$root/runtime/tcp/tcp_[cgk]*.cpp $root/runtime/tcp/tcp_link.cpp $root/runtime/tcp/tcp_serving.cpp \
      $root/runtime/tcp/tcp_wire.cpp $root/base/*.cpp" ;;
    weights) echo "$root/engine/checkpoint/weight_table.cpp $root/engine/checkpoint/part_packets.cpp $root/base/*.cpp" ;;
    scenario) echo "$root/graph/*.cpp $root/workflows/*.cpp $root/base/*.cpp $root/runtime/sim/*.cpp $root/runtime/wire/*.cpp" ;;
  esac
}
for target in $targets; do
  objects=
  for source in "$root/tests/fuzz/${target}_fuzz.cpp" $(sources "$target"); do
    object=$build/$(echo "${source#"$root"/}" | tr / _).o
    [ "$object" -nt "$source" ] || clang++-14 $flags -c "$source" -o "$object"
    objects="$objects $object"
  done
  clang++-14 $flags $objects -lturbojpeg -lyaml-cpp -lpcre2-8 -lutf8proc -lsentencepiece -lhiredis -lcrypto -o "$build/${target}_fuzz"
  mkdir -p "$build/$target"
  cp "$root/tests/fuzz/corpus/$target"/*.*[!k] "$build/$target/"
  pack=$root/tests/fuzz/corpus/$target/found.pack
  [ ! -f "$pack" ] || python3 "$root/tests/fuzz/pack.py" unpack "$pack" "$build/$target"
  limit="-max_total_time=${SECONDS_EACH:-60}"
  [ -n "${RUNS:-}" ] && limit="-runs=$RUNS"
  dictionary=
  case $target in workflow | scenario | manifest | cluster) dictionary="-dict=$root/tests/fuzz/yaml.dict" ;; esac
  "$build/${target}_fuzz" "$limit" -artifact_prefix="$build/$target-" -rss_limit_mb=2048 -max_len=16384 -timeout=10 $dictionary \
    -print_final_stats=1 "$build/$target"
done
