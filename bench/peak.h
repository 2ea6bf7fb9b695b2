// What this machine multiplies, operations per second over all cores, a multiplication and an
// addition being two: the bounds that benches stand beside. In bf16, unless it says whole numbers.
#pragma once

namespace sluice {

/// On the processor's tiles from registers alone, which nothing real can exceed; 0 without tiles.
double tile_rate();
/// Of 512 x 4096 x 4096, threads spinning; in bf16 where that is faster, or widened to f32.
double product_rate(bool narrow = true);
/// Of the same product by oneDNN in bf16, as fast as it can here; 0 where it has none.
double library_rate();

/// Of 16-bit whole numbers from registers alone, with VNNI or AVX2; 0 without.
double whole_rate();

/// Those of bf16 on a line.
void print_rates();

}  // namespace sluice
