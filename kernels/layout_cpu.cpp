#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernels/layout.h"
#include "kernels/parallel.h"
#include "kernels/vector_math.h"

namespace sluice::kernels {

namespace {

/// Values that are worth a thread.
constexpr std::size_t values_per_thread = 1 << 16;

SLUICE_LOOP void rotate_in_place(float* x, const float* cosine, const float* sine,
                                 std::size_t half) {
  for (std::size_t i = 0; i < half; ++i) {
    const float a = x[i];
    const float b = x[i + half];
    x[i] = a * cosine[i] - b * sine[i];
    x[i + half] = b * cosine[i] + a * sine[i];
  }
}

SLUICE_LOOP void widen_all(const std::uint16_t* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = widen(from[i]);
}

SLUICE_LOOP void narrow_all(const float* from, std::size_t count, std::uint16_t* to) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    const bool is_number = (bits & 0x7fffffffU) <= 0x7f800000U;
    to[i] = is_number ? narrow(from[i]) : static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  }
}

}  // namespace

void pages_to_rows_cpu(std::span<const float* const> pages, std::size_t page_tokens,
                       std::size_t width, std::span<float> rows) {
  const std::size_t page = page_tokens * width;
  for (std::size_t at = 0; at < rows.size(); at += page)
    std::memcpy(rows.data() + at, pages[at / page],
                std::min(page, rows.size() - at) * sizeof(float));
}

void pages_to_rows_cpu(std::span<const std::uint16_t* const> pages, std::size_t page_tokens,
                       std::size_t width, std::span<float> rows) {
  const std::size_t page = page_tokens * width;
  for (std::size_t at = 0; at < rows.size(); at += page)
    wide<widen_all>(pages[at / page], std::min(page, rows.size() - at), rows.data() + at);
}

void narrow_rows_cpu(std::span<const float> rows, std::size_t width,
                     std::span<std::uint16_t* const> to) {
  parallel_for(to.size(), values_per_thread / width + 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      wide<narrow_all>(rows.data() + row * width, width, to[row]);
  });
}

void rows_to_pages_cpu(std::span<const float> rows, std::size_t page_tokens, std::size_t width,
                       std::span<float* const> pages) {
  const std::size_t page = page_tokens * width;
  for (std::size_t at = 0; at < rows.size(); at += page)
    std::memcpy(pages[at / page], rows.data() + at,
                std::min(page, rows.size() - at) * sizeof(float));
}

void shift_rows_cpu(std::span<float> rows, std::size_t width, std::size_t by) {
  const std::size_t from = std::min(by * width, rows.size());
  std::memmove(rows.data(), rows.data() + from, (rows.size() - from) * sizeof(float));
}

void rotate_keys_cpu(std::span<float> rows, std::size_t heads, std::size_t head_dim,
                     std::span<const float> cosine, std::span<const float> sine) {
  if (cosine.empty()) return;
  const std::size_t half = head_dim / 2;
  const std::size_t width = heads * head_dim;
  const std::size_t count = rows.size() / width;
  SLUICE_CHECK(cosine.size() >= count * half && sine.size() >= count * half,
               "a place in the RoPE table for each row");
  parallel_for(count, values_per_thread / width + 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      for (std::size_t head = 0; head < heads; ++head)
        wide<rotate_in_place>(rows.data() + row * width + head * head_dim,
                              cosine.data() + row * half, sine.data() + row * half, half);
  });
}

void cut_normalised_cpu(std::span<const std::uint8_t> picture, std::size_t side, std::size_t patch,
                        std::span<const float> mean, std::span<const float> deviation,
                        std::span<float> patches) {
  float* to = patches.data();
  for (std::size_t top = 0; top < side; top += patch)
    for (std::size_t left = 0; left < side; left += patch)
      for (std::size_t channel = 0; channel < 3; ++channel)
        for (std::size_t y = top; y < top + patch; ++y)
          for (std::size_t x = left; x < left + patch; ++x) {
            const float share =
                static_cast<float>(picture[(y * side + x) * 3 + channel]) * (1.0F / 255);
            *to++ = (share - mean[channel]) / deviation[channel];
          }
}

}  // namespace sluice::kernels
