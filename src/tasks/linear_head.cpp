#include "tasks/linear_head.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <span>
#include <string_view>

#include "base/json_writer.h"
#include "base/mapped_file.h"
#include "files/safetensors.h"

namespace munia::tasks {
namespace {

constexpr std::string_view kLayers = "/layers.";
constexpr const char* kPools[] = {".last", ".mean"};

std::string state_name(const std::string& label, std::int64_t layer, const char* pool) {
  return label + std::string(kLayers) + std::to_string(layer) + pool;
}

/// The layers that the tensors of `label` name, ascending.
std::vector<std::int64_t> layers_of(const files::Safetensors& file, const std::string& label) {
  std::set<std::int64_t> layers;
  const std::string begin = label + std::string(kLayers);
  for (const files::TensorView& tensor : file.tensors()) {
    if (!tensor.name.starts_with(begin)) continue;
    const char* const digits = tensor.name.data() + begin.size();
    std::int64_t layer = -1;
    std::from_chars(digits, tensor.name.data() + tensor.name.size(), layer);
    if (layer >= 0) layers.insert(layer);
  }
  return {layers.begin(), layers.end()};
}

/// Reads the F32 vectors of one head file.
class HeadReader {
 public:
  HeadReader(const files::Safetensors& file, const std::string& path) : file_(file), path_(path) {}

  Error invalid(const std::string& what) const {
    return {ErrorCode::kInvalidData, path_ + ": " + what};
  }
  Status append(const std::string& name, std::int64_t n_values, std::vector<float>& out) {
    const files::TensorView* const tensor = file_.find_tensor(name);
    if (tensor == nullptr) return invalid("the head has no tensor \"" + name + "\"");
    if (tensor->type != files::TensorType::kF32 ||
        tensor->shape != std::vector<std::int64_t>{n_values}) {
      return invalid("tensor \"" + name + "\" is not " + std::to_string(n_values) +
                     " numbers of type F32");
    }
    const std::size_t before = out.size();
    out.resize(before + static_cast<std::size_t>(n_values));
    std::memcpy(out.data() + before, tensor->bytes.data(), tensor->bytes.size());
    if (!std::all_of(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(),
                     [](float value) { return std::isfinite(value); })) {
      return invalid("tensor \"" + name + "\" has a value that is not a number");
    }
    return {};
  }

 private:
  const files::Safetensors& file_;
  const std::string& path_;
};

}  // namespace

Status save_head(const LinearHead& head, const std::vector<std::string>& labels,
                 const std::string& path) {
  const auto dim = static_cast<std::size_t>(head.hidden_dim);
  JsonWriter header;
  std::vector<float> data;
  const auto add = [&](const std::string& name, std::span<const float> values) {
    const std::size_t begin = data.size() * sizeof(float);
    data.insert(data.end(), values.begin(), values.end());
    header.key(name).begin_object().field("dtype", "F32").key("shape").begin_array();
    header.value(values.size()).end_array().key("data_offsets").begin_array();
    header.value(begin).value(data.size() * sizeof(float)).end_array().end_object();
  };
  header.begin_object();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::span<const float> weights =
        std::span(head.logistic.weights).subspan(i * head.logistic.n_features);
    for (const std::int64_t layer : head.layers) {
      for (const char* pool : kPools) {
        add(state_name(labels[i], layer, pool), weights.first(dim));
        weights = weights.subspan(dim);
      }
    }
    add(labels[i] + "/bias", std::span(head.logistic.bias).subspan(i, 1));
  }
  header.end_object();
  std::string text = header.text();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data begins at a multiple of 8
  const std::uint64_t header_bytes = text.size();
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
  out << text;
  out.write(reinterpret_cast<const char*>(data.data()),
            static_cast<std::streamsize>(data.size() * sizeof(float)));
  out.close();
  if (!out) return Error{ErrorCode::kIo, "cannot write " + path};
  return {};
}

Result<LinearHead> load_head(const std::string& path, const std::vector<std::string>& labels) {
  MUNIA_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::open(path));
  MUNIA_ASSIGN_OR_RETURN(const auto file, files::Safetensors::parse(mapped.bytes(), path));
  HeadReader reader(*file, path);
  LinearHead head;
  head.layers = layers_of(*file, labels.front());
  if (head.layers.empty()) {
    return reader.invalid("the head has no layers for the label \"" + labels.front() + "\"");
  }
  const files::TensorView* const first =
      file->find_tensor(state_name(labels.front(), head.layers.front(), kPools[0]));
  if (first == nullptr || first->shape.size() != 1 || first->shape[0] < 1) {
    return reader.invalid("the head's layer " + std::to_string(head.layers.front()) +
                          " has no states of the last token");
  }
  head.hidden_dim = first->shape[0];
  head.logistic.n_features = head.layers.size() * 2 * static_cast<std::size_t>(head.hidden_dim);
  for (const std::string& label : labels) {
    for (const std::int64_t layer : head.layers) {
      for (const char* pool : kPools) {
        MUNIA_RETURN_IF_ERROR(
            reader.append(state_name(label, layer, pool), head.hidden_dim, head.logistic.weights));
      }
    }
    MUNIA_RETURN_IF_ERROR(reader.append(label + "/bias", 1, head.logistic.bias));
  }
  return head;
}

}  // namespace munia::tasks
