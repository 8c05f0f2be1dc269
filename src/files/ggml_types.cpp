#include "files/ggml_types.h"

#include <algorithm>

namespace munia::files {
namespace {

constexpr TensorType kOther = TensorType::kOther;

constexpr GgmlType kTypes[] = {
    {0, "F32", 1, 4, TensorType::kF32},
    {1, "F16", 1, 2, TensorType::kF16},
    {2, "Q4_0", 32, 18, TensorType::kQ4_0},
    {3, "Q4_1", 32, 20, TensorType::kQ4_1},
    {4, "Q4_2", 0, 0, kOther},  // withdrawn
    {5, "Q4_3", 0, 0, kOther},  // withdrawn
    {6, "Q5_0", 32, 22, TensorType::kQ5_0},
    {7, "Q5_1", 32, 24, TensorType::kQ5_1},
    {8, "Q8_0", 32, 34, TensorType::kQ8_0},
    {9, "Q8_1", 32, 40, kOther},
    {10, "Q2_K", 256, 84, TensorType::kQ2K},
    {11, "Q3_K", 256, 110, TensorType::kQ3K},
    {12, "Q4_K", 256, 144, TensorType::kQ4K},
    {13, "Q5_K", 256, 176, TensorType::kQ5K},
    {14, "Q6_K", 256, 210, TensorType::kQ6K},
    {15, "Q8_K", 256, 292, kOther},
    {16, "IQ2_XXS", 256, 66, kOther},
    {17, "IQ2_XS", 256, 74, kOther},
    {18, "IQ3_XXS", 256, 98, kOther},
    {19, "IQ1_S", 256, 50, kOther},
    {20, "IQ4_NL", 32, 18, kOther},
    {21, "IQ3_S", 256, 110, kOther},
    {22, "IQ2_S", 256, 82, kOther},
    {23, "IQ4_XS", 256, 136, kOther},
    {24, "I8", 1, 1, kOther},
    {25, "I16", 1, 2, kOther},
    {26, "I32", 1, 4, kOther},
    {27, "I64", 1, 8, kOther},
    {28, "F64", 1, 8, kOther},
    {29, "IQ1_M", 256, 56, kOther},
    {30, "BF16", 1, 2, TensorType::kBf16},
    {31, "Q4_0_4_4", 0, 0, kOther},  // 31-33 and 36-38: withdrawn repacked forms
    {32, "Q4_0_4_8", 0, 0, kOther},
    {33, "Q4_0_8_8", 0, 0, kOther},
    {34, "TQ1_0", 256, 54, kOther},
    {35, "TQ2_0", 256, 66, kOther},
    {36, "IQ4_NL_4_4", 0, 0, kOther},
    {37, "IQ4_NL_4_8", 0, 0, kOther},
    {38, "IQ4_NL_8_8", 0, 0, kOther},
    {39, "MXFP4", 32, 17, kOther},
    {40, "NVFP4", 64, 36, kOther},
    {41, "Q1_0", 128, 18, kOther},
};

}  // namespace

const GgmlType* find_ggml_type(std::uint32_t id) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [id](const GgmlType& type) { return type.id == id; });
  return found == std::end(kTypes) ? nullptr : found;
}

std::string ggml_type_name(std::uint32_t id) {
  const GgmlType* type = find_ggml_type(id);
  return type == nullptr ? "type " + std::to_string(id) : std::string(type->name);
}

}  // namespace munia::files
