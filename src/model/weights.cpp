#include "model/weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>

#include "model/architecture.h"
#include "model/source_rows.h"

namespace munia::model {
namespace {

using files::TensorType;
using files::TensorView;
using kernels::kPanelRows;
using kernels::PackedMatrix;
using kernels::WeightType;

constexpr std::size_t kAlignment = 64;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

// A matrix that is to be packed, and where.
struct PackPlan {
  const TensorView* tensor = nullptr;
  std::int64_t qk_head_dim = 0;  // > 0: rows go through TensorSource::qk_row
  SourceRows source;
  std::size_t arena_offset = 0;
  PackedMatrix* target = nullptr;
};

class Loader {
 public:
  Loader(const ModelConfig& config, const TensorSource& source, WeightMode mode,
         const kernels::Kernels& kernels)
      : c_(config),
        architecture_(*find_architecture(config.architecture)),
        source_(source),
        kernels_(kernels) {
    weights_.mode = mode;
  }

  Result<Weights> load(ThreadPool& pool) {
    MUNIA_RETURN_IF_ERROR(plan());
    weights_.arena = AlignedBuffer(arena_bytes_);
    weights_.size_bytes = arena_bytes_;
    for (const PackPlan& matrix : plans_) pack(matrix, pool);
    if (c_.tied_embeddings) weights_.head = weights_.embedding;
    std::vector<PackedMatrix*> matrices;
    for (const PackPlan& plan : plans_) matrices.push_back(plan.target);
    weights_.types = types_of(matrices);
    return std::move(weights_);
  }

 private:
  Status plan() {
    const std::int64_t q_rows = c_.n_heads * c_.head_dim;
    const std::int64_t kv_rows = c_.n_kv_heads * c_.head_dim;
    weights_.layers.resize(static_cast<std::size_t>(c_.n_layers));
    MUNIA_RETURN_IF_ERROR(
        plan_matrix("embedding", -1, c_.vocab_size, c_.hidden_dim, weights_.embedding));
    for (std::int64_t l = 0; l < c_.n_layers; ++l) {
      LayerWeights& layer = weights_.layers[static_cast<std::size_t>(l)];
      MUNIA_RETURN_IF_ERROR(read_vector("attn_norm", l, "weight", c_.hidden_dim, layer.attn_norm));
      MUNIA_RETURN_IF_ERROR(plan_linear("q", l, q_rows, c_.hidden_dim, layer.q));
      MUNIA_RETURN_IF_ERROR(plan_linear("k", l, kv_rows, c_.hidden_dim, layer.k));
      MUNIA_RETURN_IF_ERROR(plan_linear("v", l, kv_rows, c_.hidden_dim, layer.v));
      if (architecture_.qk_norm) {
        MUNIA_RETURN_IF_ERROR(read_vector("q_norm", l, "weight", c_.head_dim, layer.q_norm));
        MUNIA_RETURN_IF_ERROR(read_vector("k_norm", l, "weight", c_.head_dim, layer.k_norm));
      }
      MUNIA_RETURN_IF_ERROR(plan_linear("o", l, c_.hidden_dim, q_rows, layer.o));
      MUNIA_RETURN_IF_ERROR(read_vector("ffn_norm", l, "weight", c_.hidden_dim, layer.ffn_norm));
      MUNIA_RETURN_IF_ERROR(plan_linear("gate", l, c_.ffn_dim, c_.hidden_dim, layer.gate));
      MUNIA_RETURN_IF_ERROR(plan_linear("up", l, c_.ffn_dim, c_.hidden_dim, layer.up));
      MUNIA_RETURN_IF_ERROR(plan_linear("down", l, c_.hidden_dim, c_.ffn_dim, layer.down));
    }
    MUNIA_RETURN_IF_ERROR(
        read_vector("final_norm", -1, "weight", c_.hidden_dim, weights_.final_norm));
    if (!c_.tied_embeddings) {
      MUNIA_RETURN_IF_ERROR(plan_matrix("head", -1, c_.vocab_size, c_.hidden_dim, weights_.head));
    }
    return {};
  }

  Result<const TensorView*> find(const std::string& role, std::int64_t layer,
                                 const std::string& suffix) const {
    const TensorView* tensor = source_.find(role, layer, suffix);
    if (tensor == nullptr) {
      return Error{ErrorCode::kInvalidData,
                   "tensor " + source_.name(role, layer, suffix) + " is missing"};
    }
    return tensor;
  }

  Status plan_matrix(const std::string& role, std::int64_t layer, std::int64_t n_rows,
                     std::int64_t n_cols, PackedMatrix& target) {
    MUNIA_ASSIGN_OR_RETURN(const TensorView* tensor, find(role, layer, "weight"));
    if (tensor->shape != std::vector<std::int64_t>{n_rows, n_cols}) {
      return Error{ErrorCode::kInvalidData, "tensor " + tensor->name + " has shape " +
                                                shape_text(tensor->shape) + ", expected " +
                                                shape_text({n_rows, n_cols})};
    }
    MUNIA_ASSIGN_OR_RETURN(const SourceRows source, source_rows(*tensor));
    if (n_cols % source.block_cols != 0) {
      return Error{ErrorCode::kInvalidData, "tensor " + tensor->name + " has " +
                                                std::to_string(n_cols) + " columns, type " +
                                                tensor->type_name + " needs a multiple of " +
                                                std::to_string(source.block_cols)};
    }
    const std::size_t source_bytes = source.row_bytes(n_cols) * static_cast<std::size_t>(n_rows);
    if (tensor->bytes.size() != source_bytes) {
      return Error{ErrorCode::kInvalidData, "tensor " + tensor->name + " has " +
                                                std::to_string(tensor->bytes.size()) +
                                                " bytes, expected " + std::to_string(source_bytes)};
    }
    target.type =
        stored_type(weights_.mode, role == "embedding" || role == "head", source.type, n_cols);
    target.n_rows = n_rows;
    target.n_cols = n_cols;
    target.panel_bytes = kernels::packed_panel_bytes(target.type, n_cols);
    PackPlan entry;
    entry.tensor = tensor;
    entry.source = source;
    entry.qk_head_dim = source_.qk_row != nullptr && (role == "q" || role == "k") ? c_.head_dim : 0;
    entry.arena_offset = arena_bytes_;
    entry.target = &target;
    arena_bytes_ += target.size_bytes();
    arena_bytes_ = (arena_bytes_ + kAlignment - 1) / kAlignment * kAlignment;
    plans_.push_back(entry);
    return {};
  }

  Status plan_linear(const std::string& role, std::int64_t layer, std::int64_t n_rows,
                     std::int64_t n_cols, Linear& linear) {
    MUNIA_RETURN_IF_ERROR(plan_matrix(role, layer, n_rows, n_cols, linear.w));
    if (!bias_required(role) && source_.find(role, layer, "bias") == nullptr) return {};
    MUNIA_RETURN_IF_ERROR(read_vector(role, layer, "bias", n_rows, linear.bias));
    if (source_.qk_row != nullptr && (role == "q" || role == "k")) {
      const std::vector<float> stored = linear.bias;
      for (std::int64_t row = 0; row < n_rows; ++row) {
        linear.bias[static_cast<std::size_t>(row)] =
            stored[static_cast<std::size_t>(source_.qk_row(row, c_.head_dim))];
      }
    }
    return {};
  }

  bool bias_required(const std::string& role) const {
    if (role == "q" || role == "k" || role == "v") {
      return architecture_.qkv_bias || c_.attention_bias;
    }
    return role == "o" ? c_.attention_bias : c_.mlp_bias;
  }

  // A norm weight or bias, [n], widened to float32 through the same packing as matrices.
  Status read_vector(const std::string& role, std::int64_t layer, const std::string& suffix,
                     std::int64_t n, std::vector<float>& out) const {
    MUNIA_ASSIGN_OR_RETURN(const TensorView* tensor, find(role, layer, suffix));
    if (tensor->shape != std::vector<std::int64_t>{n}) {
      return Error{ErrorCode::kInvalidData, "tensor " + tensor->name + " has shape " +
                                                shape_text(tensor->shape) + ", expected " +
                                                shape_text({n})};
    }
    out.resize(static_cast<std::size_t>(n));
    const std::byte* bytes = tensor->bytes.data();
    switch (tensor->type) {
      case TensorType::kF32:
        std::memcpy(out.data(), bytes, out.size() * sizeof(float));
        return {};
      case TensorType::kF16:
      case TensorType::kBf16: {
        const auto type = tensor->type == TensorType::kF16 ? WeightType::kF16 : WeightType::kBf16;
        out = widen_floats(type, bytes, n);
        return {};
      }
      default:
        return Error{ErrorCode::kUnsupported, "tensor " + tensor->name + " has type " +
                                                  tensor->type_name +
                                                  "; a norm or bias must be F32, F16 or BF16"};
    }
  }

  void pack(const PackPlan& plan, ThreadPool& pool) {
    PackedMatrix& matrix = *plan.target;
    std::byte* const data = weights_.arena.data() + plan.arena_offset;
    matrix.data = data;
    const WeightType source_type = plan.source.type;
    const std::size_t file_row_bytes = plan.source.row_bytes(matrix.n_cols);
    const bool quantize = source_type != matrix.type;
    const std::byte* const source = plan.tensor->bytes.data();
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      PackedMatrix as_stored = {source_type, kPanelRows, matrix.n_cols, nullptr,
                                kernels::packed_panel_bytes(source_type, matrix.n_cols)};
      AlignedBuffer stored_panel(quantize ? as_stored.panel_bytes : 0);
      const std::size_t row_bytes = kernels::source_row_bytes(source_type, matrix.n_cols);
      std::vector<std::byte> converted(plan.source.convert == nullptr ? 0 : kPanelRows * row_bytes);
      std::vector<float> floats;
      as_stored.data = stored_panel.data();
      for (std::int64_t panel = begin; panel < end; ++panel) {
        std::array<const std::byte*, kPanelRows> rows{};
        for (std::size_t i = 0; i < rows.size(); ++i) {
          std::int64_t row = panel * kPanelRows + static_cast<std::int64_t>(i);
          if (row >= matrix.n_rows) break;
          if (plan.qk_head_dim > 0) row = source_.qk_row(row, plan.qk_head_dim);
          rows[i] = source + static_cast<std::size_t>(row) * file_row_bytes;
          if (plan.source.convert == nullptr) continue;
          plan.source.convert(rows[i], matrix.n_cols, converted.data() + i * row_bytes);
          rows[i] = converted.data() + i * row_bytes;
        }
        std::byte* const out = data + static_cast<std::size_t>(panel) * matrix.panel_bytes;
        if (!quantize) {
          kernels::pack_panel(matrix.type, rows.data(), matrix.n_cols, out);
          continue;
        }
        kernels::pack_panel(source_type, rows.data(), matrix.n_cols, stored_panel.data());
        quantize_panel(kernels_, as_stored, 0, matrix.type, nullptr, floats, out);
      }
    };
    pool.parallel_for(matrix.n_panels(), 16, body);
    source_.drop(*plan.tensor);
  }

  const ModelConfig& c_;
  const Architecture& architecture_;
  const TensorSource& source_;
  const kernels::Kernels& kernels_;
  Weights weights_;
  std::vector<PackPlan> plans_;
  std::size_t arena_bytes_ = 0;
};

}  // namespace

std::string types_of(std::span<PackedMatrix* const> matrices) {
  std::set<std::string_view> types;
  for (const PackedMatrix* matrix : matrices) types.insert(weight_type_name(matrix->type));
  std::string text;
  for (const std::string_view type : types) {
    if (!text.empty()) text += "+";
    text += type;
  }
  return text;
}

Result<Weights> load_weights(const ModelConfig& config, const TensorSource& source, WeightMode mode,
                             const kernels::Kernels& kernels, ThreadPool& pool) {
  return Loader(config, source, mode, kernels).load(pool);
}

}  // namespace munia::model
