// The flat form of a tokenizer for packed files: tokens as bytes, merges as ids, so that making it
// is filling two tables. Little-endian:
//   u32 version; u8 nfc, ignore_merges, fuse_unknown, adds_bos; i32 unknown, bos, eos (-1: none);
//   u8 number of steps, u8 each; u32 number of added tokens, each: u32 size, text, i32 id,
//   u8 flags;
//   u32 n_ids, u8 kind of each, u32 size of each, u64 size of all, their bytes;
//   u32 number of merges, i32 left, right, joined of each, by rank.
// All counts and ids are checked: the bytes may come from anywhere.
#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "files/byte_stream.h"
#include "text/tokenizer_spec.h"
#include "text/tokenizer_state.h"

namespace munia::text {
namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kMaxSteps = 8;

constexpr std::uint8_t kSpecial = 1;
constexpr std::uint8_t kNormalized = 2;
constexpr std::uint8_t kLstrip = 4;
constexpr std::uint8_t kRstrip = 8;
constexpr std::uint8_t kSingleWord = 16;

class Unpacker {
 public:
  Unpacker(std::span<const std::byte> bytes, TokenizerSpec& spec) : in_(bytes), spec_(spec) {}

  Result<Bpe> unpack() {
    const auto version = in_.number<std::uint32_t>();
    if (!in_.ok()) return damaged();
    if (version != kVersion) {
      return not_supported(spec_, "the packed tokenizer is of version " + std::to_string(version) +
                                      ", this munia reads version " + std::to_string(kVersion) +
                                      "; pack the model again");
    }
    MUNIA_RETURN_IF_ERROR(read_settings());
    MUNIA_ASSIGN_OR_RETURN(TokenTable tokens, read_tokens());
    const auto n_merges = in_.number<std::uint32_t>();
    if (n_merges > in_.n_left() / (3 * sizeof(TokenId))) return damaged();
    const auto inside = [&](TokenId id) { return id >= 0 && id < n_ids_; };
    for (const auto& id : {unknown_, spec_.bos, spec_.eos}) {
      if (id && !inside(*id)) return damaged();
    }
    for (const AddedToken& token : spec_.added) {
      if (!inside(token.id)) return damaged();
    }
    Bpe bpe(std::move(tokens), n_merges, {spec_.ignore_merges, unknown_, spec_.fuse_unknown});
    for (const AddedToken& token : spec_.added) {
      if (token.special) bpe.forbid(token.id);
    }
    for (std::uint32_t i = 0; i < n_merges; ++i) {
      const auto left = in_.number<TokenId>();
      const auto right = in_.number<TokenId>();
      const auto joined = in_.number<TokenId>();
      if (!inside(left) || !inside(right) || !inside(joined)) return damaged();
      bpe.add_merge(left, right, joined);
    }
    if (!in_.at_end()) return damaged();
    bpe.finish();
    return bpe;
  }

 private:
  Error damaged() const {
    return bad_data(spec_, "the packed tokenizer is damaged; pack the model again");
  }

  std::optional<TokenId> read_id() {
    const auto id = in_.number<TokenId>();
    return id == -1 ? std::nullopt : std::optional<TokenId>(id);
  }

  Status read_settings() {
    spec_.nfc = in_.number<std::uint8_t>() != 0;
    spec_.ignore_merges = in_.number<std::uint8_t>() != 0;
    spec_.fuse_unknown = in_.number<std::uint8_t>() != 0;
    spec_.adds_bos = in_.number<std::uint8_t>() != 0;
    unknown_ = read_id();
    spec_.bos = read_id();
    spec_.eos = read_id();
    const auto n_steps = in_.number<std::uint8_t>();
    if (n_steps > kMaxSteps) return damaged();
    for (int i = 0; i < n_steps; ++i) {
      const auto step = in_.number<std::uint8_t>();
      if (step > static_cast<std::uint8_t>(kLastSplitStep)) return damaged();
      spec_.steps.push_back(static_cast<SplitStep>(step));
    }
    const auto n_added = in_.number<std::uint32_t>();
    if (n_added > in_.n_left()) return damaged();
    for (std::uint32_t i = 0; i < n_added; ++i) {
      AddedToken token;
      token.content = std::string(in_.text(in_.number<std::uint32_t>()));
      token.id = in_.number<TokenId>();
      const auto flags = in_.number<std::uint8_t>();
      token.special = (flags & kSpecial) != 0;
      token.normalized = (flags & kNormalized) != 0;
      token.lstrip = (flags & kLstrip) != 0;
      token.rstrip = (flags & kRstrip) != 0;
      token.single_word = (flags & kSingleWord) != 0;
      if (!in_.ok() || find_invalid_utf8(token.content)) return damaged();
      spec_.added.push_back(std::move(token));
    }
    return {};
  }

  Result<TokenTable> read_tokens() {
    const auto n_ids = in_.number<std::uint32_t>();
    if (n_ids == 0 || n_ids > kMaxTokenId + 1) return damaged();
    n_ids_ = static_cast<TokenId>(n_ids);
    const std::span<const std::byte> kinds = in_.take(n_ids);
    files::ByteReader sizes(in_.take(std::uint64_t{n_ids} * sizeof(std::uint32_t)));
    const auto n_bytes = in_.number<std::uint64_t>();
    files::ByteReader bytes(in_.take(n_bytes));
    if (!in_.ok() || n_bytes > ~std::uint32_t{0}) return damaged();
    TokenTable tokens(n_ids, n_ids, n_bytes);
    for (TokenId id = 0; id < n_ids_; ++id) {
      const auto kind = std::to_integer<std::uint8_t>(kinds[static_cast<std::size_t>(id)]);
      if (kind > static_cast<std::uint8_t>(TokenTable::Kind::kUnlisted)) return damaged();
      tokens.add(id, static_cast<TokenTable::Kind>(kind),
                 bytes.text(sizes.number<std::uint32_t>()));
    }
    if (!bytes.at_end()) return damaged();
    return tokens;
  }

  files::ByteReader in_;
  TokenizerSpec& spec_;
  std::optional<TokenId> unknown_;
  TokenId n_ids_ = 0;
};

}  // namespace

std::string Tokenizer::pack() const {
  const State& s = *state_;
  const TokenTable& tokens = s.bpe.tokens();
  files::ByteWriter out;
  out.number(kVersion);
  for (const bool flag :
       {s.nfc, s.bpe.options().ignore_merges, s.bpe.options().fuse_unknown, s.adds_bos}) {
    out.number(static_cast<std::uint8_t>(flag));
  }
  for (const auto& id : {s.bpe.options().unknown, s.bos, s.eos}) out.number(id.value_or(-1));
  out.number(static_cast<std::uint8_t>(s.steps.size()));
  for (const SplitStep step : s.steps) out.number(static_cast<std::uint8_t>(step));
  out.number(static_cast<std::uint32_t>(s.added.size()));
  for (const AddedToken& token : s.added) {
    out.number(static_cast<std::uint32_t>(token.content.size()));
    out.raw(token.content);
    out.number(token.id);
    out.number(static_cast<std::uint8_t>(
        (token.special ? kSpecial : 0) | (token.normalized ? kNormalized : 0) |
        (token.lstrip ? kLstrip : 0) | (token.rstrip ? kRstrip : 0) |
        (token.single_word ? kSingleWord : 0)));
  }
  const auto n_ids = static_cast<TokenId>(tokens.n_ids());
  std::string kinds;
  std::string bytes;
  files::ByteWriter sizes;
  for (TokenId id = 0; id < n_ids; ++id) {
    kinds += static_cast<char>(tokens.kind(id));
    sizes.number(static_cast<std::uint32_t>(tokens.bytes(id).size()));
    bytes += tokens.bytes(id);
  }
  out.number(static_cast<std::uint32_t>(n_ids));
  out.raw(kinds);
  out.raw(sizes.take());
  out.number(static_cast<std::uint64_t>(bytes.size()));
  out.raw(bytes);
  const std::vector<Bpe::Merge> merges = s.bpe.merges();
  out.number(static_cast<std::uint32_t>(merges.size()));
  for (const Bpe::Merge& merge : merges) {
    out.number(merge.left);
    out.number(merge.right);
    out.number(merge.joined);
  }
  return out.take();
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_packed(std::span<const std::byte> bytes,
                                                          std::string name) {
  TokenizerSpec spec;
  spec.name = std::move(name);
  MUNIA_ASSIGN_OR_RETURN(Bpe bpe, Unpacker(bytes, spec).unpack());
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::make_unique<State>(std::move(bpe), spec)));
}

}  // namespace munia::text
