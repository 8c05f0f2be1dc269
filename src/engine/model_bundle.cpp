#include "engine/model_bundle.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "files/gguf.h"
#include "text/chat.h"

namespace munia::engine {
namespace {

namespace json = boost::json;

std::string display_name(const std::string& path) {
  std::filesystem::path p(path);
  if (!p.has_filename()) p = p.parent_path();
  const bool one_file = p.extension() == ".gguf" || p.extension() == ".munia";
  return one_file ? p.stem().string() : p.filename().string();
}

Error no_template() {
  return {ErrorCode::kUnsupported,
          "this model has no chat template; use plain text (generate, the task sentiment-raw)"};
}

// A GGUF file names one end token where the model's own generation_config.json has several; these
// special tokens end a text in every family that munia runs.
constexpr std::string_view kEndTokens[] = {"<|endoftext|>", "<|im_end|>", "<|eot_id|>",
                                           "<|end_of_text|>"};

// What the template writes behind an assistant's text, up to its first special token: the end of a
// turn. Empty when it writes none.
std::vector<std::int32_t> find_turn_end(const ModelBundle& bundle) {
  json::object context;
  context["messages"] = json::array{json::object{{"role", "user"}, {"content", "x"}},
                                    json::object{{"role", "assistant"}, {"content", "y"}}};
  context["add_generation_prompt"] = false;
  const Result<text::MarkedText> rendered = bundle.render(context);
  if (!rendered) return {};
  const std::size_t last_user_byte = rendered->trusted.rfind('\0');
  if (last_user_byte == std::string::npos) return {};
  const Result<std::vector<text::TokenId>> ids =
      bundle.tokenizer->encode(rendered->substr(last_user_byte + 1, std::string::npos));
  if (!ids) return {};
  const auto special = std::find_if(
      ids->begin(), ids->end(), [&](text::TokenId id) { return bundle.tokenizer->is_special(id); });
  if (special == ids->end()) return {};
  return {ids->begin(), special + 1};
}

// What `path` names, opened; neither of both for a directory.
struct Container {
  std::unique_ptr<files::GgufFile> gguf;
  std::shared_ptr<const files::MuniaFile> packed;
};

Container open_container(const std::string& path) {
  Container container;
  if (std::filesystem::is_directory(path)) return container;
  if (std::filesystem::path(path).extension() == ".munia" ||
      files::MuniaFile::is_munia_file(path)) {
    container.packed = files::MuniaFile::open(path, kernels::kPackedLayout).value_or_throw();
  } else {
    container.gguf = files::GgufFile::open(path).value_or_throw();
  }
  return container;
}

std::string read_text_part(const files::MuniaFile& file, const files::MuniaPart& part) {
  const std::span<const std::byte> bytes = file.bytes(part);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void load_packed_tokenizer(ModelBundle& bundle, const files::MuniaFile& file) {
  const files::MuniaPart* tokenizer = file.find("tokenizer");
  if (tokenizer == nullptr) {
    throw LoadError({ErrorCode::kInvalidData,
                     file.name() + ": the part \"tokenizer\" is missing; pack the model again"});
  }
  bundle.tokenizer =
      text::Tokenizer::from_packed(file.bytes(*tokenizer), file.name()).value_or_throw();
  if (const files::MuniaPart* source = file.find("chat_template")) {
    bundle.template_source = read_text_part(file, *source);
  }
}

void load_text(ModelBundle& bundle, const Container& container) {
  std::string& source = bundle.template_source;
  if (container.packed != nullptr) {
    load_packed_tokenizer(bundle, *container.packed);
  } else if (container.gguf != nullptr) {
    bundle.tokenizer = text::Tokenizer::from_gguf(*container.gguf).value_or_throw();
    source = container.gguf->get_string("tokenizer.chat_template", "").value_or_throw();
  } else {
    bundle.tokenizer = text::Tokenizer::from_directory(bundle.path).value_or_throw();
    Result<std::string> found = text::find_chat_template_source(bundle.path);
    if (found) {
      source = *std::move(found);
    } else if (found.error().code != ErrorCode::kNotFound) {
      throw LoadError(found.error());
    }
  }
  if (source.empty()) return;
  Result<text::ChatTemplate> parsed = text::ChatTemplate::parse(source);
  if (!parsed) {
    throw LoadError({parsed.error().code, bundle.path + ": the chat template cannot be used: " +
                                              parsed.error().message});
  }
  bundle.chat_template = *std::move(parsed);
  bundle.turn_end = find_turn_end(bundle);
}

}  // namespace

Result<text::MarkedText> ModelBundle::render(const json::object& context) const {
  if (!chat_template) return no_template();
  json::object full = context;
  const auto add_token = [&](const char* key, std::optional<text::TokenId> id) {
    if (id && !full.contains(key)) full[key] = tokenizer->token_bytes(*id);
  };
  add_token("bos_token", tokenizer->bos_token());
  add_token("eos_token", tokenizer->eos_token());
  return text::render_chat(*chat_template, std::move(full));
}

Result<std::vector<std::int32_t>> ModelBundle::render_ids(const json::object& context) const {
  MUNIA_ASSIGN_OR_RETURN(const text::MarkedText rendered, render(context));
  return tokenizer->encode(rendered);
}

std::shared_ptr<const decode::TokenIndex> ModelBundle::token_index() const {
  std::call_once(token_index_once_, [this] {
    std::vector<std::string> token_bytes(static_cast<std::size_t>(model->config().vocab_size));
    for (std::size_t i = 0; i < token_bytes.size(); ++i) {
      const auto id = static_cast<std::int32_t>(i);
      if (!tokenizer->is_special(id)) token_bytes[i] = tokenizer->token_bytes(id);
    }
    token_index_ = std::make_shared<decode::TokenIndex>(std::move(token_bytes));
  });
  return token_index_;
}

Result<std::shared_ptr<decode::Constraint>> ModelBundle::begin_constraint(
    const grammar::GrammarPtr& grammar) const {
  auto constraint = std::make_shared<decode::Constraint>(token_index(), grammar);
  (void)constraint->allowed();
  MUNIA_RETURN_IF_ERROR(constraint->status());
  constraint->shrink();
  return constraint;
}

Result<std::vector<std::int32_t>> ModelBundle::plain_ids(std::string_view text,
                                                         bool parse_special) const {
  MUNIA_ASSIGN_OR_RETURN(std::vector<text::TokenId> ids, parse_special
                                                             ? tokenizer->encode_with_special(text)
                                                             : tokenizer->encode(text));
  if (tokenizer->adds_bos() && tokenizer->bos_token()) {
    ids.insert(ids.begin(), *tokenizer->bos_token());
  }
  return ids;
}

std::shared_ptr<const ModelBundle> load_bundle(const std::string& path,
                                               const BundleOptions& options, ThreadPool& pool) {
  const auto begin = std::chrono::steady_clock::now();
  auto bundle = std::make_shared<ModelBundle>();
  bundle->path = path;
  bundle->name = display_name(path);
  model::Model::Options model_options;
  model_options.kernels = kernels::select_kernels(options.isa);
  model_options.context = options.context;
  model_options.head = options.head;
  model_options.weights = options.weights;
  if (model_options.kernels == nullptr) {
    std::string known;
    const kernels::KernelList list = kernels::available_kernels();
    for (int i = 0; i < list.n_rungs; ++i) {
      known += std::string(i > 0 ? ", " : "") + list.rungs[i]->name;
    }
    throw LoadError({ErrorCode::kInvalidArgument,
                     "this machine has no kernels named \"" + options.isa + "\"; it has " + known});
  }
  const Container container = open_container(path);
  if (container.packed != nullptr) {
    if (options.verify) model::verify_packed(*container.packed, pool).throw_if_error();
    bundle->model = model::Model::load_packed(container.packed, options.load, model_options, pool);
  } else if (container.gguf != nullptr) {
    bundle->model = model::Model::load_gguf(*container.gguf, model_options, pool);
  } else {
    bundle->model = model::Model::load_directory(path, model_options, pool);
  }
  load_text(*bundle, container);
  const model::ModelConfig& config = bundle->model->config();
  if (bundle->tokenizer->vocab_size() > config.vocab_size) {
    throw LoadError({ErrorCode::kInvalidData, path + ": the tokenizer has " +
                                                  std::to_string(bundle->tokenizer->vocab_size()) +
                                                  " tokens, the model only " +
                                                  std::to_string(config.vocab_size)});
  }
  bundle->eos_ids = config.eos_ids;
  const auto add_eos = [&](std::int32_t id) {
    std::vector<std::int32_t>& ids = bundle->eos_ids;
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  };
  if (const auto eos = bundle->tokenizer->eos_token()) add_eos(*eos);
  if (!bundle->turn_end.empty()) add_eos(bundle->turn_end.back());
  if (container.gguf != nullptr) {
    for (const std::string_view token : kEndTokens) {
      const auto id = bundle->tokenizer->find(token);
      if (id && bundle->tokenizer->is_special(*id)) add_eos(*id);
    }
  }
  // An id that has no logit never ends anything.
  std::erase_if(bundle->eos_ids, [&](std::int32_t id) { return id >= config.vocab_size; });
  bundle->load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return bundle;
}

std::shared_ptr<const ModelBundle> load_text_bundle(const std::string& path) {
  auto bundle = std::make_shared<ModelBundle>();
  bundle->path = path;
  bundle->name = display_name(path);
  load_text(*bundle, open_container(path));
  return bundle;
}

Result<std::uint64_t> pack_bundle(const ModelBundle& bundle, const model::Model& model,
                                  const std::string& path, const std::string& producer,
                                  const files::MuniaFileWriter::Callbacks& callbacks) {
  files::MuniaFileWriter writer({std::string(kernels::kPackedLayout),
                                 std::string(weight_mode_name(model.weights().mode)), producer});
  model::ModelConfig config = model.config();
  config.eos_ids = bundle.eos_ids;  // with those that only the source's other parts tell
  writer.add_bytes("config", model::config_to_packed(config));
  writer.add_bytes("tokenizer", bundle.tokenizer->pack());
  if (bundle.chat_template) writer.add_bytes("chat_template", bundle.template_source);
  model::add_weights(config, model.weights(), writer);
  model::add_head_screen(model.head_screen(), writer);
  return writer.write(path, callbacks);
}

}  // namespace munia::engine
