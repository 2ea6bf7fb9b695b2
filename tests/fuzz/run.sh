#!/bin/sh
# Builds the fuzz targets with clang-14 and runs each for SECONDS_EACH (default 60).
# Usage: tests/fuzz/run.sh [BUILD_DIR]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build-fuzz}
mkdir -p "$build/image_file"
cp "$root"/models/scenes/samples/* "$build/image_file/"
clang++-14 -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
  -I"$root" "$root/tests/fuzz/image_file_fuzz.cpp" "$root/roles/image_file.cpp" \
  "$root"/base/*.cpp -lturbojpeg -o "$build/image_file_fuzz"
"$build/image_file_fuzz" -max_total_time="${SECONDS_EACH:-60}" -rss_limit_mb=2048 -max_len=16384 \
  -print_final_stats=1 "$build/image_file"
