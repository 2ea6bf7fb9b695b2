#include "kernels/cuda/grid.h"

#ifndef SLUICE_EMULATED

namespace sluice::device {

namespace {

__global__ void empty_kernel() { wait_for_inputs(); }

}  // namespace

/// The device can, a graph can hold it (CUDA 12.3), and what runs there is compiled with the wait:
/// of a program for older devices only, the driver compiles code without.
bool launches_early() {
  static const bool does = [] {
    constexpr int hopper = 90;
    constexpr int graphs_hold_it = 12030;
    int device = 0;
    int major = 0;
    int driver = 0;
    cudaFuncAttributes compiled{};
    const bool told =
        cudaGetDevice(&device) == cudaSuccess && cudaDriverGetVersion(&driver) == cudaSuccess &&
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
        cudaFuncGetAttributes(&compiled, empty_kernel) == cudaSuccess;
    return told && major * 10 >= hopper && compiled.ptxVersion >= hopper &&
           driver >= graphs_hold_it;
  }();
  return does;
}

}  // namespace sluice::device

#endif
