// Rotary position table: cosines and sines of float32 position times float32 inverse frequency, as
// Hugging Face transformers forms the angle. Own sine and cosine, so that every machine gets the
// same bytes (a C library's vary with the CPU).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace munia::model {

/// [head_dim/2] f32, radians a position: theta^(-2i/head_dim).
std::vector<float> inverse_frequencies(std::int64_t head_dim, float theta);

/// Positions `factor` (> 0) times as dense: every inverse frequency divided by it.
/// Source: transformers, _compute_linear_scaling_rope_parameters.
void scale_linear(double factor, std::span<float> inv_freq);

/// Llama 3.1's scaling; all positive, high_freq_factor > low_freq_factor.
struct Llama3Scaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_context = 8192;  // positions of the first training
};
/// Waves that are short against the original context stay, long ones are divided by the factor, and
/// between the two it goes smoothly. In float32, operation by operation as the reference does it.
/// Source: transformers, _compute_llama3_parameters.
void scale_llama3(const Llama3Scaling& scaling, std::span<float> inv_freq);

/// [n_positions, head_dim] f32 from inv_freq [head_dim/2]: head_dim/2 cosines, then head_dim/2
/// sines for each position.
std::vector<float> make_rope_table(std::int64_t n_positions, std::span<const float> inv_freq);

/// Sine and cosine in float64; absolute error below 1e-15 for |x| <= 2^20.
void sin_cos(double x, double& sine, double& cosine);

}  // namespace munia::model
