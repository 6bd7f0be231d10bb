// Kernel bodies that draw random numbers and random maps (RandomMap in ops.h), and that resample
// images.
#pragma once

#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/window.h"
#include "tensor/resample_formulas.h"

namespace paracord::cuda {

struct UniformBody {
  Ptr<const uint64_t> mixed;  // Mix64 of the key
  float low, high;
  int64_t first;
  Out y;
  PARACORD_HD void operator()(int64_t i) const {
    const uint64_t hash = MixBits(mixed[0] ^ static_cast<uint64_t>(first + i));
    y[i] = formulas::Between(formulas::UnitNumber(hash), low, high);
  }
};

struct RandomMapBody {
  Ptr<const uint64_t> mixed;
  RandomMap s;
  int64_t first;
  Out maps;
  PARACORD_HD void operator()(int64_t i) const {
    const auto draw = static_cast<uint64_t>(s.together ? 0 : 2 * (first + i));
    const uint64_t key = mixed[0];
    const formulas::AffineMap m = formulas::MapOf(s, formulas::UnitNumber(MixBits(key ^ draw)),
                                                  formulas::UnitNumber(MixBits(key ^ (draw + 1))));
    const float numbers[] = {m.a0, m.a1, m.a2, m.b0, m.b1, m.b2};
    for (int k = 0; k < 6; ++k) maps[6 * i + k] = numbers[k];
  }
};

struct ResampleBody {
  ResampleShape s;
  In maps;  // null: the images are resized
  In x;
  Out y;
  PARACORD_HD void operator()(int64_t i) const {
    const Pixel at = PixelOf(i, s.height.out, s.width.out, s.channels);
    const In image = x + at.batch * s.height.in * s.width.in * s.channels;
    y[i] = formulas::Sample(s, image, TapsFor(at), at.channel);
  }
  PARACORD_HD formulas::PixelTaps TapsFor(const Pixel& at) const {
    if (maps == nullptr) return formulas::ResizedTaps(s, at.y, at.x);
    const In m = maps + 6 * at.batch;
    return formulas::MappedTaps(s, {m[0], m[1], m[2], m[3], m[4], m[5]}, at.y, at.x);
  }
};

struct ResizeBackwardBody {
  ResampleShape s;
  In dy;
  Out dx;
  PARACORD_HD void operator()(int64_t i) const {
    const Pixel at = PixelOf(i, s.height.in, s.width.in, s.channels);
    const formulas::OutRange rows = formulas::ResizedFrom(s.height, at.y);
    const formulas::OutRange columns = formulas::ResizedFrom(s.width, at.x);
    float sum = 0;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const float of_row =
          formulas::ShareOf(formulas::ResizedTaps(s.bilinear, s.height, row), at.y);
      if (of_row == 0) continue;
      for (int64_t column = columns.begin; column < columns.end; ++column) {
        const float share =
            of_row * formulas::ShareOf(formulas::ResizedTaps(s.bilinear, s.width, column), at.x);
        if (share == 0) continue;
        sum +=
            share *
            dy[((at.batch * s.height.out + row) * s.width.out + column) * s.channels + at.channel];
      }
    }
    dx[i] = sum;
  }
};

}  // namespace paracord::cuda
