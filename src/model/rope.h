// Rotary position table: cosines and sines of float32 position times float32 inverse frequency, as
// Hugging Face transformers forms the angle. Own sine and cosine, so that every machine gets the
// same bytes (a C library's vary with the CPU).
#pragma once

#include <cstdint>
#include <vector>

namespace munia::model {

/// [n_positions, head_dim] f32: head_dim/2 cosines, then head_dim/2 sines for each position.
std::vector<float> make_rope_table(std::int64_t n_positions, std::int64_t head_dim, float theta);

/// Sine and cosine in float64; absolute error below 1e-15 for |x| <= 2^20.
void sin_cos(double x, double& sine, double& cosine);

}  // namespace munia::model
