// Resampling of images, for every device: the sources of the output's pixels, and the random maps
// drawn for examples. All are pure functions. A place is a coordinate along an axis, in pixels;
// pixel n has its centre at place n. Maps and edges follow TensorFlow's ImageProjectiveTransformV3;
// resizing follows tf.image.resize, with half-pixel centres.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/host_device.h"
#include "tensor/ops.h"

namespace paracord::formulas {

// Turns a hash into a number uniform in [0, 1).
PARACORD_HD inline double UnitNumber(uint64_t hash) {
  return static_cast<double>(hash >> 32) / 4294967296.0;
}

PARACORD_HD inline float Between(double unit, float low, float high) {
  const double from = static_cast<double>(low);
  return static_cast<float>(from + (static_cast<double>(high) - from) * unit);
}

// A map from the output's column x and row y to the input's column a0 x + a1 y + a2 and row b0 x +
// b1 y + b2.
struct AffineMap {
  float a0 = 1, a1 = 0, a2 = 0, b0 = 0, b1 = 1, b2 = 0;
};

PARACORD_HD inline AffineMap InverseOf(const AffineMap& m) {
  const float over = 1 / (m.a0 * m.b1 - m.a1 * m.b0);
  AffineMap inverse{m.b1 * over, -m.a1 * over, 0, -m.b0 * over, m.a0 * over, 0};
  inverse.a2 = -(inverse.a0 * m.a2 + inverse.a1 * m.b2);
  inverse.b2 = -(inverse.b0 * m.a2 + inverse.b1 * m.b2);
  return inverse;
}

// Makes an example's map from two numbers in [0, 1), drawn for rows and for columns.
PARACORD_HD inline AffineMap MapOf(const RandomMap& s, double rows, double columns) {
  const float row = Between(rows, s.low[0], s.high[0]);
  const float column = Between(s.alike ? rows : columns, s.low[1], s.high[1]);
  const auto last_row = static_cast<float>(s.height - 1);
  const auto last_column = static_cast<float>(s.width - 1);
  AffineMap m;
  switch (s.kind) {
    case MapKind::kFlip:
      if (row <= 0.5f) m.b1 = -1, m.b2 = last_row;
      if (column <= 0.5f) m.a0 = -1, m.a2 = last_column;
      break;
    case MapKind::kTranslate:
      m.a2 = -column * static_cast<float>(s.width);
      m.b2 = -row * static_cast<float>(s.height);
      break;
    case MapKind::kRotate: {
      const float radians = row * 0.017453292519943295f;
      const auto cosine = static_cast<float>(std::cos(static_cast<double>(radians)));
      const auto sine = static_cast<float>(std::sin(static_cast<double>(radians)));
      const float x = 0.5f * last_column, y = 0.5f * last_row;
      m = {cosine, -sine, x - x * cosine + y * sine, sine, cosine, y - x * sine - y * cosine};
      break;
    }
    case MapKind::kZoom:
      m.a0 = column;
      m.a2 = last_column / 2 * (1 - column);
      m.b1 = row;
      m.b2 = last_row / 2 * (1 - row);
      break;
    case MapKind::kShift:
      m.a2 = std::floor(column);
      m.b2 = std::floor(row);
  }
  return s.inverse ? InverseOf(m) : m;
}

// Moves the place `at` by as many steps as the integral part of `times`, plus `more`. The product
// is exact: a fused multiply-add does not change the result.
PARACORD_HD inline float Moved(float at, float step, float times, int64_t more = 0) {
  const auto whole = static_cast<double>(static_cast<int64_t>(times) + more);
  return static_cast<float>(static_cast<double>(at) + static_cast<double>(step) * whole);
}

// Moves a place along an axis of n pixels back into the image according to `mode`. With kConstant,
// only limits the place to +-2^30, which an integer can hold.
PARACORD_HD inline float PlaceWithin(FillMode mode, float at, int64_t n) {
  constexpr float kFar = 1 << 30;  // a map may give anything, also infinities and NaN
  at = at > -kFar ? (at < kFar ? at : kFar) : -kFar;
  if (mode == FillMode::kConstant) return at;
  const auto last = static_cast<float>(n - 1), length = static_cast<float>(n);
  if (n > 1 && mode == FillMode::kReflect) {
    const float twice = 2 * length;
    if (at < 0) {
      at = Moved(at, twice, -at / twice);
      at = at < -length ? at + twice : -at - 1;
    } else if (at > last) {
      at = Moved(at, -twice, at / twice);
      if (at >= length) at = twice - at - 1;
    }
  } else if (n > 1 && mode == FillMode::kWrap) {
    if (at < 0) {
      at = Moved(at, length, -at / last, 1);
    } else if (at > last) {
      at = Moved(at, -length, at / last);
    }
  }
  return at > 0 ? (at < last ? at : last) : 0;
}

// The two pixels around a place along an axis: `first` has weight 1 - aside, the next has weight
// aside.
struct Taps {
  int64_t first = 0;
  float aside = 0;
};

PARACORD_HD inline Taps TapsOf(bool bilinear, float place) {
  if (!bilinear) return {static_cast<int64_t>(std::round(place)), 0};
  const float below = std::floor(place);
  return {static_cast<int64_t>(below), place - below};
}

PARACORD_HD inline float ScaleOf(const ResampleAxis& axis) {
  return static_cast<float>(axis.size) / static_cast<float>(axis.out);
}

// The taps along an axis of output pixel `out` when the axis is resized.
PARACORD_HD inline Taps ResizedTaps(bool bilinear, const ResampleAxis& axis, int64_t out) {
  const float edge = (static_cast<float>(out) + 0.5f) * ScaleOf(axis);
  const float place = bilinear ? edge - 0.5f : std::floor(edge);
  Taps taps = TapsOf(bilinear, PlaceWithin(FillMode::kNearest, place, axis.size));
  taps.first += axis.begin;
  return taps;
}

// The weight of input pixel `in` in an output pixel with these taps, along an axis.
PARACORD_HD inline float ShareOf(const Taps& taps, int64_t in) {
  return in == taps.first ? 1 - taps.aside : in == taps.first + 1 ? taps.aside : 0;
}

// A range of output pixels along an axis that contains all with input pixel `in` among their taps.
struct OutRange {
  int64_t begin, end;
};
PARACORD_HD inline OutRange ResizedFrom(const ResampleAxis& axis, int64_t in) {
  const int64_t at = in - axis.begin;
  if (at < 0 || at >= axis.size) return {0, 0};
  const auto place = static_cast<float>(at);
  const auto low = static_cast<int64_t>((place - 0.5f) / ScaleOf(axis) - 2.5f);
  const auto high = static_cast<int64_t>((place + 1.5f) / ScaleOf(axis) + 2.5f);
  return {at == 0 || low < 0 ? 0 : low, at == axis.size - 1 || high > axis.out ? axis.out : high};
}

struct PixelTaps {
  Taps rows, columns;
};

// The taps of the output's pixel (y, x) under the map of its example.
PARACORD_HD inline PixelTaps MappedTaps(const ResampleShape& s, const AffineMap& m, int64_t y,
                                        int64_t x) {
  // The products of two float32 are exact in double: large terms cancel without loss, whether added
  // by a fused multiply-add (nvcc) or separately.
  const auto column = static_cast<double>(x), row = static_cast<double>(y);
  const auto at_column = static_cast<float>(double{m.a0} * column + double{m.a1} * row + m.a2);
  const auto at_row = static_cast<float>(double{m.b0} * column + double{m.b1} * row + m.b2);
  return {TapsOf(s.bilinear, PlaceWithin(s.fill, at_row, s.height.in)),
          TapsOf(s.bilinear, PlaceWithin(s.fill, at_column, s.width.in))};
}

PARACORD_HD inline PixelTaps ResizedTaps(const ResampleShape& s, int64_t y, int64_t x) {
  return {ResizedTaps(s.bilinear, s.height, y), ResizedTaps(s.bilinear, s.width, x)};
}

// The value of a channel at the place given by `taps`, in the image that begins at x.
template <class Floats>
PARACORD_HD float Sample(const ResampleShape& s, const Floats& x, const PixelTaps& taps,
                         int64_t channel) {
  const auto at = [&](int64_t row, int64_t column) -> float {
    const bool inside = row >= 0 && row < s.height.in && column >= 0 && column < s.width.in;
    return inside ? static_cast<float>(x[(row * s.width.in + column) * s.channels + channel])
                  : s.fill_value;
  };
  const Taps &r = taps.rows, &c = taps.columns;
  const auto along = [&](int64_t row) {
    const float first = at(row, c.first);
    return c.aside == 0 ? first : (1 - c.aside) * first + c.aside * at(row, c.first + 1);
  };
  const float first = along(r.first);
  return r.aside == 0 ? first : (1 - r.aside) * first + r.aside * along(r.first + 1);
}

}  // namespace paracord::formulas
