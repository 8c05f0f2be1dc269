// Floats to munia's own integer weights: the specification that quantize_simd.inc gives the same
// bytes as. Both types look for the scales with the least sum of squared errors, since the scale
// that fits the largest weight is rarely the one that fits the group.
//   INT8: groups of 64, w = d * (q - 128), |q - 128| <= 127.
//   INT4: groups of 32, w = d*sc*q - dmin*m with q of 4 bits, sc and m of 8 bits, d and dmin for
//   the block: first every group gets the scale and minimum of its own, then these are rounded to
//   what the block can hold, then the codes are chosen anew for what is left.
//
// Where it is known what a matrix is multiplied with (model/input_moments.h), `spread` carries the
// error of each INT4 weight on to the weights of its block that are not rounded yet, so that the
// outputs change least, not the weights: for ascending k
//   e = w[k] - value(code(w[k]));  w[i] = w[i] - e * spread[k][i] for i in (k, n)
// The scales are those for the weights as they came, squared errors weighted by spread[k][k].
// (Frantar et al., GPTQ, 2022, with the second moments cut into blocks of 256.)
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/packed_format.h"
#include "kernels/row_block.h"

namespace munia::kernels {
namespace {

/// To the nearest whole number, ties to even, for |x| < 2^22; plain SSE2 has no instruction for it.
float rounded(float x) {
  constexpr float kMagic = 0x1.8p23F;
  return (x + kMagic) - kMagic;
}

float clamped(float x, float low, float high) {
  const float at_least = x > low ? x : low;
  return at_least < high ? at_least : high;
}

float inverse_of(float x) { return x > 0 ? 1.0F / x : 0.0F; }

float int8_code(float w, float inverse) { return clamped(rounded(w * inverse), -127, 127); }

void quantize_int8_group(const float* w, std::int64_t n, std::uint16_t& half, std::uint8_t* q) {
  float largest = 0;
  for (std::int64_t k = 0; k < n; ++k) largest = std::max(largest, std::abs(w[k]));
  float best = std::numeric_limits<float>::infinity();
  // Fewer steps than 127 leave room for the scale's own rounding; more would cut the largest
  // weight.
  for (const float steps : {127.0F, 126.5F, 126.0F, 125.0F}) {
    const std::uint16_t candidate = float_to_half(largest / steps);
    const float d = half_to_float(candidate);
    const float inverse = inverse_of(d);
    float error = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      const float rest = w[k] - d * int8_code(w[k], inverse);
      error += rest * rest;
    }
    if (!(error < best)) continue;
    best = error;
    half = candidate;
  }
  const float inverse = inverse_of(half_to_float(half));
  for (std::int64_t k = 0; k < n; ++k) {
    q[k] = static_cast<std::uint8_t>(int8_code(w[k], inverse) + 128);
  }
}

struct Affine {  // w is about scale * q - min, min >= 0
  float scale = 0;
  float min = 0;
};

constexpr std::int64_t kInt4Group = packed_format(WeightType::kInt4).group;

float int4_code(float w, const Affine& form, float inverse) {
  return clamped(rounded((w + form.min) * inverse), 0, 15);
}

/// The weighted sum of squared errors of a group; `importance` of each k.
float int4_error(const float* w, const float* importance, const Affine& form) {
  const float inverse = inverse_of(form.scale);
  float error = 0;
  for (std::int64_t k = 0; k < kInt4Group; ++k) {
    const float rest = w[k] - (form.scale * int4_code(w[k], form, inverse) - form.min);
    error += importance[k] * (rest * rest);
  }
  return error;
}

/// The scale and minimum with least squared error for the codes that `form` gives.
Affine fit_affine(const float* w, const float* importance, const Affine& form) {
  const float inverse = inverse_of(form.scale);
  float count = 0;
  float sum_w = 0;
  float sum_q = 0;
  float sum_qq = 0;
  float sum_wq = 0;
  for (std::int64_t k = 0; k < kInt4Group; ++k) {
    const float q = int4_code(w[k], form, inverse);
    const float weighted_q = importance[k] * q;
    count += importance[k];
    sum_w += importance[k] * w[k];
    sum_q += weighted_q;
    sum_qq += weighted_q * q;
    sum_wq += w[k] * weighted_q;
  }
  const float determinant = count * sum_qq - sum_q * sum_q;
  if (determinant > 0) {
    const float scale = (count * sum_wq - sum_w * sum_q) / determinant;
    const float min = (scale * sum_q - sum_w) / count;
    if (!(min < 0) && scale > 0) return {scale, min};
  }
  return {sum_qq > 0 ? std::max(sum_wq / sum_qq, 0.0F) : 0.0F, 0};
}

/// The form of one group for itself: from several ranges the codes, from these the best form.
Affine best_affine(const float* w, const float* importance) {
  float low = 0;
  float high = 0;
  for (std::int64_t k = 0; k < kInt4Group; ++k) {
    low = std::min(low, w[k]);
    high = std::max(high, w[k]);
  }
  Affine best;
  float best_error = std::numeric_limits<float>::infinity();
  for (const float steps : {15.0F, 14.5F, 14.0F, 13.5F, 15.5F}) {
    const Affine form = fit_affine(w, importance, {(high - low) / steps, 0.0F - low});
    const float error = int4_error(w, importance, form);
    if (!(error < best_error)) continue;
    best_error = error;
    best = form;
  }
  return best;
}

void quantize_int4_block(const float* w, std::int64_t n, const float* spread, RowBlock& out) {
  float importance[kBlockCols];
  float now[kBlockCols];  // w with the errors of earlier weights
  for (std::int64_t k = 0; k < n; ++k) {
    importance[k] = spread != nullptr ? spread[k * kBlockCols + k] : 1.0F;
    now[k] = w[k];
  }
  const std::int64_t n_groups = n / kInt4Group;
  Affine forms[kBlockCols / kInt4Group];
  float largest_scale = 0;
  float largest_min = 0;
  for (std::int64_t g = 0; g < n_groups; ++g) {
    forms[g] = best_affine(w + g * kInt4Group, importance + g * kInt4Group);
    largest_scale = std::max(largest_scale, forms[g].scale);
    largest_min = std::max(largest_min, forms[g].min);
  }
  out.d[0] = float_to_half(largest_scale / 255.0F);
  out.min[0] = float_to_half(largest_min / 255.0F);
  const float d = half_to_float(out.d[0]);
  const float dmin = half_to_float(out.min[0]);
  const auto byte_of = [](float value, float unit) {
    return unit > 0 ? clamped(rounded(value / unit), 0, 255) : 0.0F;
  };
  for (std::int64_t g = 0; g < n_groups; ++g) {
    const float sc = byte_of(forms[g].scale, d);
    const float m = byte_of(forms[g].min, dmin);
    out.sc[static_cast<std::size_t>(g)] = static_cast<std::uint8_t>(sc);
    out.m[static_cast<std::size_t>(g)] = static_cast<std::uint8_t>(m);
    const Affine form = {d * sc, dmin * m};
    const float inverse = inverse_of(form.scale);
    for (std::int64_t k = g * kInt4Group; k < (g + 1) * kInt4Group; ++k) {
      const float code = int4_code(now[k], form, inverse);
      out.q[static_cast<std::size_t>(k)] = static_cast<std::uint8_t>(code);
      if (spread == nullptr) continue;
      const float error = now[k] - (form.scale * code - form.min);
      for (std::int64_t i = k + 1; i < n; ++i) now[i] -= error * spread[k * kBlockCols + i];
    }
  }
}

}  // namespace

void quantize_block(WeightType type, const float* w, std::int64_t n, const float* spread,
                    RowBlock& out) {
  out = {};
  float sum = 0;  // 0 * w is NaN where w is not finite
  for (std::int64_t k = 0; k < n; ++k) sum += 0 * w[k];
  const bool is_bad = sum != 0;
  constexpr float kZeros[kBlockCols] = {};
  if (is_bad) w = kZeros;
  if (type == WeightType::kInt4) {
    quantize_int4_block(w, n, spread, out);
  } else {
    constexpr std::int64_t kGroup = packed_format(WeightType::kInt8).group;
    for (std::int64_t k = 0; k < n; k += kGroup) {
      quantize_int8_group(w + k, std::min(kGroup, n - k),
                          out.d[static_cast<std::size_t>(k / kGroup)], out.q.data() + k);
    }
  }
  if (is_bad) out.d.fill(kHalfNan);
}

}  // namespace munia::kernels
