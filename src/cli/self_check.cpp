#include "cli/self_check.h"

#include <cstring>
#include <random>
#include <span>

#include "base/aligned_buffer.h"
#include "text/stream_decoder.h"

namespace munia::cli {
namespace {

using kernels::WeightType;

constexpr WeightType kTypes[] = {
    WeightType::kF32,  WeightType::kF16,  WeightType::kBf16, WeightType::kQ4_0, WeightType::kQ4_1,
    WeightType::kQ5_0, WeightType::kQ5_1, WeightType::kQ8_0, WeightType::kQ4K,  WeightType::kQ5K,
    WeightType::kQ6K,  WeightType::kInt8, WeightType::kInt4};
constexpr std::int64_t kOutputs = 40;  // not a multiple of a panel
constexpr std::int64_t kInputs = 512;  // two blocks of additions
constexpr std::int64_t kRows = 5;

/// Seeded source bytes; exponents of all float fields are kept small, so nothing overflows.
std::vector<std::byte> random_rows(WeightType type, std::mt19937_64& random) {
  const std::size_t row_bytes = kernels::source_row_bytes(type, kInputs);
  std::vector<std::byte> bytes(static_cast<std::size_t>(kOutputs) * row_bytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xFF);
  // A half or bfloat16 with bit 14 clear is below 2, a float32 likewise; clearing bit 6 of every
  // high byte would also change codes, which is no harm: both sides get the same bytes.
  for (std::size_t i = 1; i < bytes.size(); i += 2) bytes[i] &= std::byte{0x3F};
  return bytes;
}

std::vector<float> multiply(const kernels::Kernels& rung, const kernels::PackedMatrix& w,
                            const std::vector<float>& x) {
  AlignedBuffer prepared(rung.prepared_bytes(kRows, kInputs) + 64);
  const std::int64_t n_units = (kRows + rung.prepare_unit_rows - 1) / rung.prepare_unit_rows;
  rung.prepare_rows(x.data(), kRows, kInputs, kernels::only(w.type), 0, n_units, prepared.data());
  AlignedBuffer scratch(rung.matmul_scratch_bytes(kRows, kInputs) + 64);
  std::vector<float> y(static_cast<std::size_t>(kRows * kOutputs));
  rung.matmul(w, {prepared.data(), kRows, kInputs}, {y.data(), kOutputs, nullptr, false}, 0,
              w.n_panels(), scratch.data());
  return y;
}

}  // namespace

std::vector<KernelCheck> check_kernels() {
  const kernels::KernelList list = kernels::available_kernels();
  std::vector<KernelCheck> checks(static_cast<std::size_t>(list.n_rungs));
  for (int i = 0; i < list.n_rungs; ++i) {
    checks[static_cast<std::size_t>(i)].rung = list.rungs[i]->name;
  }
  std::mt19937_64 random(20240521);
  std::vector<float> x(static_cast<std::size_t>(kRows * kInputs));
  for (float& value : x) value = static_cast<float>(random() % 2001) * 1e-3F - 1;
  for (const WeightType type : kTypes) {
    const std::vector<std::byte> source = random_rows(type, random);
    const std::size_t row_bytes = kernels::source_row_bytes(type, kInputs);
    kernels::PackedMatrix w;
    w.type = type;
    w.n_rows = kOutputs;
    w.n_cols = kInputs;
    w.panel_bytes = kernels::packed_panel_bytes(type, kInputs);
    AlignedBuffer packed(w.size_bytes());
    w.data = packed.data();
    for (std::int64_t panel = 0; panel < w.n_panels(); ++panel) {
      const std::byte* rows[kernels::kPanelRows];
      for (std::int64_t r = 0; r < kernels::kPanelRows; ++r) {
        const std::int64_t row = panel * kernels::kPanelRows + r;
        rows[r] =
            row < kOutputs ? source.data() + static_cast<std::size_t>(row) * row_bytes : nullptr;
      }
      kernels::pack_panel(type, rows, kInputs,
                          packed.data() + static_cast<std::size_t>(panel) * w.panel_bytes);
    }
    const kernels::Kernels* scalar = list.rungs[0];
    const std::vector<float> wanted_of_scalar = multiply(*scalar, w, x);
    for (int i = 0; i < list.n_rungs; ++i) {
      KernelCheck& check = checks[static_cast<std::size_t>(i)];
      const std::vector<float> got = multiply(*list.rungs[i], w, x);
      const kernels::Kernels& reference = kernels::byte_reference(*list.rungs[i], type);
      const bool own_order = &reference != scalar;
      const std::vector<float> wanted = own_order ? multiply(reference, w, x) : wanted_of_scalar;
      ++check.n_types;
      if (own_order) ++check.n_own_order;
      if (std::memcmp(wanted.data(), got.data(), wanted.size() * sizeof(float)) != 0) {
        check.failed.emplace_back(kernels::weight_type_name(type));
      }
    }
  }
  return checks;
}

std::string check_tokenizer(const text::Tokenizer& tokenizer) {
  constexpr const char* kTexts[] = {"今天的实验终于成功了，太棒了！", "Hello, world! 12345\n\ttabs",
                                    "霓𠮷👨‍👩‍👧🏳️‍🌈",
                                    "  spaces   and\r\nlines ", "Ünïcödé ½ €"};
  for (const char* text : kTexts) {
    const auto ids = tokenizer.encode(text);
    if (!ids) return ids.error().message;
    text::StreamDecoder decoder;
    std::string streamed;
    for (const text::TokenId id : *ids) streamed += decoder.push(tokenizer.token_bytes(id));
    streamed += decoder.finish();
    if (tokenizer.decode(*ids, false) != text || streamed != text) {
      return std::string("\"") + text + "\" comes back as \"" + streamed + "\"";
    }
  }
  return "";
}

}  // namespace munia::cli
