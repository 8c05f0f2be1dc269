#include "model/architecture.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/error.h"
#include "model/config_keys.h"

namespace munia::model {
namespace {

constexpr std::array<const Architecture*, 4> kAll = {&kQwen2, &kQwen3, &kLlama, &kMistral};

struct RoleNames {
  std::string_view role;
  std::string_view hf;    // below model.layers.N. for block roles, whole otherwise
  std::string_view gguf;  // below blk.N. for block roles, whole otherwise
};

constexpr RoleNames kBlockRoles[] = {
    {"attn_norm", "input_layernorm", "attn_norm"},
    {"q", "self_attn.q_proj", "attn_q"},
    {"k", "self_attn.k_proj", "attn_k"},
    {"q_norm", "self_attn.q_norm", "attn_q_norm"},
    {"k_norm", "self_attn.k_norm", "attn_k_norm"},
    {"v", "self_attn.v_proj", "attn_v"},
    {"o", "self_attn.o_proj", "attn_output"},
    {"ffn_norm", "post_attention_layernorm", "ffn_norm"},
    {"gate", "mlp.gate_proj", "ffn_gate"},
    {"up", "mlp.up_proj", "ffn_up"},
    {"down", "mlp.down_proj", "ffn_down"},
};
constexpr RoleNames kOuterRoles[] = {
    {"embedding", "model.embed_tokens", "token_embd"},
    {"final_norm", "model.norm", "output_norm"},
    {"head", "lm_head", "output"},
};

const RoleNames& find_role(const std::string& role, std::int64_t layer) {
  const std::span<const RoleNames> roles = layer >= 0 ? std::span<const RoleNames>(kBlockRoles)
                                                      : std::span<const RoleNames>(kOuterRoles);
  const auto names = std::find_if(roles.begin(), roles.end(),
                                  [role](const RoleNames& n) { return n.role == role; });
  MUNIA_CHECK(names != roles.end());
  return *names;
}

}  // namespace

const Architecture* find_architecture(std::string_view name_or_class) {
  for (const Architecture* architecture : kAll) {
    if (architecture->name == name_or_class || architecture->hf_class == name_or_class) {
      return architecture;
    }
  }
  return nullptr;
}

const Architecture* find_gguf_architecture(std::string_view gguf_name) {
  for (const Architecture* architecture : kAll) {
    if (!gguf_name.empty() && architecture->gguf_name == gguf_name) return architecture;
  }
  return nullptr;
}

Status read_switched_window(const ConfigKeys& keys, ModelConfig& config) {
  MUNIA_ASSIGN_OR_RETURN(const bool slides, keys.get_bool("use_sliding_window", false));
  if (!slides) return {};
  MUNIA_ASSIGN_OR_RETURN(const std::int64_t window, keys.get_int("sliding_window", {}));
  return end_context_with_window(keys.where(), window, config);
}

std::string supported_architectures() {
  std::string list;
  for (const Architecture* architecture : kAll) {
    if (!list.empty()) list += ", ";
    list += architecture->name;
    list += " (";
    list += architecture->hf_class;
    list += ")";
  }
  return list;
}

std::string hf_tensor_name(const std::string& role, std::int64_t layer, const std::string& suffix) {
  const std::string name(find_role(role, layer).hf);
  const std::string prefix = layer >= 0 ? "model.layers." + std::to_string(layer) + "." : "";
  return prefix + name + "." + suffix;
}

std::string gguf_tensor_name(const std::string& role, std::int64_t layer,
                             const std::string& suffix) {
  const std::string name(find_role(role, layer).gguf);
  const std::string prefix = layer >= 0 ? "blk." + std::to_string(layer) + "." : "";
  return prefix + name + "." + suffix;
}

}  // namespace munia::model
