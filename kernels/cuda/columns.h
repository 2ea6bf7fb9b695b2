// Values of a row that follow each other, of which a thread takes a few at once. For *.cu only.
#pragma once

#include "kernels/cuda/grid.h"

namespace sluice::device {

/// As many as 16 bytes hold of the narrowest type.
inline constexpr unsigned columns_most = 8;

/// In registers; zero behind those that are there. `whole`: they are `columns_most`, and begin on
/// 16 bytes.
template <typename T>
struct Taken {
  float values[columns_most];

  __device__ Taken(const T* from, unsigned count, bool whole) {
    constexpr unsigned piece = Piece<T>::count;
    SLUICE_UNROLL
    for (unsigned p = 0; p < columns_most; p += piece) {
      Piece<T> read{};
      if (whole)
        read = load_piece(from + p);
      else
        for (unsigned k = 0; k < piece; ++k)
          if (p + k < count) read.values[k] = from[p + k];
      SLUICE_UNROLL
      for (unsigned k = 0; k < piece; ++k) values[p + k] = load(read.values[k]);
    }
  }
  __device__ void add(const Taken<float>& other) {
    SLUICE_UNROLL
    for (unsigned k = 0; k < columns_most; ++k) values[k] += other.values[k];
  }
};
template <typename U>
__device__ __forceinline__ void put(U* to, const float* values, unsigned count, bool whole) {
  constexpr unsigned piece = Piece<U>::count;
  SLUICE_UNROLL
  for (unsigned p = 0; p < columns_most; p += piece) {
    Piece<U> made;
    SLUICE_UNROLL
    for (unsigned k = 0; k < piece; ++k) store(&made.values[k], values[p + k]);
    if (whole)
      *reinterpret_cast<Piece<U>*>(to + p) = made;
    else
      for (unsigned k = 0; k < piece; ++k)
        if (p + k < count) to[p + k] = made.values[k];
  }
}

}  // namespace sluice::device
