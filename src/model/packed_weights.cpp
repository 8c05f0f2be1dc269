// Weights into and out of a packed file: the names of its parts, and the two ways of loading.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>

#include "model/architecture.h"
#include "model/weights.h"

namespace munia::model {
namespace {

using files::MuniaFile;
using files::MuniaPart;
using files::PartKind;
using kernels::PackedMatrix;
using kernels::WeightType;

constexpr const char* kHeadScreen = "head_int8";
// The form of screen.h: a change of it gets another name, and files with the old one are not read.
constexpr const char* kScreenType = "screen8.1";
constexpr const char* kNibbles = "head_int4";  // the copy of an INT8 head, and its errors
constexpr const char* kNibbleErrors = "head_int4.errors";

constexpr std::size_t kCopyStepBytes = std::size_t{4} << 20;

// Calls visit.matrix(name, matrix, n_rows, n_cols) and visit.vector(name, values, n, required) for
// all parts of the model, in the order in which forward reads them. One list for both directions.
template <class WeightsT, class Visitor>
Status visit_parts(const ModelConfig& c, WeightsT& weights, Visitor& visit) {
  const std::int64_t q_rows = c.n_heads * c.head_dim;
  const std::int64_t kv_rows = c.n_kv_heads * c.head_dim;
  const Architecture& architecture = *find_architecture(c.architecture);
  const bool qkv_bias = architecture.qkv_bias;
  MUNIA_RETURN_IF_ERROR(
      visit.matrix("embedding.weight", weights.embedding, c.vocab_size, c.hidden_dim));
  for (std::int64_t l = 0; l < c.n_layers; ++l) {
    auto& layer = weights.layers[static_cast<std::size_t>(l)];
    const std::string prefix = "layer." + std::to_string(l) + ".";
    const auto linear = [&](const char* role, auto& part, std::int64_t n_rows, std::int64_t n_cols,
                            bool bias_required) -> Status {
      MUNIA_RETURN_IF_ERROR(visit.matrix(prefix + role + ".weight", part.w, n_rows, n_cols));
      return visit.vector(prefix + role + ".bias", part.bias, n_rows, bias_required);
    };
    MUNIA_RETURN_IF_ERROR(
        visit.vector(prefix + "attn_norm.weight", layer.attn_norm, c.hidden_dim, true));
    MUNIA_RETURN_IF_ERROR(linear("q", layer.q, q_rows, c.hidden_dim, qkv_bias));
    MUNIA_RETURN_IF_ERROR(linear("k", layer.k, kv_rows, c.hidden_dim, qkv_bias));
    MUNIA_RETURN_IF_ERROR(linear("v", layer.v, kv_rows, c.hidden_dim, qkv_bias));
    if (architecture.qk_norm) {
      MUNIA_RETURN_IF_ERROR(visit.vector(prefix + "q_norm.weight", layer.q_norm, c.head_dim, true));
      MUNIA_RETURN_IF_ERROR(visit.vector(prefix + "k_norm.weight", layer.k_norm, c.head_dim, true));
    }
    MUNIA_RETURN_IF_ERROR(linear("o", layer.o, c.hidden_dim, q_rows, false));
    MUNIA_RETURN_IF_ERROR(
        visit.vector(prefix + "ffn_norm.weight", layer.ffn_norm, c.hidden_dim, true));
    MUNIA_RETURN_IF_ERROR(linear("gate", layer.gate, c.ffn_dim, c.hidden_dim, false));
    MUNIA_RETURN_IF_ERROR(linear("up", layer.up, c.ffn_dim, c.hidden_dim, false));
    MUNIA_RETURN_IF_ERROR(linear("down", layer.down, c.hidden_dim, c.ffn_dim, false));
  }
  MUNIA_RETURN_IF_ERROR(visit.vector("final_norm.weight", weights.final_norm, c.hidden_dim, true));
  if (c.tied_embeddings) return {};
  return visit.matrix("head.weight", weights.head, c.vocab_size, c.hidden_dim);
}

struct PartWriter {
  files::MuniaFileWriter& writer;

  Status matrix(const std::string& name, const PackedMatrix& matrix, std::int64_t n_rows,
                std::int64_t n_cols) {
    MuniaPart part;
    part.name = name;
    part.type = std::string(kernels::weight_type_name(matrix.type));
    part.n_rows = n_rows;
    part.n_cols = n_cols;
    writer.add_matrix(std::move(part), {matrix.data, matrix.size_bytes()});
    return {};
  }
  Status vector(const std::string& name, const std::vector<float>& values, std::int64_t, bool) {
    if (!values.empty()) writer.add_vector(name, values);
    return {};
  }
};

class PartReader {
 public:
  explicit PartReader(const MuniaFile& file) : file_(file) {}

  Status matrix(const std::string& name, PackedMatrix& matrix, std::int64_t n_rows,
                std::int64_t n_cols) {
    MUNIA_ASSIGN_OR_RETURN(const MuniaPart* part, find(name, PartKind::kMatrix, n_rows, n_cols));
    const std::optional<WeightType> type = type_named(part->type);
    if (!type || n_cols % kernels::weight_block_cols(*type) != 0) {
      return bad(name, "has " + std::to_string(n_cols) + " columns of type " + part->type +
                           ", which munia does not compute");
    }
    matrix = {*type, n_rows, n_cols, file_.bytes(*part).data(),
              kernels::packed_panel_bytes(*type, n_cols)};
    if (part->size_bytes != matrix.size_bytes()) {
      return bad(name, "has " + std::to_string(part->size_bytes) + " bytes, expected " +
                           std::to_string(matrix.size_bytes()));
    }
    matrices.push_back(&matrix);
    offsets.push_back(part->offset);
    return {};
  }

  Status vector(const std::string& name, std::vector<float>& values, std::int64_t n,
                bool required) {
    if (!required && file_.find(name) == nullptr) return {};
    MUNIA_ASSIGN_OR_RETURN(const MuniaPart* part, find(name, PartKind::kVector, 1, n));
    values.resize(static_cast<std::size_t>(n));
    std::memcpy(values.data(), file_.bytes(*part).data(), part->size_bytes);
    return {};
  }

  std::vector<PackedMatrix*> matrices;
  std::vector<std::uint64_t> offsets;  // of the matrices in the file

 private:
  static std::optional<WeightType> type_named(std::string_view name) {
    for (int i = 0; i <= static_cast<int>(WeightType::kInt4); ++i) {
      const auto type = static_cast<WeightType>(i);
      if (kernels::weight_type_name(type) == name) return type;
    }
    return std::nullopt;
  }

  Error bad(const std::string& part, const std::string& what) const {
    return {ErrorCode::kInvalidData,
            file_.name() + ": part \"" + part + "\" " + what + "; pack the model again"};
  }

  Result<const MuniaPart*> find(const std::string& name, PartKind kind, std::int64_t n_rows,
                                std::int64_t n_cols) const {
    const MuniaPart* part = file_.find(name);
    if (part == nullptr) return bad(name, "is missing");
    if (part->kind != kind || part->n_rows != n_rows || part->n_cols != n_cols) {
      return bad(name, "has the shape [" + std::to_string(part->n_rows) + ", " +
                           std::to_string(part->n_cols) + "], expected [" + std::to_string(n_rows) +
                           ", " + std::to_string(n_cols) + "]");
    }
    return part;
  }

  const MuniaFile& file_;
};

// Runs body(i) for i in [0, n) on all threads and returns the Error of lowest index.
template <class Body>
Status run_all(ThreadPool& pool, std::int64_t n, const Body& body) {
  std::mutex mutex;
  std::int64_t first = n;
  Status result;
  pool.parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      Status status = body(i);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex);
      if (i >= first) continue;
      first = i;
      result = std::move(status);
    }
  });
  return result;
}

// Copies by reading: the file's pages go from the page cache straight to memory, none of them is
// mapped, so the process does not count the weights twice.
class Copy {
 public:
  explicit Copy(const MuniaFile& file) : file_(file) {}
  void add(std::uint64_t offset, std::span<std::byte> out) {
    for (std::size_t begin = 0; begin < out.size(); begin += kCopyStepBytes) {
      const std::size_t n = std::min(kCopyStepBytes, out.size() - begin);
      steps_.push_back({offset + begin, out.subspan(begin, n)});
    }
  }
  Status run(ThreadPool& pool) const {
    return run_all(pool, static_cast<std::int64_t>(steps_.size()), [this](std::int64_t i) {
      const Step& step = steps_[static_cast<std::size_t>(i)];
      return file_.read(step.offset, step.out);
    });
  }

 private:
  struct Step {
    std::uint64_t offset;
    std::span<std::byte> out;
  };
  const MuniaFile& file_;
  std::vector<Step> steps_;
};

Status copy_matrices(const MuniaFile& file, const PartReader& parts, Weights& weights,
                     ThreadPool& pool) {
  weights.arena = AlignedBuffer(weights.size_bytes);
  Copy copy(file);
  std::byte* to = weights.arena.data();
  for (std::size_t i = 0; i < parts.matrices.size(); ++i) {
    PackedMatrix& matrix = *parts.matrices[i];
    matrix.data = to;
    copy.add(parts.offsets[i], {to, matrix.size_bytes()});
    to += matrix.size_bytes();
  }
  return copy.run(pool);
}

/// `size_bytes` from `offset` on, in memory of their own.
Result<AlignedBuffer> copy_part(const MuniaFile& file, std::uint64_t offset, std::size_t size_bytes,
                                ThreadPool& pool) {
  AlignedBuffer memory(size_bytes);
  Copy copy(file);
  copy.add(offset, {memory.data(), size_bytes});
  MUNIA_RETURN_IF_ERROR(copy.run(pool));
  return memory;
}

/// Mapped matrices of exact weights become those of `mode`, in an arena.
void quantize_matrices(const MuniaFile& file, const PartReader& parts, WeightMode mode,
                       const kernels::Kernels& kernels, Weights& weights, ThreadPool& pool) {
  std::vector<PackedMatrix> targets;
  std::size_t arena_bytes = 0;
  for (const PackedMatrix* source : parts.matrices) {
    const bool is_table = source == &weights.embedding || source == &weights.head;
    targets.push_back(stored_form(mode, is_table, *source));
    arena_bytes += targets.back().size_bytes();
  }
  weights.arena = AlignedBuffer(arena_bytes);
  weights.size_bytes = arena_bytes;
  weights.mode = mode;
  std::byte* to = weights.arena.data();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const PackedMatrix source = *parts.matrices[i];
    store_matrix(kernels, source, nullptr, targets[i], to, pool);
    file.drop({source.data, source.size_bytes()});
    *parts.matrices[i] = targets[i];
    to += targets[i].size_bytes();
  }
}

}  // namespace

void add_weights(const ModelConfig& config, const Weights& weights,
                 files::MuniaFileWriter& writer) {
  PartWriter visit{writer};
  MUNIA_CHECK(visit_parts(config, weights, visit).ok());
}

Result<Weights> weights_from_packed(const ModelConfig& config,
                                    const std::shared_ptr<const MuniaFile>& file, LoadWay way,
                                    std::optional<WeightMode> mode, const kernels::Kernels& kernels,
                                    ThreadPool& pool) {
  Weights weights;
  const std::optional<WeightMode> own_mode = weight_mode_named(file->weights());
  if (!own_mode) {
    return Error{ErrorCode::kUnsupported,
                 file->name() + ": it holds \"" + file->weights() +
                     "\" weights; this munia computes with exact, int8 and int4 ones"};
  }
  weights.mode = *own_mode;
  if (mode.value_or(*own_mode) != *own_mode && *own_mode != WeightMode::kExact) {
    return Error{ErrorCode::kUnsupported,
                 file->name() + ": it holds " + file->weights() + " weights, which cannot become " +
                     std::string(weight_mode_name(*mode)) + " ones; take the model's source"};
  }
  weights.layers.resize(static_cast<std::size_t>(config.n_layers));
  PartReader parts(*file);
  MUNIA_RETURN_IF_ERROR(visit_parts(config, weights, parts));
  for (const PackedMatrix* matrix : parts.matrices) weights.size_bytes += matrix->size_bytes();
  if (mode.value_or(*own_mode) != *own_mode) {
    quantize_matrices(*file, parts, *mode, kernels, weights, pool);
  } else if (way == LoadWay::kCopy) {
    MUNIA_RETURN_IF_ERROR(copy_matrices(*file, parts, weights, pool));
  } else {
    weights.file = file;
    file->read_ahead();
  }
  if (config.tied_embeddings) weights.head = weights.embedding;
  weights.types = types_of(parts.matrices);
  return weights;
}

void add_head_screen(const HeadScreen& screen, files::MuniaFileWriter& writer) {
  if (screen.nibbles.data != nullptr) {
    PartWriter parts{writer};
    (void)parts.matrix(kNibbles, screen.nibbles, screen.nibbles.n_rows, screen.nibbles.n_cols);
    writer.add_vector(kNibbleErrors, screen.errors);
  }
  if (screen.matrix.data == nullptr) return;
  MuniaPart part;
  part.name = kHeadScreen;
  part.type = kScreenType;
  part.n_rows = screen.matrix.n_rows;
  part.n_cols = screen.matrix.n_cols;
  writer.add_matrix(std::move(part), {screen.matrix.data, screen.size_bytes()});
}

namespace {

/// The copy of an INT8 head; nothing where the file has none.
Result<std::optional<HeadScreen>> nibbles_from_packed(const MuniaFile& file, LoadWay way,
                                                      const PackedMatrix& head, ThreadPool& pool) {
  if (file.find(kNibbles) == nullptr) return std::optional<HeadScreen>();
  HeadScreen screen;
  PartReader parts(file);
  MUNIA_RETURN_IF_ERROR(parts.matrix(kNibbles, screen.nibbles, head.n_rows, head.n_cols));
  MUNIA_RETURN_IF_ERROR(parts.vector(kNibbleErrors, screen.errors,
                                     head.n_panels() * n_error_groups(head.n_cols), true));
  if (screen.nibbles.type != WeightType::kInt4) return std::optional<HeadScreen>();
  if (way == LoadWay::kCopy) {
    MUNIA_ASSIGN_OR_RETURN(screen.memory,
                           copy_part(file, parts.offsets[0], screen.nibbles.size_bytes(), pool));
    screen.nibbles.data = screen.memory.data();
  }
  return std::optional<HeadScreen>(std::move(screen));
}

}  // namespace

Result<HeadScreen> head_screen_from_packed(const MuniaFile& file, LoadWay way,
                                           const PackedMatrix& head, HeadMode mode,
                                           const kernels::Kernels& kernels, ThreadPool& pool) {
  if (head.type == WeightType::kInt8 && mode != HeadMode::kFull) {
    MUNIA_ASSIGN_OR_RETURN(std::optional<HeadScreen> found,
                           nibbles_from_packed(file, way, head, pool));
    if (found) return *std::move(found);
  }
  const MuniaPart* part = file.find(kHeadScreen);
  const std::size_t panel_bytes = kernels::screen_panel_bytes(head.n_cols);
  const bool fits = part != nullptr && part->kind == PartKind::kMatrix &&
                    part->type == kScreenType && part->n_rows == head.n_rows &&
                    part->n_cols == head.n_cols &&
                    part->size_bytes == panel_bytes * static_cast<std::size_t>(head.n_panels());
  if (mode == HeadMode::kFull || !fits || !kernels::can_screen(head.type)) {
    return make_head_screen(head, mode, kernels, pool);
  }
  HeadScreen screen;
  screen.matrix = {head.n_rows, head.n_cols, file.bytes(*part).data(), panel_bytes};
  if (way == LoadWay::kMap) return screen;
  MUNIA_ASSIGN_OR_RETURN(screen.memory, copy_part(file, part->offset, part->size_bytes, pool));
  screen.matrix.data = screen.memory.data();
  return screen;
}

Status verify_packed(const MuniaFile& file, ThreadPool& pool) {
  return run_all(pool, static_cast<std::int64_t>(file.parts().size()), [&](std::int64_t i) {
    return file.verify(file.parts()[static_cast<std::size_t>(i)]);
  });
}

}  // namespace munia::model
