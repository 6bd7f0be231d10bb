// Resampling of images, and the random numbers and maps drawn for them.
#include <algorithm>

#include "common/mix.h"
#include "tensor/cpu/cpu_ops_internal.h"
#include "tensor/resample_formulas.h"

namespace paracord::cpu {

void Uniform(uint64_t key, float low, float high, int64_t first, int64_t n, float* y) {
  const uint64_t mixed = Mix64(key);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t hash = Mix64(mixed ^ static_cast<uint64_t>(first + i));
    y[i] = formulas::Between(formulas::UnitNumber(hash), low, high);
  }
}

void RandomMaps(uint64_t key, const RandomMap& s, int64_t first, int64_t batch, float* maps) {
  const uint64_t mixed = Mix64(key);
  for (int64_t i = 0; i < batch; ++i, maps += 6) {
    const auto draw = static_cast<uint64_t>(s.together ? 0 : 2 * (first + i));
    const formulas::AffineMap m = formulas::MapOf(s, formulas::UnitNumber(Mix64(mixed ^ draw)),
                                                  formulas::UnitNumber(Mix64(mixed ^ (draw + 1))));
    const float numbers[] = {m.a0, m.a1, m.a2, m.b0, m.b1, m.b2};
    std::copy_n(numbers, 6, maps);
  }
}

void Resample(const ResampleShape& s, const float* maps, const float* x, float* y, int64_t first,
              int64_t count) {
  y += first * s.width.out * s.channels;
  for (int64_t row = first; row < first + count; ++row) {
    const int64_t example = row / s.height.out, at = row % s.height.out;
    const float* image = x + example * s.height.in * s.width.in * s.channels;
    const float* m = maps == nullptr ? nullptr : maps + 6 * example;
    for (int64_t column = 0; column < s.width.out; ++column) {
      const formulas::PixelTaps taps =
          m == nullptr ? formulas::ResizedTaps(s, at, column)
                       : formulas::MappedTaps(s, {m[0], m[1], m[2], m[3], m[4], m[5]}, at, column);
      for (int64_t c = 0; c < s.channels; ++c) *y++ = formulas::Sample(s, image, taps, c);
    }
  }
}

void ResizeBackward(const ResampleShape& s, const float* dy, float* dx, int64_t first,
                    int64_t count) {
  const int64_t each = s.height.in * s.width.in * s.channels;
  dy += first * s.height.out * s.width.out * s.channels;
  std::fill_n(dx + first * each, count * each, 0.f);
  for (int64_t example = first; example < first + count; ++example) {
    float* const image = dx + example * each;
    const auto add = [&](int64_t row, int64_t column, float share) {
      const bool inside = row >= 0 && row < s.height.in && column >= 0 && column < s.width.in;
      if (!inside || share == 0) return;
      float* const at = image + (row * s.width.in + column) * s.channels;
      for (int64_t c = 0; c < s.channels; ++c) at[c] += share * dy[c];
    };
    for (int64_t row = 0; row < s.height.out; ++row) {
      for (int64_t column = 0; column < s.width.out; ++column, dy += s.channels) {
        const auto [r, c] = formulas::ResizedTaps(s, row, column);
        add(r.first, c.first, (1 - r.aside) * (1 - c.aside));
        add(r.first, c.first + 1, (1 - r.aside) * c.aside);
        add(r.first + 1, c.first, r.aside * (1 - c.aside));
        add(r.first + 1, c.first + 1, r.aside * c.aside);
      }
    }
  }
}

}  // namespace paracord::cpu
