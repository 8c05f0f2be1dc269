#include "tiny_model.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "base/mapped_file.h"

namespace munia::test {
namespace {

namespace json = boost::json;
const std::string kTests = std::string(MUNIA_SOURCE_DIR) + "/tests/";
constexpr std::int64_t kMaxTokens = 320;

template <class T>
std::vector<T> read_array(const json::object& golden, std::span<const std::byte> bytes,
                          const std::string& name) {
  const json::object& entry = golden.at("arrays").at(name).as_object();
  std::size_t n = 1;
  for (const json::value& dim : entry.at("shape").as_array()) n *= dim.to_number<std::size_t>();
  const auto offset = entry.at("offset").to_number<std::size_t>();
  if (offset + n * sizeof(T) > bytes.size()) throw std::runtime_error("golden.bin is too short");
  std::vector<T> out(n);
  std::memcpy(out.data(), bytes.data() + offset, n * sizeof(T));
  return out;
}

}  // namespace

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kTests + "goldens/tiny")) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Golden load_golden(const std::string& name) {
  const std::string dir = kTests + "goldens/tiny/" + name;
  const json::value parsed =
      json::parse(read_file(dir + "/golden.json", std::size_t{16} << 20).value_or_throw());
  const MappedFile file = MappedFile::open(dir + "/golden.bin").value_or_throw();
  const json::object& object = parsed.as_object();
  Golden golden;
  golden.name = name;
  golden.models = json::value_to<std::vector<std::string>>(object.at("models"));
  golden.prompts = json::value_to<std::vector<std::vector<std::int32_t>>>(object.at("prompts"));
  golden.hidden_f32 = read_array<float>(object, file.bytes(), "hidden_f32");
  golden.hidden_f64 = read_array<double>(object, file.bytes(), "hidden_f64");
  golden.logits_f32 = read_array<float>(object, file.bytes(), "logits_f32");
  golden.logits_f64 = read_array<double>(object, file.bytes(), "logits_f64");
  golden.last_logits_f32 = read_array<float>(object, file.bytes(), "last_logits_f32");
  golden.last_logits_f64 = read_array<double>(object, file.bytes(), "last_logits_f64");
  return golden;
}

std::unique_ptr<model::Model> load_tiny_model(const std::string& name, const std::string& isa,
                                              ThreadPool& pool, model::HeadMode head) {
  const std::string path = name[0] == '/' ? name : kTests + "models/" + name;
  const model::Model::Options options{kernels::select_kernels(isa), 0, head};
  if (!std::filesystem::is_directory(path)) {
    const auto file = files::GgufFile::open(path).value_or_throw();
    return model::Model::load_gguf(*file, options, pool);
  }
  return model::Model::load_directory(path, options, pool);
}

std::vector<std::string> rung_names() {
  std::vector<std::string> names;
  const kernels::KernelList list = kernels::available_kernels();
  for (int i = 0; i < list.n_rungs; ++i) names.emplace_back(list.rungs[i]->name);
  if (kernels::select_kernels("amx-emulated") != nullptr) names.emplace_back("amx-emulated");
  return names;
}

bool has_own_order(const std::string& isa) {
  const kernels::Kernels& rung = *kernels::select_kernels(isa);
  for (int type = 0; type <= static_cast<int>(kernels::WeightType::kQ6K); ++type) {
    const auto& reference = kernels::byte_reference(rung, static_cast<kernels::WeightType>(type));
    if (&reference != kernels::select_kernels("scalar")) return true;
  }
  return false;
}

Runner::Runner(const std::string& model_name, const std::string& isa, int n_threads,
               model::HeadMode head)
    : pool_({.n_threads = n_threads, .cpus = {}, .spin_us = 20}),
      model_(load_tiny_model(model_name, isa, pool_, head)),
      kv_pool_(std::make_shared<model::KvPool>(model_->kv_layout(), std::size_t{64} << 20)),
      activations_(model_->config(), model_->kernels(), n_threads,
                   {.max_tokens = kMaxTokens,
                    .max_logit_rows = kMaxTokens,
                    .max_sequences = kMaxTokens,
                    .max_keys = model_->context()}) {}

void Runner::forward(model::Batch& batch) {
  for (model::SequenceSlice& slice : batch.sequences) {
    if (!slice.kv->reserve(static_cast<std::int64_t>(slice.tokens.size()))) {
      throw std::runtime_error("KV pool of the test is too small");
    }
  }
  model_->forward(batch, activations_, pool_);
}

std::vector<float> Runner::logits(model::KvCache& cache, const std::vector<std::int32_t>& tokens,
                                  std::int64_t chunk) {
  std::vector<float> out;
  for (std::size_t begin = 0; begin < tokens.size(); begin += static_cast<std::size_t>(chunk)) {
    model::SequenceSlice slice;
    slice.kv = &cache;
    slice.tokens = std::span(tokens).subspan(
        begin, std::min(static_cast<std::size_t>(chunk), tokens.size() - begin));
    for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
      slice.logit_rows.push_back(static_cast<std::int64_t>(i));
    }
    model::Batch batch;
    batch.sequences.push_back(slice);
    forward(batch);
    for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
      const std::span<float> row = activations_.logits(static_cast<std::int64_t>(i));
      out.insert(out.end(), row.begin(), row.end());
    }
  }
  return out;
}

}  // namespace munia::test
