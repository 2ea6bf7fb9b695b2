// What this machine multiplies in bf16, FLOP/s over all cores: the bounds that benches stand
// beside.
#pragma once

namespace sluice {

/// On the processor's tiles from registers alone, which nothing real can exceed; 0 without tiles.
double tile_rate();
/// Of 512 x 4096 x 4096, threads spinning; with the processor's tiles, or as without.
double product_rate(bool tiles = true);
/// Of the same product by oneDNN in bf16, as fast as it can here; 0 where it has none.
double library_rate();

/// All of them on a line.
void print_rates();

}  // namespace sluice
