// What this machine multiplies in bf16, FLOP/s over all cores: the bounds that benches stand
// beside.
#pragma once

namespace sluice {

/// On the processor's tiles from registers alone, which nothing real can exceed; 0 without tiles.
double tile_rate();
/// Of 512 x 4096 x 4096, threads spinning; with the processor's tiles, or by the library alone.
double product_rate(bool tiles = true);

/// Both, and the library's, on a line.
void print_rates();

}  // namespace sluice
